"""The elliptical bonus: the uncertainty in the direction of a feature (Algorithm 1, lines 9-10).

| paper        | here        | shape        |
|--------------|-------------|--------------|
| phi^_h(z)    | `phi`       | (..., Z, d)  |
| Sigma^_h     | `covariance`| (..., d, d)  |
| lambda_k     | `ridge`     |              |
| gamma_k      | `scale`     |              |

gamma_k and lambda_k are the constants of the theorem (`theory_coefficients`) or, in the practical
schedule, alpha H and a constant ridge.

Every function takes NumPy arrays or torch tensors, in float64 on the CPU, and returns the same
kind. torch is imported only when a tensor is passed in. Sigma is always used through its Cholesky
factor; a matrix without one raises an error.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.linalg.lapack import dtpqrt

from contrastive_ucb.core.arrays import Array

if TYPE_CHECKING:
    from torch import Tensor

A = TypeVar("A", "Array", "Tensor")
UPDATED_COLUMNS = 16  # block size of tpqrt
REWARD_RIDGE = 0.1  # of the regression of rewards; on one-hot features sum / (visits + 0.1)
NOT_FINITE = "the covariance of the features has a NaN or infinite entry"


def covariance(phi: A, visits: A, ridge: float, averaged_over: int = 1) -> A:
    """Sigma = sum over the visits of phi phi' + lambda I   (line 9).

    phi            (..., Z, d)
    visits         (..., Z)     number of visits of z in the bonus data D~
    averaged_over               k gives the form printed in the paper, (1/k) sum + lambda I, which
                                does not shrink with k: with the theorem's gamma_k every bonus stays
                                at its cap (erratum E1). 1 gives the sum used in the analysis
    """
    xp = _namespace(phi)
    weighted = (phi * visits[..., None]).mT
    # NumPy multiplies one matrix at a time. The rounding of torch's batched product depends on the
    # size of the batch, and the result of a seed must not depend on the other seeds.
    gram = xp.asarray(np.matmul(np.asarray(weighted), np.asarray(phi))) / averaged_over
    sigma: A = gram + ridge * xp.eye(phi.shape[-1], dtype=phi.dtype)
    return sigma


def cholesky(matrix: A) -> A:
    """The lower Cholesky factor L of Sigma = L L'."""
    xp = _namespace(matrix)
    if not xp.isfinite(matrix).all():
        raise ArithmeticError(NOT_FINITE)
    try:
        factor: A = xp.linalg.cholesky(matrix)
    except xp.linalg.LinAlgError as error:
        raise ArithmeticError(
            "the covariance of the features is not positive definite; raise the ridge"
        ) from error
    return factor


def cholesky_update(chol: A, rows: A) -> A:
    """The lower Cholesky factor of L L' + sum of phi phi' over the rows phi.

    chol  L    (d, d)
    rows  phi  (m, d)  returns (d, d)

    L' stacked on the rows is a square root of the new matrix, so the triangular factor of its QR
    decomposition is the new L' up to signs. LAPACK's tpqrt uses the zeros of L' and costs O(m d^2)
    instead of O(d^3). It does not form squares, so rarely visited directions keep more digits than
    in the sum Sigma.
    """
    width = min(UPDATED_COLUMNS, len(chol))
    upper, _, _, _ = dtpqrt(0, width, np.asarray(chol.mT), np.asarray(rows))
    factor = upper.T * np.where(upper.diagonal() < 0, -1.0, 1.0)
    if not np.isfinite(factor.diagonal()).all():  # a NaN in any row reaches the diagonal
        raise ArithmeticError(NOT_FINITE)
    updated: A = _namespace(chol).asarray(factor)
    return updated


def elliptical_width(phi: A, chol: A) -> A:
    """sqrt(phi' inv(Sigma) phi), the width of the confidence ellipsoid along phi   (line 10).

    phi   (..., Z, d)
    chol  (..., d, d)  lower Cholesky factor L of Sigma; returns (..., Z), the norm of inv(L) phi
    """
    xp = _namespace(phi)
    if xp is np:  # NumPy has no batched triangular solve; d is small, so the inverse is cheap
        whitened = np.matmul(np.linalg.inv(chol), phi.mT)  # (..., d, Z)
    else:
        whitened = xp.linalg.solve_triangular(chol, phi.mT, upper=False)
    width: A = xp.sqrt(xp.square(whitened).sum(-2))
    return width


def ridge_weights(phi: Array, visits: Array, sums: Array, ridge: float) -> Array:
    """inv(sum phi phi' + lambda I) sum phi r, the ridge regression of rewards on phi (l.168).

    phi     (..., Z, d)
    visits  (..., Z)     number of observed rewards of z
    sums    (..., Z)     their sums; returns (..., d)
    """
    gram = covariance(phi, visits, ridge)
    moments = np.matmul(phi.mT, sums[..., None])
    return np.asarray(np.linalg.solve(gram, moments)[..., 0], dtype=np.float64)


def bonus(width: A, scale: float, cap: float) -> A:
    """beta = min{gamma_k * width, 2H}   (line 10)"""
    beta: A = _namespace(width).clip(scale * width, None, cap)
    return beta


def log_det(chol: A) -> A:
    """log det Sigma, which appears in the elliptical potential lemma (l.1814).

    chol  (..., d, d); returns (...)
    """
    xp = _namespace(chol)
    logarithm: A = 2 * xp.log(xp.linalg.diagonal(chol)).sum(-1)
    return logarithm


def theory_coefficients(
    k: int,
    horizon: int,
    n_actions: int,
    rank: int,
    floor: float,
    log_class_size: float,
    failure: float = 0.05,
    constant: float = 1.0,
) -> tuple[float, float]:
    """gamma_k and lambda_k of the theorem (l.219); the bonus is at its cap for over 1e5 rounds.

    gamma_k = 4H (12 sqrt(A d) + sqrt(c0) d) / C_S^- sqrt(log(2 H k |F| / delta))
    lambda_k = c0 d log(H |F| k / delta)

    floor           C_S^-    smallest probability under P^-
    log_class_size  log |F|  since |F| overflows for realistic classes
    failure         delta
    constant        c_0, "sufficiently large" in the paper
    """
    common = log(horizon * k / failure) + log_class_size
    width = 12 * sqrt(n_actions * rank) + sqrt(constant) * rank
    scale = 4 * horizon * width / floor * sqrt(log(2) + common)
    return scale, constant * rank * common


def _namespace(array: Any) -> Any:
    """The module, numpy or torch, whose functions apply to this array."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch
