"""The elliptical bonus: how little is known along a feature (Algorithm 1, lines 9 and 10).

| paper        | here        | shape        |
|--------------|-------------|--------------|
| phi^_h(z)    | `phi`       | (..., Z, d)  |
| Sigma^_h     | `covariance`| (..., d, d)  |
| lambda_k     | `ridge`     |              |
| gamma_k      | `scale`     |              |

Everything is float64 and goes through a Cholesky factor; a matrix that has none is an error with a
name, never a number that looks like a bonus.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg.lapack import dtpqrt
from torch import Tensor

UPDATED_COLUMNS = 16  # that tpqrt takes together


def covariance(phi: Tensor, visits: Tensor, ridge: float, averaged_over: int = 1) -> Tensor:
    """Sigma = sum over the visits of phi phi' + lambda I   (line 9).

    phi            (..., Z, d)
    visits         (..., Z)     how often z is in the bonus data D~, the only thing needed of it
    averaged_over               k gives the form printed in the paper, (1/k) sum + lambda I, which
                                stops shrinking: with the theorem's gamma_k every bonus is at its
                                cap (erratum E1). 1 is the sum of the analysis
    """
    weighted = (phi * visits.unsqueeze(-1)).mT
    # numpy multiplies matrix by matrix; torch's batched product rounds differently with the size
    # of the batch, and a seed must not depend on the seeds beside it.
    gram = torch.from_numpy(np.matmul(weighted.numpy(), phi.numpy())) / averaged_over
    return gram + ridge * torch.eye(phi.shape[-1], dtype=phi.dtype)


def cholesky(matrix: Tensor) -> Tensor:
    """The lower Cholesky factor L of Sigma = L L'; an error names what was wrong with Sigma."""
    _check_finite(matrix)
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info.abs().max()):
        raise ArithmeticError(
            f"the covariance of the features is not positive definite (pivot {int(info.max())}); "
            "raise the ridge"
        )
    return factor


def cholesky_update(chol: Tensor, rows: Tensor) -> Tensor:
    """The lower Cholesky factor of L L' + sum of phi phi', one phi a row.

    chol  L    (d, d)
    rows  phi  (m, d)  returns (d, d)

    L' on top of the rows is a root of the wanted matrix, so the triangle of its QR decomposition is
    the new L' up to signs. LAPACK's tpqrt leaves the zeros of L' alone: O(m d^2), not O(d^3). No
    square is formed, so directions that were hardly seen keep more digits than in the sum Sigma.
    """
    width = min(UPDATED_COLUMNS, len(chol))
    upper, _, _, _ = dtpqrt(0, width, chol.mT.numpy(), rows.numpy())
    factor = torch.from_numpy(upper.T * np.where(upper.diagonal() < 0, -1.0, 1.0))
    _check_finite(factor.diagonal())  # a NaN in any row ends there
    return factor


def elliptical_width(phi: Tensor, chol: Tensor) -> Tensor:
    """sqrt(phi' inv(Sigma) phi), the width of the confidence ellipsoid along phi   (line 10).

    phi   (..., Z, d)
    chol  (..., d, d)  lower Cholesky factor of Sigma; returns (..., Z)
    """
    whitened: Tensor = torch.linalg.solve_triangular(chol, phi.mT, upper=False)  # (..., d, Z)
    return whitened.square().sum(-2).sqrt()


def bonus(width: Tensor, scale: float, cap: float) -> Tensor:
    """beta = min{gamma_k * width, 2H}   (line 10)"""
    return (scale * width).clamp(max=cap)


def log_det(chol: Tensor) -> Tensor:
    """log det Sigma, which the elliptical potential lemma counts (l.1814).

    chol  (..., d, d); returns (...)
    """
    return 2 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _check_finite(numbers: Tensor) -> None:
    if not torch.isfinite(numbers).all():
        raise ArithmeticError("the covariance of the features has a NaN or infinite entry")
