"""Minimization of the loss on counts: multiplicative updates, or enumeration of a finite class.

A multiplicative step of one factor needs two sums over the data: the pull, sums of N1 / f times the
other factor, and the push, sums of W times the other factor, where W = (N1 + N0) / (1 + f) for the
contrastive loss and W = n(z) P^-(s') for maximum likelihood. The latter equals N0 with exact
negatives. `DenseSums` and `SparseSums` compute them from the two layouts of the counts.

phi (B, H, Z+1, d), psi (B, H, d, S); sums over s' have the shape of phi, sums over z that of psi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.counts import DenseCounts, SparseCounts, cells, make_counts
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.contrastive import (
    contrastive_loss,
    contrastive_weights,
    lift,
    likelihood_loss,
    multiplicative_step,
    normalize,
    surplus_and_misfit,
)


class DenseSums:
    """Batched matrix products over whole tables, all seeds and steps at once."""

    def __init__(self, counts: DenseCounts, likelihood: bool):
        self.counts, self.likelihood = counts, likelihood
        self.total = counts.positive + counts.negative
        # Buffers are reused, because allocating large tables in every step is slow.
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
        """The amount of data per pair, up to a constant   (B, H, Z)"""
        return np.asarray(self.total[:, :, :-1].sum(-1))

    def worst_row(self, phi: Array, psi: Array) -> tuple[IntArray, Array]:
        """The pair with the worst fit, (B, H), and the surplus of its positives, (B, H, S)."""
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
    """The same sums from nonzero cells, as one block-diagonal sparse matrix."""

    def __init__(self, counts: SparseCounts, negatives: Array, likelihood: bool):
        self.counts, self.negatives, self.likelihood = counts, negatives, likelihood
        n_seeds, horizon, n_rows, n_states = counts.shape
        self.blocks = n_seeds * horizon
        row, state = np.divmod(counts.key, n_states)
        self.column = row // n_rows * n_states + state  # row of psi (B H S, d)
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
        for rows, right, number in self._visited_rows(psi):
            ratios = _flat(phi)[rows] @ right
            term = ratios if self.likelihood else np.log1p(ratios)
            losses[number] += self.counts.visits.ravel()[rows] @ (term @ self.negatives)
        return losses.reshape(self.counts.shape[:2])

    def visits(self) -> Array:
        """The amount of data per pair, up to a constant   (B, H, Z)"""
        return self.counts.visits[:, :, :-1]

    def worst_row(self, phi: Array, psi: Array) -> tuple[IntArray, Array]:
        """The pair with the worst fit, (B, H), and the surplus of its positives, (B, H, S)."""
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
        chosen = self.row % n_rows == row.ravel()[block]
        table = np.zeros((self.blocks, n_states))
        table[block[chosen], state[chosen]] = surplus[chosen]
        return row, table.reshape(n_seeds, horizon, n_states)

    def _ratio(self, phi: Array, psi: Array) -> Array:
        """f in the nonzero cells; phi (B H (Z+1), d), psi (B H S, d)."""
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
        for rows, right, block in self._visited_rows(psi):
            table = np.outer(self.counts.visits.ravel()[rows], self.negatives)
            if not self.likelihood:
                table = contrastive_weights(left[rows] @ right, table)
            yield rows, table, block

    def _visited_rows(self, psi: Array) -> Iterator[tuple[IntArray, Array, int]]:
        """With exact negatives, all s' of the visited z: rows, psi (d, S), block."""
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


SMALL = 1e-2  # initial weight of the new latent in other pairs, relative to the mean


def reseeded(
    sums: DenseSums | SparseSums, phi: Array, psi: Array, negatives: Array
) -> tuple[Array, Array]:
    """Factors with one latent replaced, per seed and step, to fit the worst pair (d >= 2).

    The two most similar latents are merged, which frees one for the surplus of that pair.
    """
    row, surplus = sums.worst_row(phi, psi)
    mass = (psi * negatives).sum(-1)  # (B, H, d)
    phi, psi = phi * mass[:, :, None], psi / mass[..., None]  # measures of mass 1 can be compared
    merged, freed = most_similar(psi * negatives)
    seed, step = np.indices(row.shape)
    used = np.matmul(sums.visits()[:, :, None], phi[:, :, :-1])[:, :, 0]  # (B, H, d)
    share = used[seed, step, merged] / (used[seed, step, merged] + used[seed, step, freed])
    mixture = share[..., None] * psi[seed, step, merged]
    mixture += (1 - share[..., None]) * psi[seed, step, freed]
    psi[seed, step, merged] = mixture
    phi[seed, step, :, merged] += phi[seed, step, :, freed]
    lacking = surplus / np.maximum(surplus.sum(-1, keepdims=True), 1e-12) / negatives
    psi[seed, step, freed] = lacking
    phi[seed, step, :, freed] = SMALL * phi[seed, step, :, merged].mean(-1, keepdims=True)
    phi[seed, step, row, freed] = phi[seed, step, row].sum(-1) / 2
    return phi, psi


