"""What a multiplicative step needs of the data, from tables or from sparse cells.

For each factor there is a pull, sums of N1 / f times the other factor, and a push, sums of W times
the other factor, with W = (N1 + N0) / (1 + f) for the contrastive loss and W = n(z) P^-(s') for
maximum likelihood. Here n(z) P^-(s') is just N0 with exact negatives, so one switch serves both.

phi (B, H, Z+1, d), psi (B, H, d, S); sums over s' have the shape of phi, sums over z that of psi.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.data.counts import DenseCounts, SparseCounts
from contrastive_ucb.representation.contrastive import (
    contrastive_loss,
    contrastive_weights,
    likelihood_loss,
    surplus_and_misfit,
)


class DenseSums:
    """Batched matrix products over whole tables, all seeds and steps at once."""

    def __init__(self, counts: DenseCounts, likelihood: bool):
        self.counts, self.likelihood = counts, likelihood
        self.total = counts.positive + counts.negative
        # Fresh tables in every step would be handed back to the kernel and faulted in again.
        self.ratio, self.weights = np.empty_like(self.total), np.empty_like(self.total)

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
            visits = self.counts.negative.sum(-1)
            return likelihood_loss(ratio, self.counts.positive, visits, self.counts.negatives)
        return contrastive_loss(ratio, self.counts.positive, self.counts.negative)

    def visits(self) -> Array:
        """How much data a pair has, up to a constant   (B, H, Z)"""
        return np.asarray(self.total[:, :, :-1].sum(-1))

    def worst_row(self, phi: Array, psi: Array) -> tuple[IntArray, Array]:
        """The pair that is explained worst, (B, H), and the surplus of its positives, (B, H, S)."""
        ratio = np.matmul(phi, psi)
        weights = self.counts.negative
        if not self.likelihood:
            weights = contrastive_weights(ratio, self.total)
        surplus, misfit = surplus_and_misfit(self.counts.positive, ratio * weights)
        row = misfit[:, :, :-1].sum(-1).argmax(-1)  # (B, H)
        seed, step = np.indices(row.shape)
        return row, surplus[seed, step, row]

    def _tables(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        """N1 / f and W, both (B, H, Z+1, S)."""
        ratio = np.matmul(phi, psi, out=self.ratio)
        push = self.counts.negative
        if not self.likelihood:
            push = contrastive_weights(ratio, self.total, out=self.weights)
        return np.divide(self.counts.positive, ratio, out=ratio), push


class SparseSums:
    """The same from the cells that occurred: one block-diagonal sparse matrix for all of them."""

    def __init__(self, counts: SparseCounts, negatives: Array, likelihood: bool):
        self.counts, self.negatives, self.likelihood = counts, negatives, likelihood
        n_seeds, horizon, n_rows, n_states = counts.shape
        self.blocks = n_seeds * horizon
        row, state = np.divmod(counts.key, n_states)
        self.column = row // n_rows * n_states + state  # psi of this step: (B H S, d)
        self.starts = np.searchsorted(row, np.arange(self.blocks * n_rows + 1))
        self.row = row
        self.total = counts.positive + counts.negative

    def over_states(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        flat, other = _flat(phi), _flat(psi.swapaxes(-1, -2))
        pull, push = self._matrices(flat, other)
        pulls, pushes = pull @ other, push @ other
        for rows, weights, block in self._background(phi, psi):
            pushes[rows] += weights @ psi.reshape(self.blocks, *psi.shape[-2:])[block].T
        return pulls.reshape(phi.shape), pushes.reshape(phi.shape)

    def over_pairs(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        flat, other = _flat(phi), _flat(psi.swapaxes(-1, -2))
        pull, push = self._matrices(flat, other)
        shape = (*psi.shape[:2], psi.shape[3], psi.shape[2])  # (B, H, S, d)
        pulls, pushes = (pull.T @ flat).reshape(shape), (push.T @ flat).reshape(shape)
        per_block = pushes.reshape(self.blocks, *shape[2:])
        for rows, weights, block in self._background(phi, psi):
            per_block[block] += weights.T @ flat[rows]
        return pulls.swapaxes(-1, -2), pushes.swapaxes(-1, -2)

    def loss(self, phi: Array, psi: Array) -> Array:
        """The loss of all data and pseudo-visits, (B, H)."""
        ratio = self._ratio(_flat(phi), _flat(psi.swapaxes(-1, -2)))
        terms = -self.counts.positive * np.log(ratio)
        if not self.likelihood:
            terms += self.total * np.log1p(ratio)
        block = self.row // self.counts.shape[2]
        losses = np.bincount(block, terms, minlength=self.blocks).astype(np.float64)
        for rows, right, number in self._seen_rows(psi):
            ratios = _flat(phi)[rows] @ right
            term = ratios if self.likelihood else np.log1p(ratios)
            losses[number] += self.counts.visits.ravel()[rows] @ (term @ self.negatives)
        return losses.reshape(self.counts.shape[:2])

    def visits(self) -> Array:
        """How much data a pair has, up to a constant   (B, H, Z)"""
        return self.counts.visits[:, :, :-1]

    def worst_row(self, phi: Array, psi: Array) -> tuple[IntArray, Array]:
        """The pair that is explained worst, (B, H), and the surplus of its positives, (B, H, S)."""
        ratio = self._ratio(_flat(phi), _flat(psi.swapaxes(-1, -2)))
        n_seeds, horizon, n_rows, n_states = self.counts.shape
        state = self.column % n_states
        weights = self.total if not self.likelihood else np.zeros_like(self.total)
        if self.counts.exact:
            weights = weights + self.counts.visits.ravel()[self.row] * self.negatives[state]
        if not self.likelihood:
            weights = contrastive_weights(ratio, weights)
        surplus, misfit = surplus_and_misfit(self.counts.positive, ratio * weights)
        by_row = np.bincount(self.row, misfit, minlength=self.blocks * n_rows)
        row = by_row.reshape(n_seeds, horizon, n_rows)[:, :, :-1].argmax(-1)
        block = self.row // n_rows
        mine = self.row % n_rows == row.ravel()[block]
        table = np.zeros((self.blocks, n_states))
        table[block[mine], state[mine]] = surplus[mine]
        return row, table.reshape(n_seeds, horizon, n_states)

    def _ratio(self, phi: Array, psi: Array) -> Array:
        """f in the cells that occurred; phi (B H (Z+1), d), psi (B H S, d)."""
        return np.asarray(np.einsum("nd,nd->n", phi[self.row], psi[self.column]))

    def _matrices(self, phi: Array, psi: Array) -> tuple[csr_array, csr_array]:
        """N1 / f and W as sparse (B H (Z+1), B H S); phi (B H (Z+1), d), psi (B H S, d)."""
        ratio = self._ratio(phi, psi)
        weights = contrastive_weights(ratio, self.total)
        values = (self.counts.positive / ratio, weights * (not self.likelihood))
        pull, push = (
            csr_array((v, self.column, self.starts), shape=(len(phi), len(psi))) for v in values
        )
        return pull, push

    def _background(self, phi: Array, psi: Array) -> Iterator[tuple[IntArray, Array, int]]:
        """With exact negatives, the weights of visits(z) P^-(s'): rows, table, block."""
        left = _flat(phi)
        for rows, right, block in self._seen_rows(psi):
            table = np.outer(self.counts.visits.ravel()[rows], self.negatives)
            if not self.likelihood:
                table = contrastive_weights(left[rows] @ right, table)
            yield rows, table, block

    def _seen_rows(self, psi: Array) -> Iterator[tuple[IntArray, Array, int]]:
        """With exact negatives all s' matter, but only of visited z: rows, psi (d, S), block."""
        if not self.counts.exact:
            return
        visits = self.counts.visits.reshape(self.blocks, -1)
        for block, right in enumerate(psi.reshape(self.blocks, *psi.shape[2:])):
            yield block * visits.shape[1] + np.flatnonzero(visits[block]), right, block


def make_sums(
    counts: DenseCounts | SparseCounts, negatives: Array, likelihood: bool
) -> DenseSums | SparseSums:
    if isinstance(counts, DenseCounts):
        return DenseSums(counts, likelihood)
    return SparseSums(counts, negatives, likelihood)


def _flat(factor: Array) -> Array:
    return np.ascontiguousarray(factor).reshape(-1, factor.shape[-1])
