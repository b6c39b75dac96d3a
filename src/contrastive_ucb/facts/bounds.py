"""Right-hand sides of the paper's inequalities.

| paper                      | function                                     |
|----------------------------|----------------------------------------------|
| Lemma stat-err (l.319)     | `recovery_bound`                             |
| Lemma logdet-tele (l.1817) | `potential_printed`, `potential_corrected`   |
"""

from __future__ import annotations

from math import log


def recovery_bound(
    k: int, horizon: int, rank: int, floor: float, log_class_size: float, failure: float
) -> float:
    """32 d log(2 k H |F| / delta) / ((C_S^-)^2 k), the bound on zeta_k and xi_k (l.319).

    floor  C_S^-, the smallest probability under P^-
    """
    logarithm = log(2 * k * horizon / failure) + log_class_size
    return 32 * rank * logarithm / (floor**2 * k)


def potential_printed(k: int, rank: int, ridge: float) -> float:
    """d log(1 + k C^2 d / lambda) with C = 1: the last bound of the lemma as printed (E17)."""
    return rank * log(1 + k * rank / ridge)


def potential_corrected(k: int, rank: int, ridge: float) -> float:
    """2 d log(1 + k C^2 / (d lambda)) with C = 1, by the inequality of the two means."""
    return 2 * rank * log(1 + k / (rank * ridge))
