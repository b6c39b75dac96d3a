"""The loss on counts of the data, and its minimization for tables.

| paper                    | here       |                                               |
|--------------------------|------------|-----------------------------------------------|
| D_h with y = 1, N1       | `positive` | number of (z, s') with label 1                |
| D_h with y = 0, N0       | `negative` | number of (z, s') with label 0                |

Row Z of the tables stands for an unvisited pair. It has `pseudo` visits with either label, whose
next states follow P^-. All unvisited pairs share its features.

With `exact` negatives every transition is a positive, and N0 is its expectation n(z) P^-(s'). This
differs from the paper's sampler, but has the same minimizer with less noise.

A step of one factor needs two sums over the data: the pull, sums of N1 / f times the other factor,
and the push, sums of W times the other factor, where W = (N1 + N0) / (1 + f) for the contrastive
loss and W = n(z) P^-(s') for maximum likelihood. The latter equals N0 with exact negatives, which
`likelihood` therefore implies.

phi (B, H, Z+1, d), psi (B, H, d, S); sums over s' have the shape of phi, sums over z that of psi.
The minimization is by multiplicative updates or by enumeration of a finite class. The last section
has the models without learned features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.batch import SeedState
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

Shape = tuple[int, int, int, int]  # B, H, Z, S
DENSE_CELLS = 1_000_000  # the largest table per seed; 2,000 states need 400 times as many cells
MOST_CELLS = 50_000_000  # of a finite class or a table, 400 MB
LEAST = 1e-2  # smallest entry at the start of a fit, relative to the mean of the factor
SMALL = 1e-2  # initial weight of a new latent in other pairs, relative to the mean


# The data in two layouts


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


# Minimization


class CountsModel(SeedState):
    """The class of all positive factors, fitted to counts.

    The loss has two Gamma priors, which keep every factor positive: `pseudo` visits per pair that
    equal those of an unvisited pair (row Z of phi), and `pseudo` visits per latent distributed like
    P^-. They are constant within a fit, so no sweep increases the penalized loss.
    """

    saved = ("phi", "psi", "n_fits", "counts")

    def __init__(
        self,
        shape: Shape,
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
        self.negatives, self.sweeps, self.pseudo = negatives, sweeps, pseudo
        self.reseed_every, self.n_fits = reseed_every, 0
        # The layout depends on the size per seed, so that a batch equals single runs.
        is_dense = horizon * n_pairs * n_states <= DENSE_CELLS
        layout = DenseCounts if is_dense else SparseCounts
        self.counts = layout(shape, negatives, pseudo, exact, likelihood)
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
        self.counts.prepare()
        phi, psi = self._sweep(self.phi, self.psi)
        self.n_fits += 1
        if self.reseed_every and self.n_fits % self.reseed_every == 0 and psi.shape[-2] > 1:
            other = self._sweep(*reseeded(self.counts, phi, psi))
            phi, psi = self._sweep(phi, psi)
            better = (self.counts.loss(*other) < self.counts.loss(phi, psi))[:, :, None, None]
            phi, psi = np.where(better, other[0], phi), np.where(better, other[1], psi)
        self.phi, self.psi = phi, psi
        return normalize(phi[:, :, :-1], psi, self.negatives)

    def _sweep(self, phi: Array, psi: Array) -> tuple[Array, Array]:
        """Raise entries that are too small to recover, then apply multiplicative sweeps."""
        phi, psi = lift(phi, LEAST), lift(psi, LEAST)
        pair_rate = self.pseudo * (psi * self.negatives).sum(-1)[:, :, None]  # (B, H, 1, d)
        pair_shape = pair_rate * phi[:, :, -1:]
        state_prior = self.pseudo * self.negatives  # prior mean 1, that is, P^ = P^-
        for _ in range(self.sweeps):
            pull, push = self.counts.over_states(phi, psi)
            phi = multiplicative_step(phi, pull, push, pair_shape, pair_rate)
            pull, push = self.counts.over_pairs(phi, psi)
            psi = multiplicative_step(psi, pull, push, state_prior, state_prior)
        return phi, psi


def reseeded(data: DenseCounts | SparseCounts, phi: Array, psi: Array) -> tuple[Array, Array]:
    """Factors with one latent replaced, per seed and step, to fit the worst pair (d >= 2).

    The two most similar latents are merged, which frees one for the surplus of that pair.
    """
    row, surplus = data.worst_row(phi, psi)
    mass = (psi * data.negatives).sum(-1)  # (B, H, d)
    phi, psi = phi * mass[:, :, None], psi / mass[..., None]  # measures of mass 1 can be compared
    merged, freed = most_similar(psi * data.negatives)
    seed, step = np.indices(row.shape)
    used = np.matmul(data.visits()[:, :, None], phi[:, :, :-1])[:, :, 0]  # (B, H, d)
    share = used[seed, step, merged] / (used[seed, step, merged] + used[seed, step, freed])
    mixture = share[..., None] * psi[seed, step, merged]
    mixture += (1 - share[..., None]) * psi[seed, step, freed]
    psi[seed, step, merged] = mixture
    phi[seed, step, :, merged] += phi[seed, step, :, freed]
    lacking = surplus / np.maximum(surplus.sum(-1, keepdims=True), 1e-12) / data.negatives
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


class FiniteModel(SeedState):
    """A finite class (l.194) of M pairs (phi, psi), minimized by enumeration.

    phi  (B, M, H, Z, d), psi (B, M, H, d, S). The data is stored as the loss of each candidate at
    each step. The paper's loss needs f > 0 (erratum E12); here a candidate with f = 0 at a positive
    has an infinite loss and is ruled out.
    """

    saved = ("losses",)

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
        self.size = int(phi.shape[1])  # |F|, the number of pairs

    def add(self, tuples: Tuples) -> None:
        seed, step, pair = tuples.cells
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


def product_class(
    kernel: Kernel, negatives: Array, size: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """The function class of the paper (l.195): all pairs of sqrt(size) phi and sqrt(size) psi.

    Both lists contain the true factor at a random index and mixtures with 5 % to 80 % of random
    factors, so |F| = |Phi| |Psi|. Every phi(z) is in the simplex, so its norm is at most 1, and
    psi(s') = measure(s') / P^-(s') has norm at most sqrt(d) / C_S^-, as the definition requires.

    kernel   (H, Z, d), (H, d, S) of one seed; returns phi (M, H, Z, d), psi (M, H, d, S)
    """
    if kernel.measures is None:
        raise ValueError("a finite class needs the true factors, but the kernel is a table")
    side = isqrt(size)
    phis = _mixtures(kernel.features, side, generator)
    psis = _mixtures(kernel.measures, side, generator) / negatives
    return np.repeat(phis, side, axis=0), np.tile(psis, (side, 1, 1, 1))


def _mixtures(true: Array, count: int, generator: np.random.Generator) -> Array:
    """The true factor at a random position among its mixtures with random factors.

    true  (H, m, n) whose rows are distributions; returns (count, H, m, n)
    """
    shares = generator.permutation(np.append(np.geomspace(0.05, 0.8, count - 1), 0.0))
    others = generator.dirichlet(np.ones(true.shape[-1]), (count, *true.shape[:-1]))
    share = shares[:, None, None, None]
    return np.asarray((1 - share) * true + share * others)


# Models without learned features: LSVI-UCB is given the true ones, UCBVI uses none


class TrueFeaturesModel(SeedState):
    """LSVI-UCB: least-squares regression of the value of the next state on the true phi.

    The regression weights of any V are inv(Lambda) sum phi(z) V(s'), so the regression is
    equivalent to a kernel with features phi and measures inv(Lambda) sum phi(z) e_s'.

    features  (B, H, Z, d)
    """

    saved = ("moments", "gram")

    def __init__(self, features: Array, n_states: int, ridge: float):
        self.features, self.ridge = features, ridge
        n_seeds, horizon, _, rank = features.shape
        self.moments = np.zeros((n_seeds, horizon, rank, n_states))  # sum phi(z) e_s'
        self.gram = np.zeros((n_seeds, horizon, rank, rank))  # sum phi(z) phi(z)'

    def add(self, tuples: Tuples) -> None:
        seed, step, pair = tuples.cells
        phi = self.features[seed, step, pair]  # (B, n, d)
        np.add.at(self.moments.swapaxes(-1, -2), (seed, step, tuples.next_state), phi)
        np.add.at(self.gram, (seed, step), phi[..., None] * phi[..., None, :])

    def fit(self) -> Kernel:
        weights = self.gram + self.ridge * np.eye(self.gram.shape[-1])
        return Kernel(self.features, np.asarray(np.linalg.solve(weights, self.moments)))


class TableModel(SeedState):
    """UCBVI: the empirical kernel, and P^- for unvisited pairs.   counts (B, H, Z, S)"""

    saved = ("counts",)

    def __init__(self, shape: Shape, negatives: Array):
        if (size := int(np.prod(shape))) > MOST_CELLS:
            raise ValueError(
                f"ucbvi needs a table of {size:,} transitions, more than {MOST_CELLS:,}; use"
                " contrastive-ucb or lsvi-ucb, or fewer states or seeds"
            )
        self.counts = np.zeros(shape)
        self.counts += 1e-9 * negatives  # matters only without data

    def add(self, tuples: Tuples) -> None:
        np.add.at(self.counts, (*tuples.cells, tuples.next_state), 1.0)

    def fit(self) -> Kernel:
        return Kernel(self.counts / self.counts.sum(-1, keepdims=True))
