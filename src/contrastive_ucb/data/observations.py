"""The data of Algorithms 3 and 4 as observations. They cannot be counted, so all are stored.

| paper                           | here                                                           |
|---------------------------------|----------------------------------------------------------------|
| D_h, the transitions            | rows 0 .. n_h of step h                                        |
| D~_h, the bonus data            | the rows with `rolled_in`                                      |
| y_h                             | `label`, drawn when the tuple is added (the paper's sampler)   |
| s_{h+1} or s^-_{h+1}            | `contrast`, likewise                                           |

Labels and contrasts are stored for the paper's sampler only; shared negatives do not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.data.sampler import Streams, steps_per_round
from contrastive_ucb.envs.batch import draw
from contrastive_ucb.envs.observed import ObservedEnv, check_observed

Floats = NDArray[np.float32]
Policy = Callable[[int, Array], Array]  # step h, observations (n, D) -> probabilities (n, A)


@dataclass(frozen=True)
class Transitions:
    """Transitions of one step h.

    observation, following  (n, D)   o_h and o_{h+1}; the latter may have extra columns
    action                  (n,)     joint in a game
    reward                  (n,)
    rolled_in               (n,)     whether z is from d~, that is, in the bonus data
    """

    observation: Array
    action: IntArray
    reward: Array
    following: Array
    rolled_in: BoolArray


class ObservationData:
    """All transitions so far, by step, in arrays that grow by doubling.

    n        (H,)  rows of each step; the first step gets half as many as the others (erratum E2)
    labeled        whether rows have a label and a contrast
    """

    def __init__(self, horizon: int, size: int, extra: int = 0, labeled: bool = False):
        self.n, self.labeled = np.zeros(horizon, dtype=np.int64), labeled
        self.observation, self.following, self.contrast = (
            np.zeros((horizon, 0, width), dtype=np.float32)
            for width in (size, size + extra, size + extra)
        )
        self.action = np.zeros((horizon, 0), dtype=np.int64)
        self.reward, self.label = (np.zeros((horizon, 0), dtype=np.float32) for _ in range(2))
        self.rolled_in = np.zeros((horizon, 0), dtype=np.bool_)

    def add(self, step: int, transitions: Transitions) -> None:
        """Append rows to step h, with label 1 until `relabel`."""
        first, last = int(self.n[step]), int(self.n[step]) + len(transitions.action)
        self._make_room(last)
        rows = slice(first, last)
        for name, values in vars(transitions).items():
            getattr(self, name)[step, rows] = values
        if self.labeled:
            self.label[step, rows] = 1
            self.contrast[step, rows] = transitions.following
        self.n[step] = last

    def forget(self, rows: IntArray) -> None:
        """Keep the first rows (H,) of each step and clear all others."""
        for step, count in enumerate(rows):
            for name in self._tables:
                getattr(self, name)[step, count:] = 0
        self.n = rows.copy()

    def relabel(self, step: int, newest: int, positive: BoolArray, drawn: Floats) -> None:
        """Set the labels of the newest rows of step h; rows with label 0 get a draw of P^-.

        positive (m,), drawn (m, D), where m is at least `newest`
        """
        rows = slice(int(self.n[step]) - newest, int(self.n[step]))
        label = positive[:newest]
        self.label[step, rows] = label
        real = self.following[step, rows]
        self.contrast[step, rows] = np.where(label[:, None], real, drawn[:newest])

    def one_step(self, step: int) -> ObservationData:
        """A view of the data of step h, with horizon 1."""
        view = ObservationData(1, self.observation.shape[-1], labeled=self.labeled)
        for name in ("n", *self._tables):
            setattr(view, name, getattr(self, name)[step : step + 1])
        return view

    def state_dict(self) -> dict[str, Any]:
        """The rows in use, without the spare capacity."""
        most = int(self.n.max())
        return {"n": self.n, **{name: getattr(self, name)[:, :most] for name in self._tables}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state. Older states always have a contrast, which is ignored if it is not used."""
        self.n = state["n"].copy()
        for name in self._tables:
            setattr(self, name, state[name].copy())

    @property
    def _tables(self) -> tuple[str, ...]:
        every = ("observation", "following", "action", "reward", "rolled_in")
        return (*every, "label", "contrast") if self.labeled else every

    def _make_room(self, rows: int) -> None:
        room = self.action.shape[1]
        if rows <= room:
            return
        more = max(rows, 2 * room) - room
        for name in self._tables:
            table = getattr(self, name)
            wider = [(0, 0), (0, more), *((0, 0) for _ in table.shape[2:])]
            setattr(self, name, np.pad(table, wider))


class ObservedSampler:
    """Algorithms 3 and 4 on observations: several trajectories per step and round."""

    def __init__(self, env: ObservedEnv, trajectories: int, streams: Streams):
        self.env, self.trajectories, self.streams = env, trajectories, streams
        self.trajectories_per_round = trajectories * env.horizon
        self.steps_per_round = trajectories * steps_per_round(env.horizon)

    def collect(self, policy: Policy) -> list[Transitions]:
        """The new transitions of every step; actions are uniform at the target and one step later.

        Trajectories with the same target are neighbors, those with the smallest target first.
        """
        env, count, random = self.env, self.trajectories, self.streams["walk"][0]
        walk = env.begin(env.horizon * count, random)
        transitions = []
        for step in range(env.horizon):
            finished = max(step - 1, 0)  # trajectories with smaller targets have ended
            walk.keep(slice((finished - max(step - 2, 0)) * count, None))
            before = walk.observations
            explores = 2 * count if step else count  # one step after the target, and at it
            uniform = random.random(len(before))
            action = (uniform * env.n_joint).astype(np.int64)
            if explores < len(before):
                action[explores:] = draw(policy(step, before[explores:]), uniform[explores:])
            reward = walk.move(action, random)
            rows, at_target = slice(0, explores), np.arange(explores) >= explores - count
            after = walk.observations[rows]
            transitions.append(
                Transitions(before[rows], action[rows], reward[rows], after, at_target)
            )
        return transitions


def check_transitions(name: str, transitions: list[Transitions], round_number: int) -> None:
    """Raise an error if a value of an environment is not finite as float32, as it is stored."""
    for step, rows in enumerate(transitions):
        for field in ("observation", "reward", "following"):
            when = f"step {step} of round {round_number}"
            check_observed(name, field, getattr(rows, field), when)
