"""The decoupled explorer: a second value function, learned from an intrinsic reward.

The learner itself is unchanged. In a share of the episodes the agent acts greedily in
Q + beta (Q_int + b) instead of as the learner, and the learner learns from both kinds of episodes.

| symbol | here              | shape  |                                                            |
|--------|-------------------|--------|------------------------------------------------------------|
| r_int  | `rewards`         | (B, n) | a bonus of the toolkit                                     |
| Q_int  | `IntrinsicQ`      | (B, A) | its value                                                  |
| b      | `next_bonus`      | (B, A) | the bonus of every action; 0 for bonuses of the next state |
| beta   | `intrinsic.scale` | ()     |                                                            |

The target of Q_int(s_t, a_t) is the n-step return of r_int plus discount**n (Q_int + b) at the
action that maximizes Q_int + b. Lifelong parts of bonuses are computed for the replayed transitions
with the present counts: a bonus that was stored at the visit would stay large for states that were
visited often since then. Episodic parts depend on the episode of the visit and are stored.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.agents.deep.config import ExplorerConfig, RainbowConfig
from contrastive_ucb.agents.deep.network import Inputs, error_location, gradient_step
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.history import Frames, History
from contrastive_ucb.data.nstep import n_step
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import huber, take_actions, td_target
from contrastive_ucb.representation.encoders import Encoder
from contrastive_ucb.representation.heads import DuelingHead

EPISODIC = "episodic"  # name of the stored episodic parts in the replay memory
STREAMS = ("explorer modes", "explorer replay")
HORIZON = 1000  # steps over which the scale of the bonus is averaged; bonuses shrink with time


class IntrinsicQ(nn.Module):
    """Observations (B, *shape) to Q_int (B, A)."""

    def __init__(
        self, shape: tuple[int, ...], n_actions: int, hidden: int, rng: np.random.Generator
    ):
        super().__init__()
        self.encoder = Encoder(shape, rng, hidden=(hidden,))
        inputs = prod(self.encoder.latent_shape)
        self.head = DuelingHead(inputs, n_actions, 1, rng, hidden, 1, dueling=False, sigma0=0.0)

    def forward(self, observations: Tensor) -> Tensor:
        values: Tensor = self.head(self.encoder(observations))
        return values[..., 0]


class Explorer:
    """Q_int with its bonus, and who chooses the next action.

    extras     shape and data type of the arrays to store with each transition
    blank      their values until `observe` is called after the step
    is_acting  whether the explorer chooses the next action, instead of the learner
    """

    def __init__(
        self,
        learner: RainbowConfig,
        config: ExplorerConfig,
        inputs: Inputs,
        n_actions: int,
        seed: int,
    ):
        self.config, self.inputs, self.clip_norm = config, inputs, learner.clip_norm
        rng = stream(seed, "explorer weights")
        self.network = IntrinsicQ(inputs.shape, n_actions, config.hidden, rng).to(inputs.device)
        self.target = self.network if config.target_every == 1 else copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), learner.learning_rate, eps=learner.adam_eps, fused=True
        )
        self.intrinsic = config.intrinsic.make(
            observation_space(inputs), spaces.Discrete(n_actions), 1, seed, str(inputs.device)
        )
        self.bonus, self.normalizer = self.intrinsic.bonus, self.intrinsic.normalizer
        if self.normalizer is not None:
            self.normalizer.horizon = HORIZON
        self.extras: dict[str, tuple[tuple[int, ...], Any]] = {EPISODIC: ((), np.float32)}
        self.blank: dict[str, Any] = {EPISODIC: np.float32(1)}
        self.streams = {name: stream(seed, name) for name in STREAMS}
        self.is_acting, self.n_updates = False, 0

    # --- Acting ---------------------------------------------------------------------------------

    def choose_mode(self, begins: bool) -> None:
        """Draw who acts, in the first step of an episode and rarely in others."""
        switch, kind = self.streams["explorer modes"].random(2)
        if begins or switch < self.config.switch:
            self.is_acting = bool(kind < self.config.share)

    @torch.no_grad()
    def values(self, observation: Frames) -> Tensor:
        """beta (Q_int + b) of every action (A,) in one observation (*shape)."""
        observations = observation[None]
        values = self.network(self.inputs.plain(observations)) + self.next_bonus(observations)
        scaled: Tensor = self.intrinsic.scale * values[0]
        return scaled

    def observe(self, replay: Replay) -> dict[str, float]:
        """Count the newest transition of the replay memory and store its episodic part."""
        history = replay.history
        time = history.time_of[[(history.n_transitions - 1) % history.slots]]
        replay.set_extra(EPISODIC, time, self.bonus.episodic(*transitions(history, time)))
        done = history.at("terminated", time) | history.at("truncated", time)
        bonus = self.bonus.step(*transitions(history, time), done)
        if self.normalizer is not None:
            self.normalizer(bonus)
        return {"explorer/share": float(self.is_acting), "explorer/bonus": float(bonus[0])}

    # --- Learning -------------------------------------------------------------------------------

    def update(self, replay: Replay) -> dict[str, float]:
        """The updates of Q_int that belong to one update of the learner; returns their metrics."""
        for _ in range(self.config.updates):
            with error_location(self.network, f"update {self.n_updates + 1} of the explorer"):
                metrics = self._update(replay)
        return metrics

    def _update(self, replay: Replay) -> dict[str, float]:
        if self.target is not self.network and self.n_updates % self.config.target_every == 0:
            self.target.load_state_dict(self.network.state_dict())
        history, times = replay.history, self._draw(replay.history)
        rewards = self.rewards(replay, history.following(times, self.config.n_step))
        target = self.targets(history, times, rewards)
        actions = torch.from_numpy(history.at("action", times)).to(target.device)
        values = self.network(self.inputs.plain(history.observations(times)))
        loss = huber(target, take_actions(values[..., None], actions)).mean()
        groups = [(list(self.network.parameters()), self.clip_norm or np.inf)]
        gradient_step(self.optimizer, self.network, groups, loss)
        self.n_updates += 1
        return {
            "losses/explorer": loss.item(),
            "explorer/reward": float(rewards[:, 0].mean()),
            "explorer/value": target.mean().item(),
        }

    @torch.no_grad()
    def targets(self, history: History, times: IntArray, rewards: Array) -> Tensor:
        """The targets (B, 1) of the transitions `times` (B,), from their rewards (B, n).

        A return that reaches the newest transition ends there, with the value of its next state.
        """
        steps = history.following(times, self.config.n_step)
        is_newest = history.at("transition", steps) == history.n_transitions - 1
        part = n_step(
            rewards,
            history.at("terminated", steps),
            history.at("truncated", steps) | is_newest,
            self.config.discount,
        )
        last = history.observations(times + part.reach)
        seen, bonus = self.inputs.plain(last), self.next_bonus(last)
        best = (self.network(seen) + bonus).argmax(-1)
        value = take_actions((self.target(seen) + bonus)[..., None], best)
        return td_target(self._tensor(part.returns), self._tensor(part.discounts), value)

    def rewards(self, replay: Replay, times: IntArray) -> Array:
        """r_int of stored transitions `times` (...), with the present counts."""
        rewards = replay.extra(EPISODIC, times).astype(np.float64)
        if self.bonus.scope != "episodic":
            rows = transitions(replay.history, times.reshape(-1))
            rewards = rewards * self.bonus.lifelong(*rows).reshape(times.shape)
        return rewards / self._deviation

    def next_bonus(self, observations: Frames) -> Tensor:
        """b of every action in observations (B, *shape): (B, A), or a zero."""
        bonus: Any = self.bonus
        if not bonus.is_of_pair:
            return torch.zeros((), device=self.inputs.device)
        return self._tensor(bonus.of_actions(observations) / self._deviation)

    @property
    def _deviation(self) -> float:
        return 1.0 if self.normalizer is None else self.normalizer.deviation

    def _draw(self, history: History) -> IntArray:
        """Times (B,) of transitions drawn uniformly, including the newest.

        Once entries are overwritten, the oldest ones are left out: their stacks are incomplete.
        """
        oldest = int(history.field["transition"][history.oldest % history.slots])
        first = oldest + history.stack - 1 if history.oldest else oldest
        uniform = self.streams["explorer replay"].random(self.config.batch_size)
        number = first + (uniform * (history.n_transitions - first)).astype(np.int64)
        return history.time_of.take(number % history.slots)

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array.astype(np.float32)).to(self.inputs.device)

    # --- State ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": dict(self.network.state_dict()),
            "target": dict(self.target.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "intrinsic": self.intrinsic.state_dict(),
            "streams": {name: stream_state(rng) for name, rng in self.streams.items()},
            "is_acting": self.is_acting,
            "n_updates": self.n_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.target.load_state_dict(state["target"])
        self.optimizer.load_state_dict(copy.deepcopy(dict(state["optimizer"])))
        self.intrinsic.load_state_dict(state["intrinsic"])
        self.streams = {name: restore_stream(rng) for name, rng in state["streams"].items()}
        self.is_acting, self.n_updates = bool(state["is_acting"]), int(state["n_updates"])


def transitions(history: History, times: IntArray) -> tuple[Frames, NDArray[np.int64], Frames]:
    """Observations, actions and next observations of the transitions `times` (B,)."""
    actions = history.at("action", times)
    return history.observations(times), actions, history.observations(times + 1)


def observation_space(inputs: Inputs) -> spaces.Box:
    """The observations of the learner as a space for bonuses.

    Small images and vectors have no bounds, because bonuses scale bounded entries to [-1, 1], and
    one-hot vectors would then hardly differ.
    """
    if inputs.is_image and inputs.frame_max == 255:
        return spaces.Box(0, 255, inputs.shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, inputs.shape, np.float32)
