"""SimPLe (Kaiser et al. 2020): PPO in a world model that is learned from real steps.

1. The replay memory stores real steps.
2. `world_model_training.py` trains the world model on windows of them.
3. `rollouts` simulates steps in the world model, starting from stored observations.
4. `ppo.py` trains the policy on simulated steps only.

`trainer.py` schedules these phases.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.network import Inputs, not_finite
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.agents.simple.ppo import PPO, ActorCritic, Experience, action_log_probs
from contrastive_ucb.agents.simple.world_model_training import ModelLearner
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import atoms
from contrastive_ucb.representation.world_model import WorldModel, frame_kind, sample_categorical

# Name: random stream. The names of the streams determine the numbers, so "dream" stays.
STREAMS = {"model": "model", "rollouts": "dream", "ppo": "ppo"}


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
            kind=frame_kind(frame_shape, self.inputs.frame_max),
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
    def preferences(self, observation: Frames) -> Array:
        """Log-probabilities of the actions (A,) for one observation, shifted so that the largest
        equals the value of the state."""
        logits, value = self.ppo.network(self.inputs.plain(observation[None]))
        return np.asarray((logits - logits.max() + value)[0].cpu(), dtype=np.float64)

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
    history = torch.from_numpy(replay.observations(starts[0])).to(device)
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
            again = replay.observations(starts[step + 1, over])
            history[over] = torch.from_numpy(again).to(device)
    values.append(policy(model.scaled(history[:, -policy.shape[0] :]))[1])
    columns = [list(part) for part in zip(*recorded, strict=True)]
    return Experience(*(torch.stack(part) for part in (*columns, values)))
