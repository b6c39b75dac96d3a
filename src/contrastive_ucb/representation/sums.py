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
)


class DenseSums:
    """Batched matrix products over whole tables, all seeds and steps at once."""

    def __init__(self, counts: DenseCounts, likelihood: bool):
        self.counts, self.likelihood = counts, likelihood
        self.total = counts.positive + counts.negative

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

    def _tables(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        """N1 / f and W, both (B, H, Z+1, S)."""
        ratio = np.matmul(phi, psi)
        push = self.counts.negative if self.likelihood else contrastive_weights(ratio, self.total)
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

    def _matrices(self, phi: Array, psi: Array) -> tuple[csr_array, csr_array]:
        """N1 / f and W as sparse (B H (Z+1), B H S); phi (B H (Z+1), d), psi (B H S, d)."""
        ratio = np.einsum("nd,nd->n", phi[self.row], psi[self.column])
        weights = contrastive_weights(ratio, self.total)
        values = (self.counts.positive / ratio, weights * (not self.likelihood))
        pull, push = (
            csr_array((v, self.column, self.starts), shape=(len(phi), len(psi))) for v in values
        )
        return pull, push

    def _background(self, phi: Array, psi: Array) -> Iterator[tuple[IntArray, Array, int]]:
        """With exact negatives, visits(z) P^-(s') in all s': dense rows, of the visited z only."""
        if not self.counts.exact:
            return
        visits = self.counts.visits.reshape(self.blocks, -1)
        for block, (count, left, right) in enumerate(
            zip(visits, phi.reshape(self.blocks, *phi.shape[2:]), _blocks(psi), strict=True)
        ):
            seen = np.flatnonzero(count)
            table = np.outer(count[seen], self.negatives)
            if not self.likelihood:
                table = contrastive_weights(left[seen] @ right, table)
            yield block * len(count) + seen, table, block


def make_sums(
    counts: DenseCounts | SparseCounts, negatives: Array, likelihood: bool
) -> DenseSums | SparseSums:
    if isinstance(counts, DenseCounts):
        return DenseSums(counts, likelihood)
    return SparseSums(counts, negatives, likelihood)


def _flat(factor: Array) -> Array:
    return np.ascontiguousarray(factor).reshape(-1, factor.shape[-1])


def _blocks(factor: Array) -> Array:
    return factor.reshape(-1, *factor.shape[2:])
