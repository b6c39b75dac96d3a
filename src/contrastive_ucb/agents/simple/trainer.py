"""The training loop of SimPLe, which alternates real steps and learning phases.

    steps          1 .. 6400          6401 .. 12800           ...
    phase                    1                        2       ...
    in a phase     updates of the world model, then rounds of PPO in it

Before the first phase actions are uniform, later they are drawn from the policy. A phase consists
of pieces, one update or one round each, with an event after each piece. The run can be saved or
stopped between any two events and resumes exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from contrastive_ucb.agents.deep.trainer import Averages, take_step
from contrastive_ucb.agents.simple.agent import Simple
from contrastive_ucb.agents.simple.config import SimpleConfig, model_updates_in, rounds_in
from contrastive_ucb.core.events import Event
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.envs.frames import FrameEnv

LOGS = 10  # log entries per half of a learning phase


class SimpleTrainer:
    """The trainer of SimPLe, see `DeepTrainer`.

    steps  length of the whole run; the steps after the last full epoch form a shorter one
    """

    def __init__(
        self, env: FrameEnv, config: SimpleConfig, seed: int, steps: int, device: str = "cpu"
    ):
        self.env, self.config, self.steps = env, config, steps
        shape, actions = env.frame_shape, env.n_actions
        self.agent = Simple(config, shape, env.stack, actions, env.value_range, seed, device)
        self.replay = self.agent.new_replay()
        self.actions = stream(seed, "policy")
        self.n_steps = self.n_pieces = 0
        self.returns: list[float] = []  # raw returns of all episodes so far
        self.lately = Averages()  # of the pieces since the last log entry
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
            self.replay.begin(self.env.reset())
            self._check_frames(0)
        while True:
            if any(self.left.values()):
                yield Event(self.n_steps, self._learn())
            elif self.n_steps < until:
                values = self._step()
                yield Event(self.n_steps, values)
            else:
                return

    def _step(self) -> dict[str, float]:
        uniform = float(self.actions.random())
        action = int(uniform * self.env.n_actions)
        if self.epoch:
            action = self.agent.act(self.replay.observation(), uniform)
        before = self.replay.history.now
        values = take_step(self.env, self.replay, self.returns, action)
        self._check_frames(before + 1)
        self.n_steps += 1
        self.fresh += 1
        if self._is_due():
            self._begin_phase()
        return values

    def _check_frames(self, first: int) -> None:
        """Raise an error at a frame from time `first` on that the world model cannot represent."""
        history = self.replay.history
        times = np.arange(first, history.now + 1)
        self.agent.world.model.check(history.frame[times % history.slots])

    def _is_due(self) -> bool:
        """Whether a learning phase follows this step."""
        is_full, is_last = self.fresh == self.config.epoch_steps, self.n_steps == self.steps
        limit = self.config.epochs
        return (is_full or is_last) and (limit is None or self.epoch < limit)

    def _begin_phase(self) -> None:
        share = self.fresh / self.config.epoch_steps
        self.fresh = 0
        if not self.replay.tree.total > 0:  # too few steps to sample from
            return
        self.epoch += 1
        self.due = {
            "model": model_updates_in(self.config, self.epoch, share),
            "policy": rounds_in(self.config, self.epoch, share),
        }
        self.left = dict(self.due)
        self.agent.world.measure(self.replay)

    def _learn(self) -> dict[str, float]:
        """One piece of a learning phase; returns the values to log, averaged over pieces."""
        part = "model" if self.left["model"] else "policy"
        update = self.agent.update_model if part == "model" else self.agent.update_policy
        self.lately.add(update(self.replay))
        self.n_pieces += 1
        self.left[part] -= 1
        done, due = self.due[part] - self.left[part], self.due[part]
        if LOGS * done // due == LOGS * (done - 1) // due:
            return {}
        parts = (self.due[name] - self.left[name] for name in self.due)
        values = {"charts/epoch": self.epoch - 1 + sum(parts) / sum(self.due.values())}
        return values | self.lately.take()

    def state_dict(self) -> dict[str, Any]:
        """Everything except the frames of the replay memory, which have their own files."""
        return {
            "agent": self.agent.state_dict(),
            "env": self.env.state_dict(),
            "actions": stream_state(self.actions),
            "n_steps": self.n_steps,
            "n_pieces": self.n_pieces,
            "epoch": self.epoch,
            "fresh": self.fresh,
            "due": dict(self.due),
            "left": dict(self.left),
            "returns": np.array(self.returns, dtype=np.float64),
            "lately": self.lately.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.env.load_state_dict(state["env"])
        self.actions = restore_stream(state["actions"])
        self.n_steps, self.n_pieces = state["n_steps"], state["n_pieces"]
        self.epoch, self.fresh = state["epoch"], state["fresh"]
        self.due, self.left = dict(state["due"]), dict(state["left"])
        self.returns = state["returns"].tolist()
        self.lately.load_state_dict(state["lately"])
