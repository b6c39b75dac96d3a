"""gamma_k and lambda_k: the constants of the theorem, and constants for practical use.

| paper    | here             |                                                         |
|----------|------------------|---------------------------------------------------------|
| gamma_k  | `scale`          | coefficient of the bonus                                |
| lambda_k | `ridge`          | multiple of I that is added to the covariance           |
| |F|      | `log_class_size` | log |F|, because |F| overflows for realistic classes    |
| C_S^-    | `floor`          | smallest probability under P^-                          |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple


class Coefficients(NamedTuple):
    """gamma_k and lambda_k of one round."""

    scale: float
    ridge: float


@dataclass(frozen=True)
class TheorySchedule:
    """The constants of the theorem (l.219). The bonus stays at its cap for more than 1e5 rounds."""

    horizon: int
    n_actions: int
    rank: int
    floor: float  # C_S^-
    log_class_size: float  # log |F|
    failure: float = 0.05  # delta
    constant: float = 1.0  # c_0, "sufficiently large" in the paper

    def __call__(self, round_number: int) -> Coefficients:
        """gamma_k = 4H (12 sqrt(A d) + sqrt(c0) d) / C_S^- sqrt(log(2 H k |F| / delta)),
        lambda_k = c0 d log(H |F| k / delta)."""
        common = log(self.horizon * round_number / self.failure) + self.log_class_size
        width = 12 * sqrt(self.n_actions * self.rank) + sqrt(self.constant) * self.rank
        scale = 4 * self.horizon * width / self.floor * sqrt(log(2) + common)
        return Coefficients(scale, self.constant * self.rank * common)


@dataclass(frozen=True)
class PracticalSchedule:
    """lambda = ridge and gamma = alpha H in every round; alpha = 0 means no bonus."""

    horizon: int
    alpha: float
    ridge: float = 1.0

    def __call__(self, round_number: int) -> Coefficients:
        return Coefficients(self.alpha * self.horizon, self.ridge)
