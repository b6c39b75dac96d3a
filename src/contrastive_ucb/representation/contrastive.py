"""Equations of the contrastive loss and its minimization (l.191-207 of the paper).

| paper            | here        | shape           |                                               |
|------------------|-------------|-----------------|-----------------------------------------------|
| phi~_h(z)        | `phi`       | (..., Z, d)     | positive                                      |
| psi~_h(s')       | `psi`       | (..., d, S)     | positive                                      |
| f = psi'phi      | `ratio`     | (..., Z, S)     | the learning target is P_h(s'|z) / P^-(s')    |
| P^-(s')          | `negatives` | (S,)            | the distribution of negative next states      |
| sum over D, y=1  | `positive`  | (..., Z, S)     | number of (z, s') with label 1                |
| sum over D, y=0  | `negative`  | (..., Z, S)     | number of (z, s') with label 0                |

The loss depends on the data through counts only, so a fit costs the same in every round.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.kernel import Kernel


def contrastive_loss(ratio: Array, positive: Array, negative: Array) -> Array:
    """sum of y log(1 + 1/f) + (1 - y) log(1 + f) over the data   (eq. contra-loss, not averaged).

    ratio f, positive, negative  (..., Z, S); returns (...)
    """
    terms = (positive + negative) * np.log1p(ratio) - xlogy(positive, ratio)  # 0 log 0 = 0
    return np.asarray(terms.sum((-2, -1)))


def likelihood_loss(ratio: Array, positive: Array, visits: Array, negatives: Array) -> Array:
    """-log likelihood of the transitions, up to a constant; minimized by Rep-UCB.

    ratio f     (..., Z, S)  P(s'|z) / P^-(s'), not necessarily normalized; the first term of
                             sum_z n(z) sum_s' P^- f - N log f normalizes it at the minimum
    visits n    (..., Z)     number of visits of z; returns (...)
    """
    mass = (ratio * negatives).sum(-1)
    return np.asarray((visits * mass).sum(-1) - xlogy(positive, ratio).sum((-2, -1)))


def contrastive_weights(ratio: Array, counts: Array, out: Array | None = None) -> Array:
    """W = (N1 + N0) / (1 + f), the derivative of log(1 + f) weighted by the data."""
    return np.divide(counts, np.add(ratio, 1.0, out=out), out=out)


def multiplicative_step(
    factor: Array, pull: Array, push: Array, shape: Array | float, rate: Array | float
) -> Array:
    """The minimizer of a majorizer of the loss in one factor, so the loss never increases.

    -log f is majorized by Jensen's inequality (weights phi_j psi_j / f), log(1 + f) by its tangent.
    The result is separable, -(factor * pull + shape) log x + (push + rate) x, with its minimum at

        x = (factor * pull + shape) / (push + rate).

    factor  phi or psi        pull  sum of N1 / f times the other factor
    push    sum of W times the other factor
    shape, rate               of a Gamma prior, which adds rate x - shape log x to the loss
    """
    return (factor * pull + shape) / (push + rate)


def surplus_and_misfit(positive: Array, expected: Array) -> tuple[Array, Array]:
    """Positives in excess of their expectation f W, and their chi-square, per cell.

    At the unrestricted minimum over f, positives equal their expectation in every cell.
    """
    surplus = np.maximum(positive - expected, 0.0)
    return surplus, surplus**2 / (expected + 1.0)


def lift(factor: Array, least: float) -> Array:
    """Raise entries below `least` times the mean of their step; zeros could not grow again."""
    lifted: Array = np.maximum(factor, least * factor.mean((-2, -1), keepdims=True))
    return lifted


def normalize(phi: Array, psi: Array, negatives: Array) -> Kernel:
    """P^ = psi^'phi^ with rows that sum to 1 (eq. normalization), in the gauge of erratum E3.

    Rescaling latent j of phi by c and of psi by 1/c changes the bonus but not P^. Here every
    measure psi^_j has mass 1, so phi^(z) lies in the simplex and has norm at most 1.

    phi (..., Z, d), psi (..., d, S), negatives P^- (S,)
    """
    measures = psi * negatives
    mass = measures.sum(-1)  # (..., d)
    weights = phi * mass[..., None, :]
    unit = np.where(mass > 0, mass, 1.0)  # a latent without mass has weight 0
    return Kernel(weights / weights.sum(-1, keepdims=True), measures / unit[..., None])
