"""The training loop of the Rainbow agents: one environment step, then the updates that follow it.

`DeepTrainer` is the interface of a trainer. `Trainer` implements it for Rainbow and its variants,
`agents/simple/trainer.py` for SimPLe.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.core.events import Event
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.frames import FrameEnv

LOG_EVERY = 100  # steps over which losses and bonuses are averaged before they are logged


class Settings(Protocol):
    """The settings that evaluations use."""

    @property
    def eval_epsilon(self) -> float: ...
    @property
    def atari(self) -> str:
        """The rules of Atari games, see `envs/atari.py`."""
        ...


class InputFormat(Protocol):
    """Shape (stack * C, ...) and type of an observation."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class DeepLearner(Protocol):
    """Networks and their updates."""

    @property
    def inputs(self) -> InputFormat: ...
    @property
    def n_updates(self) -> int: ...

    def new_replay(self) -> Replay:
        """An empty replay memory with the fields that this learner needs."""
        ...

    def best(self, observations: Frames) -> IntArray:
        """Greedy actions (B,) for observations (B, stack * C, ...)."""
        ...

    def check_finite(self) -> None:
        """Raise ArithmeticError if a weight is not finite."""
        ...


class DeepTrainer(Protocol):
    """An environment, its replay memory and a learner.

    steps     length of the whole run
    n_steps   steps taken
    position  increases with every event: steps, and updates between two steps
    returns   raw returns of all episodes so far
    """

    env: FrameEnv
    steps: int
    n_steps: int
    returns: list[float]
    replay: Replay

    @property
    def config(self) -> Settings: ...
    @property
    def agent(self) -> DeepLearner: ...
    @property
    def position(self) -> int: ...

    def run(self, until: int) -> Iterator[Event]:
        """Continue until `until` steps are taken and the updates that belong to them are done.

        Yields an event after each step or update, empty if nothing is logged. The state may be
        saved between any two events.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything except the frames of the replay memory, which have their own files."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Trainer:
    """The trainer of Rainbow and its variants.

    steps  length of the whole run, for the schedule of the importance weights
    """

    def __init__(
        self, env: FrameEnv, config: RainbowConfig, seed: int, steps: int, device: str = "cpu"
    ):
        self.env, self.config, self.steps = env, config, steps
        shape, actions = env.frame_shape, env.n_actions
        self.agent = Rainbow(config, shape, env.stack, actions, env.value_range, seed, device)
        self.replay = self.agent.new_replay()
        self.policy, self.draws = stream(seed, "policy"), stream(seed, "replay")
        self.n_steps = 0
        self.returns: list[float] = []
        self.lately = Averages()  # of the updates since the last log entry
        self.support = SupportCheck(self.agent.network.support.tolist(), config.discount)
        self.support.warned = not config.distributional

    @property
    def position(self) -> int:
        return self.n_steps

    def run(self, until: int) -> Iterator[Event]:
        """Take steps until there are `until` of them; yields an event after each.

        Logged are the episodes that end and, every 100 steps, the averages of the updates.
        """
        if self.n_steps == 0:
            self.replay.begin(self.env.reset())
        while self.n_steps < until:
            yield Event(self.n_steps + 1, self._step())

    def epsilon(self) -> float:
        """The fraction of uniform actions at this step."""
        first, last = self.config.epsilon
        since, length = self.n_steps - self.config.first_update, self.config.epsilon_steps
        if since < 0:
            return first
        return last + (first - last) * max(0.0, 1 - since / length) if length else last

    def _step(self) -> dict[str, float]:
        uniform = self.policy.random(2)
        forced = int(uniform[1] * self.env.n_actions) if uniform[0] < self.epsilon() else None
        action, extras = self.agent.act(self.replay.observation(), forced)
        values = take_step(self.env, self.replay, self.returns, action, self.support, **extras)
        self.n_steps += 1
        for _ in range(self._updates_due() if self.replay.has_some else 0):
            self.lately.add(self._update())
        if self.lately and (self.n_steps % LOG_EVERY == 0 or self.n_steps == self.steps):
            values |= self.lately.take()
            counted = self.agent.bonus.counted if self.agent.bonus else None
            if isinstance(counted, EllipticalBonus):  # the published variant may have none
                values["bonus/logdet"] = counted.log_det
        return values

    def _updates_due(self) -> int:
        """The number of updates after this step, so that the total follows `updates_per_step`."""
        since = self.n_steps - self.config.first_update
        rate = self.config.updates_per_step
        return int(rate * since) - int(rate * (since - 1)) if since > 0 else 0

    def _update(self) -> dict[str, float]:
        start, end = self.config.importance
        first = self.config.first_update
        progress = (self.n_steps - first) / max(1, self.steps - first)
        importance = start + (end - start) * min(1.0, progress)
        batch = self.replay.sample(self.draws.random(self.config.batch_size), importance)
        return self.agent.update(self.replay, batch)

    def state_dict(self) -> dict[str, Any]:
        """Everything except the frames of the replay memory, which have their own files."""
        return {
            "agent": self.agent.state_dict(),
            "env": self.env.state_dict(),
            "policy": stream_state(self.policy),
            "draws": stream_state(self.draws),
            "n_steps": self.n_steps,
            "returns": np.array(self.returns, dtype=np.float64),
            "lately": self.lately.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.env.load_state_dict(state["env"])
        self.policy, self.draws = restore_stream(state["policy"]), restore_stream(state["draws"])
        self.n_steps, self.returns = state["n_steps"], state["returns"].tolist()
        self.lately.load_state_dict(state["lately"])


class SupportCheck:
    """Warns once if a discounted return of an episode is outside the support of C51.

    It is not saved: after a resumed run it sees the rest of the episode only.
    """

    def __init__(self, support: list[float], discount: float):
        self.low, self.high, self.discount = support[0], support[-1], discount
        self.rewards: list[float] = []  # of the present episode
        self.warned = False

    def add(self, reward: float, over: bool, name: str) -> None:
        if self.warned:
            return
        self.rewards.append(reward)
        if not over:
            return
        value = low = high = 0.0
        for paid in reversed(self.rewards):
            value = paid + self.discount * value
            low, high = min(low, value), max(high, value)
        self.rewards.clear()
        if low < self.low - 1e-6 or high > self.high + 1e-6:
            self.warned = True
            warnings.warn(
                f"returns of {name} reach {low:.4g} to {high:.4g}, outside the C51 support"
                f" [{self.low:g}, {self.high:g}]; use the setting"
                f" support={min(low, self.low):.0f},{max(high, self.high) + 1:.0f}",
                stacklevel=2,
            )


def take_step(
    env: FrameEnv,
    replay: Replay,
    returns: list[float],
    action: int,
    support: SupportCheck | None = None,
    **extras: Any,
) -> dict[str, float]:
    """Take the action, store the transition, and reset at the end of an episode.

    returns  of all episodes so far; extended when an episode ends
    extras   further fields of the transition
    Returns the values to log.
    """
    step = env.step(action)
    replay.add(action, step.reward, step.frame, step.terminated, step.truncated, **extras)
    if support is not None:
        support.add(step.reward, step.terminated or step.truncated, env.name)
    values: dict[str, float] = {}
    if step.episode_over:
        returns.append(env.raw_return)
        values["charts/episodic_return"] = env.raw_return
        values["charts/episodic_length"] = env.n_steps
    if step.terminated or step.truncated:
        replay.begin(env.reset())
    return values


class Averages:
    """Running means of named values."""

    def __init__(self) -> None:
        self.sums: dict[str, tuple[float, int]] = {}  # name: sum and number of values

    def __bool__(self) -> bool:
        return bool(self.sums)

    def add(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = total + value, count + 1

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        sums, self.sums = self.sums, {}
        return {name: total / count for name, (total, count) in sums.items()}

    def state_dict(self) -> dict[str, Any]:
        return dict(self.sums)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums = dict(state)
