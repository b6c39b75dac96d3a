"""Minimising the contrastive loss: by multiplicative steps on counts, or over a finite class.

Algorithm 1, lines 6 to 8: (phi~, psi~) from D_h by (eq. solve-contra-loss), (phi^, psi^) by
(eq. normalization), P^ = psi^'phi^. All h and all seeds at once, warm-started from the last round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.data.collect import Tuples
from contrastive_ucb.data.counts import cells, make_counts
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.contrastive import (
    contrastive_loss,
    lift,
    multiplicative_step,
    normalise,
)
from contrastive_ucb.representation.reseed import reseeded
from contrastive_ucb.representation.sums import DenseSums, SparseSums, make_sums

FINITE_CELLS = 50_000_000  # 400 MB
LEAST = 1e-2  # of the mean of a factor: below it a latent stops taking part, so a refit starts here


class CountsModel:
    """The class of all positive factors, fitted on counts.

    The loss is that of the data plus `pseudo` visits a pair that look like those of a pair nobody
    has visited (row Z of phi), and as many a latent that look like P^-: Gamma priors that keep
    every factor positive. Within one fit they stand still, so that no sweep raises the penalised
    loss.

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
        start = np.stack(near_one)  # equal latents would stay equal, so they start apart
        self.phi = start[:, :, : n_pairs + 1] / rank
        self.psi = np.ascontiguousarray(start[:, :, n_pairs + 1 :].swapaxes(-1, -2))

    def add(self, tuples: Tuples) -> None:
        self.counts.add(tuples)

    def fit(self) -> Kernel:
        """Lines 6 to 8: a few sweeps from where the last round ended, then normalise."""
        sums = make_sums(self.counts, self.negatives, self.likelihood)
        phi, psi = self._sweep(sums, self.phi, self.psi)
        self.n_fits += 1
        if self.reseed_every and self.n_fits % self.reseed_every == 0 and psi.shape[-2] > 1:
            other = self._sweep(sums, *reseeded(sums, phi, psi, self.negatives))
            phi, psi = self._sweep(sums, phi, psi)
            better = (sums.loss(*other) < sums.loss(phi, psi))[:, :, None, None]
            phi, psi = np.where(better, other[0], phi), np.where(better, other[1], psi)
        self.phi, self.psi = phi, psi
        return normalise(phi[:, :, :-1], psi, self.negatives)

    def _sweep(self, sums: DenseSums | SparseSums, phi: Array, psi: Array) -> tuple[Array, Array]:
        """Lift what is too small to recover, then a few multiplicative sweeps downhill."""
        phi, psi = lift(phi, LEAST), lift(psi, LEAST)
        pair_rate = self.pseudo * (psi * self.negatives).sum(-1)[:, :, None]  # (B, H, 1, d)
        pair_shape = pair_rate * phi[:, :, -1:]
        state_prior = self.pseudo * self.negatives  # mean 1, that is P^ = P^-
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
    """A finite class (l.194): a list of M pairs (phi, psi), minimised by enumeration.

    phi  (B, M, H, Z, d), psi (B, M, H, d, S). The running loss of each candidate at each step is
    all that is kept of the data. The paper's loss needs f > 0 (erratum E12); here a candidate with
    f = 0 where a positive fell has an infinite loss, which is to say that it is ruled out.
    """

    def __init__(self, phi: Array, psi: Array, negatives: Array, exact: bool = False):
        self.phi, self.psi, self.negatives, self.exact = phi, psi, negatives, exact
        if (size := int(np.prod(phi.shape[:-1])) * psi.shape[-1]) > FINITE_CELLS:
            raise ValueError(
                f"a finite class of {size:,} values f is too large (limit {FINITE_CELLS:,}); "
                "use a smaller class_size or function_class 'counts'"
            )
        self.ratio = np.matmul(phi, psi)  # (B, M, H, Z, S)
        if not (least := float(self.ratio.min())) >= 0:
            raise ValueError(f"the function class has f = {least:.3g}; no f may be negative (E12)")
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
                "the data rule out every member of the function class; enlarge it"
            )
        best = self.losses.argmin(1)  # (B, H)
        seed, step = np.indices(best.shape)
        chosen = (seed, best, step)
        return normalise(self.phi[chosen], self.psi[chosen], self.negatives)

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"losses": self.losses[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.losses[:] = [state["losses"] for state in states]


def class_around(
    kernel: Kernel, negatives: Array, size: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """A finite class of `size` pairs that holds the truth, at a random place, among mixtures.

    Each other candidate mixes the true factors with random ones, by a share between 2% and 50%.

    kernel   (H, Z, d), (H, d, S) of one seed; returns phi (M, H, Z, d), psi (M, H, d, S)
    """
    if kernel.measures is None:
        raise ValueError("a finite class needs the true factors; a table has none")
    rank, n_states = kernel.measures.shape[-2:]
    shares = np.geomspace(0.02, 0.5, size - 1) if size > 1 else np.empty(0)
    shares = generator.permutation(np.append(shares, 0.0))[:, None, None, None]
    others = generator.dirichlet(np.ones(rank), (size, *kernel.features.shape[:-1]))
    phi = (1 - shares) * kernel.features + shares * others
    tables = generator.dirichlet(np.ones(n_states), (size, *kernel.measures.shape[:-1]))
    psi = (1 - shares) * kernel.measures + shares * tables
    return phi, psi / negatives
