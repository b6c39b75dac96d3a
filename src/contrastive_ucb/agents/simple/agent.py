"""SimPLe (Kaiser et al. 2020): PPO in a world model that is learned from real steps.

1. The replay memory stores real steps.
2. `ModelLearner` trains the world model on windows of them. An update predicts `unroll` steps. The
   inputs of the first step are real frames; those of later steps include the model's own
   predictions with increasing probability (scheduled sampling), so that it learns to continue from
   its own errors.
3. `rollouts` simulates steps in the world model, starting from stored observations.
4. `PPO` (Schulman et al. 2017) trains the policy on simulated steps only:

| symbol      | here          | shape   |                                                     |
|-------------|---------------|---------|-----------------------------------------------------|
| r_t         | `rewards`     | (T, B)  |                                                     |
| V(s_t)      | `values`      | (T+1, B)| the last row is for the states after the last step  |
| gamma, lambda | `discount`, `trace` |   |                                                     |
| A_t         | `advantages`  | (T, B)  | generalized advantage estimates                     |
| pi/pi_old   | `ratio`       | (n,)    | probability of the action, now and when taken       |
| epsilon     | `clip`        |         | clipping range of the ratio                         |

`trainer.py` schedules these phases.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.network import Inputs, error_location, gradient_step, not_finite
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.history import Frames, Windows, read_windows
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import atoms, cross_entropy, project_categorical
from contrastive_ucb.representation.encoders import Encoder, linear
from contrastive_ucb.representation.world_model import WorldModel, sample_categorical

# Name: random stream. The names of the streams determine the numbers, so "dream" stays.
STREAMS = {"model": "model", "rollouts": "dream", "ppo": "ppo"}
SMALLEST_DEVIATION = 1e-8  # added to the standard deviation of advantages
MEASURED = 10_000  # latest steps from which the range of vectors is measured


class Simple:
    """The learner: a world model and a policy that is trained in it.

    frame_shape  of one frame, (C, H, W) of uint8 or (dim,) of float32
    stack        frames per observation of the policy
    value_range  smallest and largest return: the range of predicted rewards unless
                 `config.support` is set
    """

    bonus: None = None  # exploration by the stochastic policy only

    def __init__(
        self,
        config: SimpleConfig,
        frame_shape: tuple[int, ...],
        stack: int,
        n_actions: int,
        value_range: tuple[float, float],
        seed: int,
        device: torch.device | str = "cpu",
    ):
        self.config, self.frame_shape = config, frame_shape
        plain = RainbowConfig(frame_max=config.frame_max, augment=False)
        self.inputs = Inputs(frame_shape, stack, plain, device)
        self.history = max(config.history, stack)  # input frames of the world model
        rng = stream(seed, "weights")
        model = WorldModel(
            frame_shape,
            self.history,
            n_actions,
            config.reward_atoms,
            rng,
            frame_max=self.inputs.frame_max,
            width=config.width,
            halvings=config.halvings,
            doublings=config.doublings,
            middle=config.middle,
            n_bits=config.bits,
            hidden=config.model_hidden,
            pull=config.bits_pull,
        ).to(device)
        support = atoms(*(config.support or value_range), config.reward_atoms).to(device)
        self.world = ModelLearner(model, support, config)
        self.ppo = PPO(ActorCritic(self.inputs.shape, n_actions, config, rng).to(device), config)
        self.streams = {name: stream(seed, label) for name, label in STREAMS.items()}

    @property
    def n_updates(self) -> int:
        """Number of updates of the world model and the policy together."""
        return self.world.n_updates + self.ppo.n_updates

    def new_replay(self) -> Replay:
        """An empty replay memory; its observations are the inputs of the world model."""
        return Replay(
            self.config.replay_capacity,
            self.frame_shape,
            self.inputs.dtype,
            stack=self.history,
            jumps=self.config.unroll,
        )

    @torch.no_grad()
    def act(self, observation: Frames, uniform: float) -> int:
        """An action sampled from the policy, for a stored observation (history * C, ...)."""
        newest = observation[None, -self.inputs.shape[0] :]
        logits, _ = self.ppo.network(self.inputs.plain(newest))
        if not torch.isfinite(logits).all():
            self.check_finite()
            raise ArithmeticError(f"the logits of the policy are {logits[0].tolist()}")
        return int(sample_categorical(logits.log_softmax(-1), logits.new_tensor([uniform])))

    @torch.no_grad()
    def best(self, observations: Frames) -> IntArray:
        """The most likely actions (B,) for observations (B, stack * C, ...), for evaluation."""
        logits, _ = self.ppo.network(self.inputs.plain(observations))
        return np.asarray(logits.argmax(-1).cpu())

    @torch.no_grad()
    def values(self, observation: Frames) -> tuple[Array, None]:
        """Log-probabilities of the actions (A,) for one observation, shifted so that the largest
        equals the value of the state; SimPLe has no bonus."""
        logits, value = self.ppo.network(self.inputs.plain(observation[None]))
        return np.asarray((logits - logits.max() + value)[0].cpu(), dtype=np.float64), None

    def update_model(self, replay: Replay) -> dict[str, float]:
        """One update of the world model; returns its metrics."""
        return self.world.update(replay, self.streams["model"])

    def update_policy(self, replay: Replay) -> dict[str, float]:
        """One round of model rollouts and PPO on them; returns the metrics of both."""
        config, world = self.config, self.world
        batch = rollouts(
            world.model,
            self.ppo.network,
            world.support,
            replay,
            self.streams["rollouts"],
            config.rollout_steps,
            config.rollouts,
        )
        metrics = self.ppo.learn(batch, world.model.scaled, self.streams["ppo"])
        metrics["charts/dreamt_reward"] = batch.rewards.mean().item()
        metrics["charts/dreamt_ends"] = batch.ended.mean().item()
        return metrics

    def check_finite(self) -> None:
        """Raise ArithmeticError if a weight is not finite."""
        for name, part in (("world model", self.world.model), ("policy", self.ppo.network)):
            if broken := not_finite(part.state_dict()):
                raise ArithmeticError(
                    f"{broken} of the {name} is not finite after update {self.n_updates}"
                )

    def state_dict(self) -> dict[str, Any]:
        """A copy, which later updates do not change."""
        streams = {name: stream_state(rng) for name, rng in self.streams.items()}
        return {
            "world": self.world.state_dict(),
            "ppo": self.ppo.state_dict(),
            "streams": copy.deepcopy(streams),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.world.load_state_dict(state["world"])
        self.ppo.load_state_dict(state["ppo"])
        self.streams = {name: restore_stream(rng) for name, rng in state["streams"].items()}


# --- Training of the world model ------------------------------------------------------------------


class Optimized:
    """A network with its optimizer and the number of updates; base class of the two below."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer):
        self.trained, self.optimizer, self.n_updates = network, optimizer, 0

    def state_dict(self) -> dict[str, Any]:
        """A copy, which later updates do not change."""
        state = {
            "network": dict(self.trained.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "n_updates": self.n_updates,
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.trained.load_state_dict(state["network"])
        self.optimizer.load_state_dict(copy.deepcopy(dict(state["optimizer"])))
        self.n_updates = state["n_updates"]


class ModelLearner(Optimized):
    """A world model and its optimizer.

    support  (N,)  atoms of the reward
    """

    def __init__(self, model: WorldModel, support: Tensor, config: SimpleConfig):
        self.model, self.support, self.config = model, support, config
        parameters, rate = model.parameters(), config.model_learning_rate
        super().__init__(model, torch.optim.Adam(parameters, rate, fused=True))

    def measure(self, replay: Replay) -> None:
        """Measure the range of vectors on the latest steps; images have a fixed range."""
        if self.model.kind == "gaussian":
            windows = read_windows(replay.history, replay.drawable()[-MEASURED:], 1)
            frames = torch.from_numpy(windows.frames[:, -2:]).to(self.support.device)
            self.model.measure(frames.flatten(0, 1), (frames[:, 1] - frames[:, 0]))

    def update(self, replay: Replay, rng: np.random.Generator) -> dict[str, float]:
        """One update; returns its losses. A NaN raises ArithmeticError and changes no weight."""
        with error_location(self.model, f"update {self.n_updates + 1} of the world model"):
            metrics = self._update(replay, rng)
        self.n_updates += 1
        return metrics

    def losses(self, windows: Windows, rng: np.random.Generator, own: float) -> dict[str, Tensor]:
        """The mean losses () over the steps of the windows.

        own  probability that the newest input frame of a later step is a prediction
        """
        model, config = self.model, self.config
        model.check(windows.frames)
        size, length = windows.actions.shape
        frames, actions = self.tensor(windows.frames), self.tensor(windows.actions)
        alive, has_target = self.floats(windows.alive), self.floats(windows.shown)
        ended, rewards = self.floats(windows.terminated), self.floats(windows.rewards)
        n_inputs = frames.shape[1] - length
        history = frames[:, :n_inputs].flatten(1, 2)
        totals = dict.fromkeys(("frame", "bits", "reward", "end"), alive.new_zeros(()))
        for step in range(length):
            target = frames[:, n_inputs + step]
            draws = self.floats(rng.random((size, config.bits + 1), dtype=np.float32))
            outcome, divergence = model.loss(history, actions[:, step], target, draws[:, 1:])
            frame = model.frame_loss(outcome, history, target, config.loss_floor)
            reward = cross_entropy(
                self.reward_mass(rewards[:, step]), outcome.reward.log_softmax(-1)
            )
            end = F.binary_cross_entropy_with_logits(outcome.end, ended[:, step], reduction="none")
            totals["frame"] = totals["frame"] + (has_target[:, step] * frame).sum()
            # Also at the end of an episode: otherwise the bits could encode the end at no cost, and
            # the prior would not learn to predict it.
            totals["bits"] = totals["bits"] + (alive[:, step] * divergence).sum()
            totals["reward"] = totals["reward"] + (alive[:, step] * reward).sum()
            totals["end"] = totals["end"] + (alive[:, step] * end).sum()
            predicted = model.draw_frame(outcome, history).detach()
            is_predicted = (draws[:, 0] < own).view(-1, *(1,) * (target.ndim - 1))
            newest = torch.where(is_predicted, predicted, target)
            history = torch.cat([history[:, target.shape[1] :], newest], dim=1)
        return {name: total / alive.sum() for name, total in totals.items()}

    def _update(self, replay: Replay, rng: np.random.Generator) -> dict[str, float]:
        config = self.config
        batch = replay.sample(rng.random(config.model_batch), importance_exponent=0.0)
        windows = read_windows(replay.history, batch.index, config.unroll)
        own = min(1.0, self.n_updates / max(1, config.own_frames_after))
        losses = self.losses(windows, rng, own)
        loss = config.frame_weight * (losses["frame"] + losses["bits"])
        loss = loss + losses["reward"] + losses["end"]
        if not torch.isfinite(loss):
            broken = not_finite(losses)
            raise ArithmeticError(f"the loss of the {broken} has a NaN or infinite entry")
        warmup = min(1.0, (self.n_updates + 1) / max(1, config.model_warmup))
        for group in self.optimizer.param_groups:
            group["lr"] = config.model_learning_rate * warmup
        groups = [(list(self.model.parameters()), config.model_clip_norm)]
        gradient_step(self.optimizer, self.model, groups, loss)
        return {f"losses/model_{name}": value.item() for name, value in losses.items()}

    def reward_mass(self, rewards: Tensor) -> Tensor:
        """Rewards (B,) as distributions on the two nearest atoms, (B, N)."""
        mass = rewards.new_zeros(len(rewards), len(self.support))
        mass[:, 0] = 1
        return project_categorical(self.support, rewards[:, None].expand_as(mass), mass)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.support.device)

    def floats(self, array: NDArray[Any]) -> Tensor:
        return self.tensor(array).float()


# --- Rollouts in the world model ------------------------------------------------------------------


@dataclass(frozen=True)
class Experience:
    """T steps of B rollouts.

    observations  (T, B, *shape)  as stored
    log_probs     (T, B)          of the actions (T, B), under the policy that took them
    rewards, ended  (T, B)
    values        (T + 1, B)
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    ended: Tensor
    values: Tensor


@torch.no_grad()
def rollouts(
    model: WorldModel,
    policy: ActorCritic,
    support: Tensor,
    replay: Replay,
    rng: np.random.Generator,
    steps: int,
    count: int,
) -> Experience:
    """`count` rollouts of `steps` steps. Rewards are the expected rewards of the model.

    When the model predicts the end of the episode, the rollout restarts from another stored
    observation. (In Kaiser et al. 2020, rollouts do not end early: they last 50 steps.)

    support  (N,)  atoms of the reward
    """
    device, (channels, *_) = support.device, model.frame_shape
    times = replay.drawable()
    starts = times[(rng.random((steps + 1, count)) * len(times)).astype(np.int64)]
    draws = torch.from_numpy(rng.random((steps, 2 + model.prior.n_groups, count), dtype=np.float32))
    history = torch.from_numpy(replay.history.observations(starts[0])).to(device)
    recorded: list[tuple[Tensor, ...]] = []
    values: list[Tensor] = []
    for step, (for_action, for_end, *for_bits) in enumerate(draws.to(device)):
        observation = history[:, -policy.shape[0] :]
        logits, value = policy(model.scaled(observation))
        log_probs = logits.log_softmax(-1)
        actions = sample_categorical(log_probs, for_action)
        outcome = model.predict(history, actions, torch.stack(for_bits, dim=1))
        ended = for_end < outcome.end.sigmoid()
        rewards = outcome.reward.softmax(-1) @ support
        taken = action_log_probs(log_probs, actions)
        recorded.append((observation, actions, taken, rewards, ended.float()))
        values.append(value)
        frame = model.draw_frame(outcome, history)
        history = torch.cat([history[:, channels:], frame], dim=1)
        if over := ended.cpu().numpy().nonzero()[0].tolist():
            again = replay.history.observations(starts[step + 1, over])
            history[over] = torch.from_numpy(again).to(device)
    values.append(policy(model.scaled(history[:, -policy.shape[0] :]))[1])
    columns = [list(part) for part in zip(*recorded, strict=True)]
    return Experience(*(torch.stack(part) for part in (*columns, values)))


# --- PPO ------------------------------------------------------------------------------------------


def gae(rewards: Tensor, values: Tensor, ended: Tensor, discount: float, trace: float) -> Tensor:
    """A_t = sum_k (gamma lambda)^k delta_{t+k}, delta_t = r_t + gamma V(s_{t+1}) - V(s_t).

    rewards, ended  (T, B); where `ended` is 1 the next value counts as 0
    values          (T + 1, B)
    """
    alive = 1 - ended
    deltas = rewards + discount * alive * values[1:] - values[:-1]
    decay = discount * trace * alive
    advantages = torch.empty_like(deltas)
    following = torch.zeros_like(deltas[0])
    for step in range(len(deltas) - 1, -1, -1):
        following = deltas[step] + decay[step] * following
        advantages[step] = following
    return advantages


def clipped_loss(log_ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """-min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A), (n,), of log ratios (n,)."""
    ratio = log_ratio.exp()
    return -torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def standardized(advantages: Tensor) -> Tensor:
    """Advantages (n,) with mean 0 and standard deviation 1."""
    return (advantages - advantages.mean()) / (advantages.std() + SMALLEST_DEVIATION)


def action_log_probs(log_probs: Tensor, actions: Tensor) -> Tensor:
    """The log-probabilities (n,) of actions (n,), from those of all actions (n, A)."""
    return log_probs.gather(1, actions[:, None])[:, 0]


class ActorCritic(nn.Module):
    """Observations (B, *shape) to logits of the actions (B, A) and values (B,)."""

    def __init__(
        self, shape: Sequence[int], n_actions: int, config: SimpleConfig, rng: np.random.Generator
    ):
        super().__init__()
        self.shape = tuple(shape)
        self.encoder = Encoder(shape, rng, config.encoder, hidden=config.mlp)
        self.body = linear(prod(self.encoder.latent_shape), config.hidden, rng)
        self.actor, self.critic = (
            linear(config.hidden, n_actions, rng),
            linear(config.hidden, 1, rng),
        )
        with torch.no_grad():
            for parameter in self.actor.parameters():
                parameter.mul_(0.01)  # the initial policy is nearly uniform

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(self.encoder(observations).flatten(1)).relu()
        return self.actor(hidden), self.critic(hidden)[:, 0]


class PPO(Optimized):
    """A policy and its optimizer."""

    def __init__(self, network: ActorCritic, config: SimpleConfig):
        self.network, self.config = network, config
        betas = config.adam_beta1, config.adam_beta2
        optimizer = torch.optim.Adam(
            network.parameters(), config.learning_rate, betas, config.adam_eps, fused=True
        )
        super().__init__(network, optimizer)

    def learn(
        self, steps: Experience, scaled: Callable[[Tensor], Tensor], rng: np.random.Generator
    ) -> dict[str, float]:
        """`config.passes` passes over the steps in batches; returns the mean losses.

        scaled  converts stored observations to inputs of the network
        """
        size, n = self.config.batch_size, steps.actions.numel()
        decay = self.config.discount, self.config.trace
        advantages = gae(steps.rewards, steps.values, steps.ended, *decay)
        observations = steps.observations.flatten(0, 1)
        columns = [
            part.flatten()
            for part in (steps.actions, steps.log_probs, advantages + steps.values[:-1])
        ]
        columns.append(standardized(advantages.flatten()))
        totals: dict[str, float] = {}
        count = 0
        for _ in range(self.config.passes):
            order = torch.from_numpy(rng.permutation(n)).to(steps.actions.device)
            for at in range(0, n, size):
                chosen = order[at : at + size]
                with error_location(self.network, f"update {self.n_updates + 1} of the policy"):
                    rows = (column[chosen] for column in columns)
                    losses = self._update(scaled(observations[chosen]), *rows)
                self.n_updates += 1
                for name, value in losses.items():
                    totals[name] = totals.get(name, 0.0) + value
                count += 1
        return {name: total / count for name, total in totals.items()}

    def _update(
        self,
        observations: Tensor,
        actions: Tensor,
        old_log_probs: Tensor,
        returns: Tensor,
        advantages: Tensor,
    ) -> dict[str, float]:
        """One update on inputs of the network (n, *shape) and columns (n,)."""
        config = self.config
        logits, values = self.network(observations)
        log_probs = logits.log_softmax(-1)
        log_ratio = action_log_probs(log_probs, actions) - old_log_probs
        policy = clipped_loss(log_ratio, advantages, config.clip).mean()
        value = (values - returns).square().mean() / 2
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        loss = policy + config.value_weight * value - config.entropy * entropy
        if not torch.isfinite(loss):
            parts = {"the observation": observations, "the advantage": advantages}
            parts |= {"the policy": logits, "the value": values, "the loss of PPO": loss}
            raise ArithmeticError(f"{not_finite(parts)} has a NaN or infinite entry")
        groups = [(list(self.network.parameters()), config.clip_norm)]
        gradient_step(self.optimizer, self.network, groups, loss)
        return {
            "losses/policy": policy.item(),
            "losses/value": value.item(),
            "losses/entropy": entropy.item(),
        }
