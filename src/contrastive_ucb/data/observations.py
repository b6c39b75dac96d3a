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

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray

Floats = NDArray[np.float32]
Sampler = Literal["shared", "paper"]  # many negatives per positive, or one label per tuple


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
