"""Right-hand sides of the paper's inequalities.

| paper                      | function                                     |
|----------------------------|----------------------------------------------|
| Lemma stat-err (l.319)     | `recovery_bound`                             |
| Theorems (l.222, l.289)    | `regret_bound`                               |
| Lemma logdet-tele (l.1817) | `potential_printed`, `potential_corrected`   |
"""

from __future__ import annotations

from math import log

import numpy as np

from contrastive_ucb.core.arrays import Array


def recovery_bound(
    k: int, horizon: int, rank: int, floor: float, log_class_size: float, failure: float
) -> float:
    """32 d log(2 k H |F| / delta) / ((C_S^-)^2 k), the bound on zeta_k and xi_k (l.319).

    floor  C_S^-, the smallest probability under P^-
    """
    logarithm = log(2 * k * horizon / failure) + log_class_size
    return 32 * rank * logarithm / (floor**2 * k)


def regret_bound(
    rounds: Array,
    horizon: int,
    rank: int,
    n_actions: int,
    floor: float,
    log_class_size: float,
    failure: float,
) -> Array:
    """sqrt(C log(H |F| K / delta) log(c_0' K) / K) with c_0' = 1, up to a constant (l.222, l.289).

    C = H^4 d^4 A / (C_S^-)^2 + H^4 d^3 A^2 / (C_S^-)^2 + H^6 d^2 A / (C_S^-)^2 + H^6 d^3

    rounds     K    (n,)
    n_actions  A    in games |A| |B|
    floor      C_S^-
    """
    h, d, a = horizon, rank, n_actions
    constant = (h**4 * d**4 * a + h**4 * d**3 * a**2 + h**6 * d**2 * a) / floor**2 + h**6 * d**3
    logarithm = np.log(h * rounds / failure) + log_class_size
    return np.asarray(np.sqrt(constant * logarithm * np.log(rounds) / rounds))


def potential_printed(k: int, rank: int, ridge: float) -> float:
    """d log(1 + k C^2 d / lambda) with C = 1: the last bound of the lemma as printed (E17)."""
    return rank * log(1 + k * rank / ridge)


def potential_corrected(k: int, rank: int, ridge: float) -> float:
    """2 d log(1 + k C^2 / (d lambda)) with C = 1, by the inequality of the two means."""
    return 2 * rank * log(1 + k / (rank * ridge))
