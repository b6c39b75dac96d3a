"""The data of Algorithms 3 and 4 as observations: they cannot be counted, so all of them are kept.

| paper                           | here                                                           |
|---------------------------------|----------------------------------------------------------------|
| D_h, the transitions            | rows 0 .. n_h of step h                                        |
| D~_h, the bonus data            | those of them with `rolled_in`                                 |
| y_h                             | `label`, drawn when the tuple comes in (the paper's sampler)   |
| s_{h+1} or s^-_{h+1}            | `contrast`, likewise                                           |

Labels are of the paper's sampler alone. Shared negatives need neither of the last two, and the
contrast is as large as what followed, so it is not kept for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray

Floats = NDArray[np.float32]
Sampler = Literal["shared", "paper"]  # many negatives a positive, or one label a tuple


@dataclass(frozen=True)
class Transitions:
    """Transitions of one step h.

    observation, following  (n, D)   o_h and o_{h+1}, perhaps with more numbers behind it
    action                  (n,)     joint in a game
    reward                  (n,)
    rolled_in               (n,)     whether z is of d~, that is, in the bonus data
    """

    observation: Array
    action: IntArray
    reward: Array
    following: Array
    rolled_in: BoolArray


class ObservationData:
    """Everything seen so far, step by step, in arrays that grow by doubling.

    n         (H,)  rows of each step; the first step gets half as many as the others (erratum E2)
    labelled        whether rows have a label and a contrast; without, both stay empty
    """

    def __init__(self, horizon: int, size: int, extra: int = 0, labelled: bool = False):
        self.n, self.labelled = np.zeros(horizon, dtype=np.int64), labelled
        self.observation, self.following, self.contrast = (
            np.zeros((horizon, 0, width), dtype=np.float32)
            for width in (size, size + extra, size + extra)
        )
        self.action = np.zeros((horizon, 0), dtype=np.int64)
        self.reward, self.label = (np.zeros((horizon, 0), dtype=np.float32) for _ in range(2))
        self.rolled_in = np.zeros((horizon, 0), dtype=np.bool_)

    def add(self, step: int, seen: Transitions) -> None:
        """Append rows to step h, all of them positives until they are labelled."""
        first, last = int(self.n[step]), int(self.n[step]) + len(seen.action)
        self._make_room(last)
        rows = slice(first, last)
        for name, values in vars(seen).items():
            getattr(self, name)[step, rows] = values
        if self.labelled:
            self.label[step, rows] = 1
            self.contrast[step, rows] = seen.following
        self.n[step] = last

    def forget(self, rows: IntArray) -> None:
        """Go back to so many rows of each step (H,); the others are wiped as if never seen."""
        for step, kept in enumerate(rows):
            for name in self._tables:
                getattr(self, name)[step, kept:] = 0
        self.n = rows.copy()

    def relabel(self, step: int, newest: int, positive: BoolArray, drawn: Floats) -> None:
        """Give the newest rows of step h their labels; false ones get a draw of P^-.

        positive (m,), drawn (m, D) with m at least `newest`
        """
        rows = slice(int(self.n[step]) - newest, int(self.n[step]))
        label = positive[:newest]
        self.label[step, rows] = label
        real = self.following[step, rows]
        self.contrast[step, rows] = np.where(label[:, None], real, drawn[:newest])

    def one_step(self, step: int) -> ObservationData:
        """The data of step h alone, as data with a horizon of 1; a view."""
        alone = ObservationData(1, self.observation.shape[-1], labelled=self.labelled)
        for name in ("n", *self._tables):
            setattr(alone, name, getattr(self, name)[step : step + 1])
        return alone

    def state_dict(self) -> dict[str, Any]:
        """The rows in use; the room behind them is no part of the state."""
        most = int(self.n.max())
        return {"n": self.n, **{name: getattr(self, name)[:, :most] for name in self._tables}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Tables that are not kept here are passed over: older states always have the contrast."""
        self.n = state["n"].copy()
        for name in self._tables:
            setattr(self, name, state[name].copy())

    @property
    def _tables(self) -> tuple[str, ...]:
        every = ("observation", "following", "action", "reward", "rolled_in")
        return (*every, "label", "contrast") if self.labelled else every

    def _make_room(self, rows: int) -> None:
        room = self.action.shape[1]
        if rows <= room:
            return
        more = max(rows, 2 * room) - room
        for name in self._tables:
            table = getattr(self, name)
            wider = [(0, 0), (0, more), *((0, 0) for _ in table.shape[2:])]
            setattr(self, name, np.pad(table, wider))