def most_similar(measures: Array) -> tuple[IntArray, IntArray]:
    """The two latents whose measures have the largest cosine.   (B, H, d, S) -> (B, H) twice"""
    unit = measures / np.linalg.norm(measures, axis=-1, keepdims=True)
    cosine = np.matmul(unit, unit.swapaxes(-1, -2))
    first, second = np.triu_indices(measures.shape[-2], 1)
    best = cosine[..., first, second].argmax(-1)
    return first[best], second[best]


MOST_CELLS = 50_000_000  # of a finite class or a table, 400 MB
LEAST = 1e-2  # smallest entry at the start of a fit, relative to the mean of the factor


class CountsModel:
    """The class of all positive factors, fitted to counts.

    The loss has two Gamma priors, which keep every factor positive: `pseudo` visits per pair that
    equal those of an unvisited pair (row Z of phi), and `pseudo` visits per latent distributed like
    P^-. They are constant within a fit, so no sweep increases the penalized loss.

    phi  (B, H, Z+1, d), psi (B, H, d, S)
    """

    def __init__(
        self,
        shape: tuple[int, int, int, int],
        rank: int,
        negatives: Array,
        generators: Sequence[np.random.Generator],
        *,
        exact: bool = False,
        likelihood: bool = False,
        sweeps: int = 10,
        pseudo: float = 0.5,
        reseed_every: int = 10,
    ):
        _, horizon, n_pairs, n_states = shape
        self.negatives, self.likelihood = negatives, likelihood
        self.sweeps, self.pseudo = sweeps, pseudo
        self.reseed_every, self.n_fits = reseed_every, 0
        self.counts = make_counts(shape, negatives, pseudo, exact or likelihood)
        near_one = [
            g.uniform(0.5, 1.5, (horizon, n_pairs + 1 + n_states, rank)) for g in generators
        ]
        start = np.stack(near_one)  # equal latents would stay equal
        self.phi = start[:, :, : n_pairs + 1] / rank
        self.psi = np.ascontiguousarray(start[:, :, n_pairs + 1 :].swapaxes(-1, -2))

    def add(self, tuples: Tuples) -> None:
        self.counts.add(tuples)

    def fit(self) -> Kernel:
        """Lines 6 to 8: a few sweeps from the factors of the previous round, then normalization."""
        sums = make_sums(self.counts, self.negatives, self.likelihood)
        phi, psi = self._sweep(sums, self.phi, self.psi)
        self.n_fits += 1
        if self.reseed_every and self.n_fits % self.reseed_every == 0 and psi.shape[-2] > 1:
            other = self._sweep(sums, *reseeded(sums, phi, psi, self.negatives))
            phi, psi = self._sweep(sums, phi, psi)
            better = (sums.loss(*other) < sums.loss(phi, psi))[:, :, None, None]
            phi, psi = np.where(better, other[0], phi), np.where(better, other[1], psi)
        self.phi, self.psi = phi, psi
        return normalize(phi[:, :, :-1], psi, self.negatives)

    def _sweep(self, sums: DenseSums | SparseSums, phi: Array, psi: Array) -> tuple[Array, Array]:
        """Raise entries that are too small to recover, then apply multiplicative sweeps."""
        phi, psi = lift(phi, LEAST), lift(psi, LEAST)
        pair_rate = self.pseudo * (psi * self.negatives).sum(-1)[:, :, None]  # (B, H, 1, d)
        pair_shape = pair_rate * phi[:, :, -1:]
        state_prior = self.pseudo * self.negatives  # prior mean 1, that is, P^ = P^-
        for _ in range(self.sweeps):
            pull, push = sums.over_states(phi, psi)
            phi = multiplicative_step(phi, pull, push, pair_shape, pair_rate)
            pull, push = sums.over_pairs(phi, psi)
            psi = multiplicative_step(psi, pull, push, state_prior, state_prior)
        return phi, psi

    def state_of(self, seed: int) -> dict[str, Any]:
        counts = self.counts.state_of(seed)
        factors = {"phi": self.phi[seed], "psi": self.psi[seed]}
        return {**factors, "n_fits": self.n_fits, "counts": counts}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.n_fits = states[0]["n_fits"]
        self.phi = np.stack([state["phi"] for state in states])
        self.psi = np.stack([state["psi"] for state in states])
        self.counts.load_states([state["counts"] for state in states])


