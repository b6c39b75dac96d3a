"""The data of Algorithms 3 and 4 as observations, and P^- over infinitely many of them.

| paper                           | here                                                           |
|---------------------------------|----------------------------------------------------------------|
| D_h, the transitions            | rows 0 .. n_h of step h                                        |
| D~_h, the bonus data            | the rows with `rolled_in`                                      |
| y_h                             | `label`, drawn when the tuple is added (the paper's sampler)   |
| s_{h+1} or s^-_{h+1}            | `contrast`, likewise                                           |

Observations cannot be counted, so all are stored. Labels and contrasts are stored for the paper's
sampler only; shared negatives do not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.data.sampler import Density, Streams
from contrastive_ucb.envs.batch import draw
from contrastive_ucb.envs.observed import ObservedEnv

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

    def take(self, name: str, rows: IntArray) -> Any:
        """The given rows (H, n) of a table, such as `observation`   (H, n, ...)

        Equal to indexing with two arrays, which takes ten times as long.
        """
        table = getattr(self, name)
        first = table.shape[1] * np.arange(len(table))[:, None]
        return table.reshape(-1, *table.shape[2:]).take(rows + first, 0)

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

    def state_dict(self) -> dict[str, Any]:
        """The rows in use, without the spare capacity."""
        most = int(self.n.max())
        return {"n": self.n, **{name: getattr(self, name)[:, :most] for name in self._tables}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
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


@dataclass(frozen=True)
class Negatives:
    """P^-, the distribution of negative next observations (l.173).

    uniform    on the bounds of the observations
    gaussian   N(center, scale^2) in every coordinate
    seen       the next observations of that step in the data so far
    mixed      the same, with a share of uniform draws

    The paper assumes a fixed, known density with a positive floor, as the uniform one has on
    bounded observations. The density `seen` is neither fixed nor bounded from below, but it makes
    RichLock learnable: a fixed density almost never draws a vector that resembles an observation.
    """

    env: ObservedEnv
    kind: Density
    uniform_share: float = 0.1
    center: float = 0.0
    scale: float = 1.0

    def draw(self, data: ObservationData, count: int, random: np.random.Generator) -> Floats:
        """`count` draws per step   (H, count, D)"""
        horizon, size = len(data.n), self.env.size
        if self.kind == "uniform":
            drawn = self.env.uniform(horizon * count, random)
        elif self.kind == "gaussian":
            drawn = self.center + self.scale * random.standard_normal((horizon * count, size))
        else:
            chosen = (random.random((horizon, count)) * data.n[:, None]).astype(np.int64)
            seen: Floats = data.take("following", chosen)
            if self.kind == "seen":
                return seen
            even = self.env.uniform(horizon * count, random).reshape(seen.shape)
            takes = random.random((horizon, count, 1)) < self.uniform_share
            return np.where(takes, even, seen).astype(np.float32)
        return drawn.reshape(horizon, count, size).astype(np.float32)

    def nodes(self, data: ObservationData, count: int, random: np.random.Generator) -> Array:
        """The states to plan on at steps 2..H+1, which represent P^-   (H, count, D)

        They are quadrature nodes of the uniform density, if there are any, or draws. psi'phi is a
        ratio to the density that the networks were trained with. With stored labels and a density
        of observations, that is the density of the stored negatives, not that of the current data,
        so the stored negatives are drawn. A step without any takes the current data.
        """
        even = self.env.uniform_nodes(count) if self.kind == "uniform" else None
        if even is not None:
            return np.tile(even, (len(data.n), 1, 1))
        nodes = self.draw(data, count, random).astype(np.float64)
        if data.labeled and self.kind in ("seen", "mixed"):
            for step, n in enumerate(data.n):
                stored = data.contrast[step, :n][data.label[step, :n] == 0]
                if len(stored):
                    nodes[step] = stored[random.integers(len(stored), size=count)]
        return nodes
