"""The loop of the deep tier: one step of the environment, then the updates that it allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.core.events import Event
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.training.real_step import take_step

NOTED_EVERY = 100  # steps over which losses and bonuses are averaged before they are noted


class Trainer:
    """An environment, the memory of it, and the learner: all that a training run is made of.

    steps  the whole length of the run, which the schedules of importance weights look at
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
        self.returns: list[float] = []  # raw, of all episodes so far
        self.lately = Averages()  # of the updates that are not noted yet

    @property
    def position(self) -> int:
        return self.n_steps

    def run(self, until: int) -> Iterator[Event]:
        """Steps until `until` of them are taken; an event after each, empty if nothing is noted.

        Noted are the episodes that end, and every 100 steps the averages of the updates since.
        """
        if self.n_steps == 0:
            self.replay.begin(self.env.reset())
        while self.n_steps < until:
            yield Event(self.n_steps + 1, self._step())

    def epsilon(self) -> float:
        """The part of uniform actions at this step."""
        first, last = self.config.epsilon
        since, length = self.n_steps - self.config.first_update, self.config.epsilon_steps
        if since < 0:
            return first
        return last + (first - last) * max(0.0, 1 - since / length) if length else last

    def _step(self) -> dict[str, float]:
        uniform = self.policy.random(2)
        forced = int(uniform[1] * self.env.n_actions) if uniform[0] < self.epsilon() else None
        action, extras = self.agent.act(self.replay.observation(), forced)
        figures = take_step(self.env, self.replay, self.returns, action, **extras)
        self.n_steps += 1
        for _ in range(self._updates_due() if self.replay.has_some else 0):
            self.lately.add(self._update())
        if self.lately and (self.n_steps % NOTED_EVERY == 0 or self.n_steps == self.steps):
            figures |= self.lately.take()
            counted = self.agent.bonus.counted if self.agent.bonus else None
            if isinstance(counted, EllipticalBonus):  # the published sum need not have one
                figures["bonus/logdet"] = counted.log_det
        return figures

    def _updates_due(self) -> int:
        """How many updates follow this step; all steps so far have had their share together."""
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
        """Everything but the frames of the replay, which go to files of their own."""
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


class Averages:
    """Means of figures since they were last taken."""

    def __init__(self) -> None:
        self.sums: dict[str, tuple[float, int]] = {}  # total and number of the values of a name

    def __bool__(self) -> bool:
        return bool(self.sums)

    def add(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = total + value, count + 1

    def take(self) -> dict[str, float]:
        taken, self.sums = self.sums, {}
        return {name: total / count for name, (total, count) in taken.items()}

    def state_dict(self) -> dict[str, Any]:
        return dict(self.sums)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums = dict(state)
