"""Minimization of the loss on counts: multiplicative updates, or enumeration of a finite class.

phi (B, H, Z+1, d), psi (B, H, d, S). The last section has the models without learned features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.batch import SeedState
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.contrastive import (
    contrastive_loss,
    lift,
    multiplicative_step,
    normalize,
)
from contrastive_ucb.representation.counts import DenseCounts, Shape, SparseCounts

DENSE_CELLS = 1_000_000  # the largest table per seed; 2,000 states need 400 times as many cells
MOST_CELLS = 50_000_000  # of a finite class or a table, 400 MB
LEAST = 1e-2  # smallest entry at the start of a fit, relative to the mean of the factor
SMALL = 1e-2  # initial weight of a new latent in other pairs, relative to the mean


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