class FiniteModel:
    """A finite class (l.194) of M pairs (phi, psi), minimized by enumeration.

    phi  (B, M, H, Z, d), psi (B, M, H, d, S). The data is stored as the loss of each candidate at
    each step. The paper's loss needs f > 0 (erratum E12); here a candidate with f = 0 at a positive
    has an infinite loss and is ruled out.
    """

    def __init__(self, phi: Array, psi: Array, negatives: Array, exact: bool = False):
        self.phi, self.psi, self.negatives, self.exact = phi, psi, negatives, exact
        if (size := int(np.prod(phi.shape[:-1])) * psi.shape[-1]) > MOST_CELLS:
            raise ValueError(
                f"the finite class has {size:,} values of f, more than {MOST_CELLS:,}; use a"
                " smaller class_size or function_class='counts'"
            )
        self.ratio = np.matmul(phi, psi)  # (B, M, H, Z, S)
        if not (least := float(self.ratio.min())) >= 0:
            raise ValueError(f"the function class has f = {least:.3g}; f must be at least 0 (E12)")
        self.losses = np.zeros(self.ratio.shape[:3])  # (B, M, H)

    @property
    def size(self) -> int:
        """|F|, the number of pairs."""
        return int(self.phi.shape[1])

    def add(self, tuples: Tuples) -> None:
        seed, step, pair = cells(tuples)
        ratio = self.ratio[seed, :, step, pair]  # (B, n, M, S)
        one_hot = np.eye(ratio.shape[-1])
        if self.exact:
            positive = one_hot[tuples.next_state]
            negative = np.broadcast_to(self.negatives, positive.shape)
        else:
            drawn = one_hot[tuples.contrast]
            positive = drawn * tuples.label[..., None]
            negative = drawn - positive
        losses = contrastive_loss(
            ratio[..., None, :], positive[:, :, None, None], negative[:, :, None, None]
        )  # (B, n, M)
        np.add.at(self.losses.swapaxes(1, 2), (seed, step), losses)

    def fit(self) -> Kernel:
        if not np.isfinite(self.losses.min(1)).all():
            raise ArithmeticError(
                "the data rule out every member of the function class; use a larger class_size"
            )
        best = self.losses.argmin(1)  # (B, H)
        seed, step = np.indices(best.shape)
        chosen = (seed, best, step)
        return normalize(self.phi[chosen], self.psi[chosen], self.negatives)

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"losses": self.losses[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.losses[:] = [state["losses"] for state in states]


def class_around(
    kernel: Kernel, negatives: Array, size: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """A finite class of `size` pairs: the true factors, at a random index, and mixtures.

    The other candidates mix the true factors with 2 % to 50 % of random factors.

    kernel   (H, Z, d), (H, d, S) of one seed; returns phi (M, H, Z, d), psi (M, H, d, S)
    """
    if kernel.measures is None:
        raise ValueError("a finite class needs the true factors, but the kernel is a table")
    rank, n_states = kernel.measures.shape[-2:]
    shares = np.geomspace(0.02, 0.5, size - 1) if size > 1 else np.empty(0)
    shares = generator.permutation(np.append(shares, 0.0))[:, None, None, None]
    others = generator.dirichlet(np.ones(rank), (size, *kernel.features.shape[:-1]))
    phi = (1 - shares) * kernel.features + shares * others
    tables = generator.dirichlet(np.ones(n_states), (size, *kernel.measures.shape[:-1]))
    psi = (1 - shares) * kernel.measures + shares * tables
    return phi, psi / negatives


# Models without learned features: LSVI-UCB is given the true ones, UCBVI uses none


class TrueFeaturesModel:
    """LSVI-UCB: least-squares regression of the value of the next state on the true phi.

    The regression weights of any V are inv(Lambda) sum phi(z) V(s'), so the regression is
    equivalent to a kernel with features phi and measures inv(Lambda) sum phi(z) e_s'.

    features  (B, H, Z, d)
    """

    def __init__(self, features: Array, n_states: int, ridge: float):
        self.features, self.ridge = features, ridge
        n_seeds, horizon, _, rank = features.shape
        self.moments = np.zeros((n_seeds, horizon, rank, n_states))  # sum phi(z) e_s'
        self.gram = np.zeros((n_seeds, horizon, rank, rank))  # sum phi(z) phi(z)'

    def add(self, tuples: Tuples) -> None:
        seed, step, pair = cells(tuples)
        phi = self.features[seed, step, pair]  # (B, n, d)
        np.add.at(self.moments.swapaxes(-1, -2), (seed, step, tuples.next_state), phi)
        np.add.at(self.gram, (seed, step), phi[..., None] * phi[..., None, :])

    def fit(self) -> Kernel:
        weights = self.gram + self.ridge * np.eye(self.gram.shape[-1])
        return Kernel(self.features, np.asarray(np.linalg.solve(weights, self.moments)))

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"moments": self.moments[seed], "gram": self.gram[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.moments[:] = [state["moments"] for state in states]
        self.gram[:] = [state["gram"] for state in states]


class TableModel:
    """UCBVI: the empirical kernel, and P^- for unvisited pairs.   counts (B, H, Z, S)"""

    def __init__(self, shape: tuple[int, int, int, int], negatives: Array):
        if (size := int(np.prod(shape))) > MOST_CELLS:
            raise ValueError(
                f"ucbvi needs a table of {size:,} transitions, more than {MOST_CELLS:,}; use"
                " contrastive-ucb or lsvi-ucb, or fewer states or seeds"
            )
        self.counts = np.zeros(shape)
        self.counts += 1e-9 * negatives  # matters only without data

    def add(self, tuples: Tuples) -> None:
        np.add.at(self.counts, (*cells(tuples), tuples.next_state), 1.0)

    def fit(self) -> Kernel:
        return Kernel(self.counts / self.counts.sum(-1, keepdims=True))

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"counts": self.counts[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.counts[:] = [state["counts"] for state in states]
