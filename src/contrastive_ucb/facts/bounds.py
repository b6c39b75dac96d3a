"""The right sides of the paper's inequalities, as functions of numbers.

| paper                      | here                                         |
|----------------------------|----------------------------------------------|
| Lemma stat-err (l.319)     | `recovery_bound`                             |
| Lemma logdet-tele (l.1817) | `potential_printed`, `potential_corrected`   |
| beta_h^k (l.144, l.145)    | `far_ahead`, many rounds from now            |
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.bonus.elliptical import bonus, cholesky, covariance, elliptical_width
from contrastive_ucb.core.arrays import Array

FAR = np.logspace(0, 12, 12 * 20 + 1)  # rounds to look at, twenty a decade


def recovery_bound(
    k: int, horizon: int, rank: int, floor: float, log_class_size: float, failure: float
) -> float:
    """32 d log(2 k H |F| / delta) / ((C_S^-)^2 k), what zeta_k and xi_k stay below (l.319).

    floor  C_S^-, the smallest probability under P^-
    """
    logarithm = log(2 * k * horizon / failure) + log_class_size
    return 32 * rank * logarithm / (floor**2 * k)


def potential_printed(k: int, rank: int, ridge: float) -> float:
    """d log(1 + k C^2 d / lambda) with C = 1: the last bound of the lemma as printed (E17)."""
    return rank * log(1 + k * rank / ridge)


def potential_corrected(k: int, rank: int, ridge: float) -> float:
    """2 d log(1 + k C^2 / (d lambda)) with C = 1: what the two means of eigenvalues give."""
    return 2 * rank * log(1 + k / (rank * ridge))


def far_ahead(agent: Learner[Any]) -> tuple[Array, Array]:
    """When the bonus would first tell two pairs apart, and how far apart it would ever put them.

    Both over the rounds `FAR`, each (B,); NaN stands for "never". The features and the shares of
    the visits stay as they are now; gamma, lambda and the number of visits go on.
    """
    spreads = np.stack([_spread(agent, k) for k in FAR], axis=-1)  # (B, n)
    apart = spreads > 0
    return np.where(apart.any(-1), FAR[apart.argmax(-1)], np.nan), spreads.max(-1)


def _spread(agent: Learner[Any], k: float) -> Array:
    """Largest minus smallest bonus over pairs in round k, at the step where that is most.   (B,)"""
    assert agent.kernel is not None  # at least one round has been played
    scale, ridge = agent.schedule(int(k))
    visits = torch.from_numpy(agent.totals.rolled_in * (k / agent.n_rounds))
    phi = torch.from_numpy(agent.kernel.features)
    divisor = int(k) if agent.config.covariance == "averaged" else 1
    chol = cholesky(covariance(phi, visits, ridge, divisor))
    beta = bonus(elliptical_width(phi, chol), scale, 2.0 * agent.batch.horizon)  # (B, H, Z)
    return np.asarray((beta.amax(-1) - beta.amin(-1)).amax(-1).numpy())
