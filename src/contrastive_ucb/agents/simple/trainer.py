"""The training loop of SimPLe, which alternates real steps and learning phases.

    steps          1 .. 6400          6401 .. 12800           ...
    phase                    1                        2       ...
    in a phase     updates of the world model, then rounds of PPO in it

Before the first phase actions are uniform, later they are drawn from the policy. A phase consists
of pieces, one update or one round each, with an event after each piece. The run can be saved or
stopped between any two events and resumes exactly.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from contrastive_ucb.agents.deep.trainer import DeepTrainer
from contrastive_ucb.agents.simple.agent import Simple
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.core.events import Event
from contrastive_ucb.envs.frames import FrameEnv

LOGS = 10  # log entries per half of a learning phase
COUNTERS = ("n_pieces", "epoch", "fresh", "due", "left")


class SimpleTrainer(DeepTrainer):
    """The trainer of SimPLe.

    steps  length of the whole run; the steps after the last full epoch form a shorter one
    """

    learner = Simple
    config: SimpleConfig
    agent: Simple

    def __init__(
        self, env: FrameEnv, config: SimpleConfig, seed: int, steps: int, device: str = "cpu"
    ):
        super().__init__(env, config, seed, steps, device)
        self.n_pieces = 0
        self.epoch = 0  # learning phases begun so far
        self.fresh = 0  # steps since the last one
        self.due = {"model": 0, "policy": 0}  # pieces of the present phase in total ...
        self.left = dict(self.due)  # ... and remaining

    @property
    def position(self) -> int:
        return self.n_steps + self.n_pieces

    def run(self, until: int) -> Iterator[Event]:
        """Take steps until there are `until` of them, with the learning phases that follow them."""
        if self.n_steps == 0:
            self.begin()
            self._check_frames(0)
        while True:
            if any(self.left.values()):
                yield Event(self.n_steps, self._learn())
            elif self.n_steps < until:
                values = self._step()
                yield Event(self.n_steps, values)
            else:
                return

    def choose(self) -> tuple[int, dict[str, Any]]:
        uniform = float(self.policy.random())
        if self.epoch:
            return self.agent.act(self.replay.observation(), uniform), {}
        return int(uniform * self.env.n_actions), {}

    def _step(self) -> dict[str, float]:
        before = self.replay.history.now
        values = self.take_step()
        self._check_frames(before + 1)
        self.fresh += 1
        is_due = self.fresh == self.config.epoch_steps or self.n_steps == self.steps
        if is_due and (self.config.epochs is None or self.epoch < self.config.epochs):
            self._begin_phase()
        return values

    def _check_frames(self, first: int) -> None:
        """Raise an error at a frame from time `first` on that the world model cannot represent."""
        history = self.replay.history
        times = np.arange(first, history.now + 1)
        self.agent.world.model.check(history.frame[times % history.slots])

    def _begin_phase(self) -> None:
        config, share = self.config, self.fresh / self.config.epoch_steps
        self.fresh = 0
        if not self.replay.has_some:  # too few steps to sample from
            return
        self.epoch += 1
        updates = config.first_model_updates if self.epoch == 1 else config.model_updates
        repeats = 1 + config.extra_rounds.count(self.epoch)
        self.due = {
            "model": max(1, round(share * updates)),
            "policy": max(1, round(share * config.rounds)) * repeats,
        }
        self.left = dict(self.due)
        self.agent.world.measure(self.replay)

    def _learn(self) -> dict[str, float]:
        """One piece of a learning phase; returns the values to log, averaged over pieces."""
        part = "model" if self.left["model"] else "policy"
        update = self.agent.update_model if part == "model" else self.agent.update_policy
        self.note(update(self.replay))
        self.n_pieces += 1
        self.left[part] -= 1
        done, due = self.due[part] - self.left[part], self.due[part]
        if LOGS * done // due == LOGS * (done - 1) // due:
            return {}
        parts = (self.due[name] - self.left[name] for name in self.due)
        values = {"charts/epoch": self.epoch - 1 + sum(parts) / sum(self.due.values())}
        return values | self.take_means()

    def state_dict(self) -> dict[str, Any]:
        counters = {name: getattr(self, name) for name in COUNTERS}
        return super().state_dict() | copy.deepcopy(counters)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for name in COUNTERS:
            setattr(self, name, copy.deepcopy(state[name]))
