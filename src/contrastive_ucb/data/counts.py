"""The data as counts, which are sufficient for fitting, bonus and rewards in every round.

| paper                    | here                  |                                               |
|--------------------------|-----------------------|-----------------------------------------------|
| D~_h                     | `PairTotals.rolled_in`| visits of z by roll-in and a uniform action   |
| D_h with y = 1, N1       | `positive`            | number of (z, s') with label 1                |
| D_h with y = 0, N0       | `negative`            | number of (z, s') with label 0                |

With `exact` negatives every transition is a positive, and N0 is its expectation n(z) P^-(s'). This
differs from the paper's sampler, but has the same minimizer with less noise.

Row Z of the tables stands for an unvisited pair. It has `pseudo` visits with either label, whose
next states follow P^-. All unvisited pairs share its features (see
`representation/tabular_fit.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.sampler import Tuples

DENSE_CELLS = 1_000_000  # the largest table per seed; 2,000 states need 400 times as many cells


class PairTotals:
    """Sums per pair: visits in the bonus data D~, visits in all data, rewards.  each (B, H, Z)"""

    def __init__(self, n_seeds: int, horizon: int, n_pairs: int):
        self.rolled_in, self.visits, self.rewards = np.zeros((3, n_seeds, horizon, n_pairs))

    def add(self, tuples: Tuples) -> None:
        at = cells(tuples)
        seed, step, pair = (part[:, : self.visits.shape[1]] for part in at)  # the first H are D~
        self.rolled_in[seed, step, pair] += 1.0  # one per step, so the indices are distinct
        np.add.at(self.visits, at, 1.0)
        np.add.at(self.rewards, at, tuples.reward)

    def state_of(self, seed: int) -> dict[str, Any]:
        return {name: table[seed] for name, table in vars(self).items()}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        for name, table in vars(self).items():
            table[:] = [state[name] for state in states]


class DenseCounts:
    """N1 and N0 as tables (B, H, Z+1, S), the fastest layout for small problems."""

    def __init__(
        self, shape: tuple[int, int, int, int], negatives: Array, pseudo: float, exact: bool
    ):
        n_seeds, horizon, n_pairs, n_states = shape
        self.negatives, self.exact = negatives, exact
        self.positive, self.negative = np.zeros((2, n_seeds, horizon, n_pairs + 1, n_states))
        self.positive[:, :, -1] = self.negative[:, :, -1] = pseudo * negatives

    def add(self, tuples: Tuples) -> None:
        at = cells(tuples)
        if self.exact:
            np.add.at(self.positive, (*at, tuples.next_state), 1.0)
            np.add.at(self.negative, at, self.negatives)
        else:
            label = tuples.label.astype(np.float64)
            np.add.at(self.positive, (*at, tuples.contrast), label)
            np.add.at(self.negative, (*at, tuples.contrast), 1.0 - label)

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"positive": self.positive[seed], "negative": self.negative[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.positive[:] = [state["positive"] for state in states]
        self.negative[:] = [state["negative"] for state in states]


class SparseCounts:
    """N1 and N0 of the nonzero cells, sorted; memory grows with the data instead of Z x S.

    key        (n,)  ((seed * H + step) * (Z+1) + pair) * S + next state
    positive, negative  (n,)  N1 and N0 of these cells
    visits     (B, H, Z+1)  with exact negatives, visits(z) P^-(s') is added to N0 in every cell
    """

    def __init__(
        self, shape: tuple[int, int, int, int], negatives: Array, pseudo: float, exact: bool
    ):
        n_seeds, horizon, n_pairs, n_states = shape
        self.shape = (n_seeds, horizon, n_pairs + 1, n_states)
        self.exact = exact
        rows = np.arange(1, n_seeds * horizon + 1) * (n_pairs + 1) - 1  # row Z of every step
        self.key = (rows[:, None] * n_states + np.arange(n_states)).ravel()
        self.positive = np.tile(pseudo * negatives, n_seeds * horizon)
        self.negative = np.zeros_like(self.positive) if exact else self.positive.copy()
        self.visits = np.zeros(self.shape[:3])
        self.visits[:, :, -1] = pseudo

    def add(self, tuples: Tuples) -> None:
        at = cells(tuples)
        state = tuples.next_state if self.exact else tuples.contrast
        key, inverse = np.unique(
            np.ravel_multi_index((*at, state), self.shape), return_inverse=True
        )
        label = np.ones(state.size) if self.exact else tuples.label.ravel().astype(np.float64)
        other = np.zeros(state.size) if self.exact else 1.0 - label
        new = key[~np.isin(key, self.key, assume_unique=True)]
        place = np.searchsorted(self.key, new)
        self.key = np.insert(self.key, place, new)
        where = np.searchsorted(self.key, key)
        for name, gain in (("positive", label), ("negative", other)):
            values = np.insert(getattr(self, name), place, 0.0)
            values[where] += np.bincount(inverse.ravel(), gain, minlength=len(key))
            setattr(self, name, values)
        np.add.at(self.visits, at, 1.0)

    def state_of(self, seed: int) -> dict[str, Any]:
        size = int(np.prod(self.shape[1:]))
        first, last = np.searchsorted(self.key, [seed * size, (seed + 1) * size])
        rows = slice(first, last)
        return {
            "key": self.key[rows] - seed * size,
            "positive": self.positive[rows],
            "negative": self.negative[rows],
            "visits": self.visits[seed],
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        size = int(np.prod(self.shape[1:]))
        self.key = np.concatenate([state["key"] + i * size for i, state in enumerate(states)])
        self.positive = np.concatenate([state["positive"] for state in states])
        self.negative = np.concatenate([state["negative"] for state in states])
        self.visits[:] = [state["visits"] for state in states]


def make_counts(
    shape: tuple[int, int, int, int], negatives: Array, pseudo: float, exact: bool
) -> DenseCounts | SparseCounts:
    """Counts for (B, H, Z, S). The layout depends on the size per seed, not on the batch size."""
    layout = DenseCounts if np.prod(shape[1:]) <= DENSE_CELLS else SparseCounts
    return layout(shape, negatives, pseudo, exact)


def cells(tuples: Tuples) -> tuple[IntArray, IntArray, IntArray]:
    """The index (seed, step, pair) of every tuple, each (B, n)."""
    at: IntArray = np.indices(tuples.pair.shape, dtype=np.int64)
    return at[0], tuples.step[at[1]], tuples.pair
