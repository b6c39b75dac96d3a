"""The data as counts, and the sums over them that a multiplicative step needs.

| paper                    | here       |                                               |
|--------------------------|------------|-----------------------------------------------|
| D_h with y = 1, N1       | `positive` | number of (z, s') with label 1                |
| D_h with y = 0, N0       | `negative` | number of (z, s') with label 0                |

Row Z of the tables stands for an unvisited pair. It has `pseudo` visits with either label, whose
next states follow P^-. All unvisited pairs share its features (see `tabular_fit.py`).

With `exact` negatives every transition is a positive, and N0 is its expectation n(z) P^-(s'). This
differs from the paper's sampler, but has the same minimizer with less noise.

A step of one factor needs two sums over the data: the pull, sums of N1 / f times the other factor,
and the push, sums of W times the other factor, where W = (N1 + N0) / (1 + f) for the contrastive
loss and W = n(z) P^-(s') for maximum likelihood. The latter equals N0 with exact negatives, which
`likelihood` therefore implies.

phi (B, H, Z+1, d), psi (B, H, d, S); sums over s' have the shape of phi, sums over z that of psi.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.batch import SeedState
from contrastive_ucb.representation.contrastive import (
    contrastive_loss,
    contrastive_weights,
    likelihood_loss,
    surplus_and_misfit,
)

Shape = tuple[int, int, int, int]  # B, H, Z, S


class DenseCounts(SeedState):
    """N1 and N0 as tables (B, H, Z+1, S), the fastest layout for small problems."""

    saved = ("positive", "negative")

    def __init__(
        self, shape: Shape, negatives: Array, pseudo: float, exact: bool, likelihood: bool = False
    ):
        n_seeds, horizon, n_pairs, n_states = shape
        self.negatives, self.exact, self.likelihood = negatives, exact or likelihood, likelihood
        self.positive, self.negative = np.zeros((2, n_seeds, horizon, n_pairs + 1, n_states))
        self.positive[:, :, -1] = self.negative[:, :, -1] = pseudo * negatives
        # Buffers are reused, because allocating large tables in every step is slow.
        self.total, self.ratio, self.weights = np.empty((3, *self.positive.shape))

    def add(self, tuples: Tuples) -> None:
        if self.exact:
            np.add.at(self.positive, (*tuples.cells, tuples.next_state), 1.0)
            np.add.at(self.negative, tuples.cells, self.negatives)
        else:
            label = tuples.label.astype(np.float64)
            np.add.at(self.positive, (*tuples.cells, tuples.contrast), label)
            np.add.at(self.negative, (*tuples.cells, tuples.contrast), 1.0 - label)

    def prepare(self) -> None:
        """Compute what is constant during a fit."""
        np.add(self.positive, self.negative, out=self.total)

    def over_states(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        pull, push = self._tables(phi, psi)
        other = psi.swapaxes(-1, -2)
        return np.matmul(pull, other), np.matmul(push, other)

    def over_pairs(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        pull, push = self._tables(phi, psi)
        other = phi.swapaxes(-1, -2)
        return np.matmul(other, pull), np.matmul(other, push)

    def loss(self, phi: Array, psi: Array) -> Array:
        """The loss of all data and pseudo-visits, (B, H)."""
        ratio = np.matmul(phi, psi)
        if self.likelihood:
            return likelihood_loss(ratio, self.positive, self.negative.sum(-1), self.negatives)
        return contrastive_loss(ratio, self.positive, self.negative)

    def visits(self) -> Array:
        """The amount of data per pair, up to a constant   (B, H, Z)"""
        return np.asarray(self.total[:, :, :-1].sum(-1))

    def worst_row(self, phi: Array, psi: Array) -> tuple[IntArray, Array]:
        """The pair with the worst fit, (B, H), and the surplus of its positives, (B, H, S)."""
        ratio = np.matmul(phi, psi)
        weights = self.negative if self.likelihood else contrastive_weights(ratio, self.total)
        surplus, misfit = surplus_and_misfit(self.positive, ratio * weights)
        row = misfit[:, :, :-1].sum(-1).argmax(-1)  # (B, H)
        seed, step = np.indices(row.shape)
        return row, surplus[seed, step, row]

    def _tables(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        """N1 / f and W, both (B, H, Z+1, S)."""
        ratio = np.matmul(phi, psi, out=self.ratio)
        push = self.negative
        if not self.likelihood:
            push = contrastive_weights(ratio, self.total, out=self.weights)
        return np.divide(self.positive, ratio, out=ratio), push


class SparseCounts:
    """N1 and N0 of the nonzero cells, sorted; memory grows with the data instead of Z x S.

    key        (n,)  ((seed * H + step) * (Z+1) + pair) * S + next state
    positive, negative  (n,)  N1 and N0 of these cells
    visits_of  (B, H, Z+1)  with exact negatives, visits(z) P^-(s') is added to N0 in every cell

    The sums use one block-diagonal sparse matrix (B H (Z+1), B H S).
    """

    def __init__(
        self, shape: Shape, negatives: Array, pseudo: float, exact: bool, likelihood: bool = False
    ):
        n_seeds, horizon, n_pairs, n_states = shape
        self.shape, self.blocks = (n_seeds, horizon, n_pairs + 1, n_states), n_seeds * horizon
        self.negatives, self.exact, self.likelihood = negatives, exact or likelihood, likelihood
        rows = np.arange(1, self.blocks + 1) * (n_pairs + 1) - 1  # row Z of every step
        self.key = (rows[:, None] * n_states + np.arange(n_states)).ravel()
        self.positive = np.tile(pseudo * negatives, self.blocks)
        self.negative = np.zeros_like(self.positive) if self.exact else self.positive.copy()
        self.visits_of = np.zeros(self.shape[:3])
        self.visits_of[:, :, -1] = pseudo

    def add(self, tuples: Tuples) -> None:
        state = tuples.next_state if self.exact else tuples.contrast
        key, inverse = np.unique(
            np.ravel_multi_index((*tuples.cells, state), self.shape), return_inverse=True
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
        np.add.at(self.visits_of, tuples.cells, 1.0)

    def prepare(self) -> None:
        """Compute what is constant during a fit."""
        _, _, n_rows, n_states = self.shape
        self.row, self.state = np.divmod(self.key, n_states)
        self.column = self.row // n_rows * n_states + self.state  # row of psi (B H S, d)
        self.starts = np.searchsorted(self.row, np.arange(self.blocks * n_rows + 1))
        self.total = self.positive + self.negative

    def over_states(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        left, right = _flat(phi), _flat(psi.swapaxes(-1, -2))
        pull, push = self._matrices(left, right)
        pulls, pushes = pull @ right, push @ right
        for rows, weights, block in self._background(left, psi):
            pushes[rows] += weights @ psi.reshape(self.blocks, *psi.shape[-2:])[block].T
        return pulls.reshape(phi.shape), pushes.reshape(phi.shape)

    def over_pairs(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        left, right = _flat(phi), _flat(psi.swapaxes(-1, -2))
        pull, push = self._matrices(left, right)
        shape = (*psi.shape[:2], psi.shape[3], psi.shape[2])  # (B, H, S, d)
        pulls, pushes = (pull.T @ left).reshape(shape), (push.T @ left).reshape(shape)
        per_block = pushes.reshape(self.blocks, *shape[2:])
        for rows, weights, block in self._background(left, psi):
            per_block[block] += weights.T @ left[rows]
        return pulls.swapaxes(-1, -2), pushes.swapaxes(-1, -2)

    def loss(self, phi: Array, psi: Array) -> Array:
        """The loss of all data and pseudo-visits, (B, H)."""
        ratio = self._ratio(_flat(phi), _flat(psi.swapaxes(-1, -2)))
        terms = -self.positive * np.log(ratio)
        if not self.likelihood:
            terms += self.total * np.log1p(ratio)
        losses: Array = np.zeros(self.blocks)
        losses += np.bincount(self.row // self.shape[2], terms, minlength=self.blocks)
        for rows, right, block in self._visited_rows(psi):
            ratios = _flat(phi)[rows] @ right
            term = ratios if self.likelihood else np.log1p(ratios)
            losses[block] += self.visits_of.ravel()[rows] @ (term @ self.negatives)
        return losses.reshape(self.shape[:2])

    def visits(self) -> Array:
        """The amount of data per pair, up to a constant   (B, H, Z)"""
        return self.visits_of[:, :, :-1]

    def worst_row(self, phi: Array, psi: Array) -> tuple[IntArray, Array]:
        """The pair with the worst fit, (B, H), and the surplus of its positives, (B, H, S)."""
        ratio = self._ratio(_flat(phi), _flat(psi.swapaxes(-1, -2)))
        n_seeds, horizon, n_rows, n_states = self.shape
        weights = np.zeros_like(self.total) if self.likelihood else self.total
        if self.exact:
            weights = weights + self.visits_of.ravel()[self.row] * self.negatives[self.state]
        if not self.likelihood:
            weights = contrastive_weights(ratio, weights)
        surplus, misfit = surplus_and_misfit(self.positive, ratio * weights)
        by_row = np.bincount(self.row, misfit, minlength=self.blocks * n_rows)
        row = by_row.reshape(n_seeds, horizon, n_rows)[:, :, :-1].argmax(-1)
        block = self.row // n_rows
        chosen = self.row % n_rows == row.ravel()[block]
        table = np.zeros((self.blocks, n_states))
        table[block[chosen], self.state[chosen]] = surplus[chosen]
        return row, table.reshape(n_seeds, horizon, n_states)

    def state_of(self, seed: int) -> dict[str, Any]:
        size = int(np.prod(self.shape[1:]))
        rows = slice(*np.searchsorted(self.key, [seed * size, (seed + 1) * size]))
        return {
            "key": self.key[rows] - seed * size,
            "positive": self.positive[rows],
            "negative": self.negative[rows],
            "visits": self.visits_of[seed],
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        size = int(np.prod(self.shape[1:]))
        self.key = np.concatenate([state["key"] + i * size for i, state in enumerate(states)])
        self.positive = np.concatenate([state["positive"] for state in states])
        self.negative = np.concatenate([state["negative"] for state in states])
        self.visits_of[:] = [state["visits"] for state in states]

    def _ratio(self, left: Array, right: Array) -> Array:
        """f in the nonzero cells; phi (B H (Z+1), d), psi (B H S, d)."""
        return np.asarray(np.einsum("nd,nd->n", left[self.row], right[self.column]))

    def _matrices(self, left: Array, right: Array) -> tuple[csr_array, csr_array]:
        """N1 / f and W as sparse (B H (Z+1), B H S); phi (B H (Z+1), d), psi (B H S, d)."""
        ratio = self._ratio(left, right)
        weights = contrastive_weights(ratio, self.total) * (not self.likelihood)
        pull, push = (
            csr_array((values, self.column, self.starts), shape=(len(left), len(right)))
            for values in (self.positive / ratio, weights)
        )
        return pull, push

    def _background(self, left: Array, psi: Array) -> Iterator[tuple[IntArray, Array, int]]:
        """With exact negatives, the weights of visits(z) P^-(s'): rows, table, block."""
        for rows, right, block in self._visited_rows(psi):
            table = np.outer(self.visits_of.ravel()[rows], self.negatives)
            if not self.likelihood:
                table = contrastive_weights(left[rows] @ right, table)
            yield rows, table, block

    def _visited_rows(self, psi: Array) -> Iterator[tuple[IntArray, Array, int]]:
        """With exact negatives, all s' of the visited z: rows, psi (d, S), block."""
        if not self.exact:
            return
        visits = self.visits_of.reshape(self.blocks, -1)
        for block, right in enumerate(psi.reshape(self.blocks, *psi.shape[2:])):
            yield block * visits.shape[1] + np.flatnonzero(visits[block]), right, block


def _flat(factor: Array) -> Array:
    return np.ascontiguousarray(factor).reshape(-1, factor.shape[-1])
