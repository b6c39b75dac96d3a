"""The model of a finite MDP or game: counts, features and bonuses of all pairs, for all seeds.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| D_h^k              | `representation` (counts)   |                 | 4      |
| D~_h^k             | `rolled_in`                 | (B, H, Z)       | 4      |
| phi^, psi^, P^     | returned by `fit`           | (B, H, Z, d)    | 6-8    |
| Sigma^_h^k         | `covariance(...)`           | (B, H, d, d)    | 9      |
| beta_h^k           | returned by `bonus`         | (B, H, S, A)    | 10     |
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import log

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.bonus.elliptical import (
    REWARD_RIDGE,
    bonus,
    cholesky,
    covariance,
    elliptical_width,
    log_det,
    ridge_weights,
    theory_coefficients,
)
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.batch import Env, EnvBatch, SeedState
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.tabular_fit import (
    CountsModel,
    FiniteModel,
    TableModel,
    TrueFeaturesModel,
    class_around,
    product_class,
)

# The estimators of P^: `add` the data of a round, then `fit`
Representation = CountsModel | FiniteModel | TrueFeaturesModel | TableModel


class TabularModel(SeedState):
    """Data, representation and bonus in tables.

    shape        (B, H, S, A)  seeds, steps, states, joint actions
    rolled_in    (B, H, Z)     visits in the bonus data D~, by roll-in and a uniform action
    visits       (B, H, Z)     visits in all data
    reward_sums  (B, H, Z)     sums of the observed rewards
    log_det      (B,)          log det Sigma^ of the last bonus, summed over steps
    kernel                     P^ of the last fit
    """

    kernel: Kernel
    saved = ("representation", "rolled_in", "visits", "reward_sums")
    transaction = nullcontext  # no round is undone: a failed round keeps its data

    def __init__(
        self,
        envs: Sequence[Env],
        seeds: Sequence[int],
        config: AgentConfig,
        negative_distribution: Array | None,
    ):
        self.config, self.batch = config, EnvBatch(envs)
        self.shape: tuple[int, int, int, int] = self.batch.rewards.shape
        self.action_shape, self.initial = self.batch.action_shape, self.batch.initial
        self.negatives = checked_negatives(negative_distribution, config, self.batch)
        name = "class" if config.function_class == "product" else "start"
        start = [stream(seed, name) for seed in seeds]
        self.representation = make_representation(config, self.batch, self.negatives, start)
        self.rank = config.rank or self.batch.kernel.features.shape[-1]
        # The number of parameters stands for the log covering number of an infinite class.
        self.log_class_size = float(self.rank * (self.batch.n_pairs + self.batch.n_states))
        if isinstance(self.representation, FiniteModel):
            self.log_class_size = log(self.representation.size)
        totals = (3, self.batch.n_seeds, self.batch.horizon, self.batch.n_pairs)
        self.rolled_in, self.visits, self.reward_sums = np.zeros(totals)
        self.log_det = np.zeros(self.batch.n_seeds)
        self.metrics: dict[str, Array] = {}  # of the last fit: none

    def add(self, tuples: Tuples) -> None:
        """Line 4: add the data of one round."""
        self.representation.add(tuples)
        seed, step, pair = (part[:, : self.batch.horizon] for part in tuples.cells)  # those of D~
        self.rolled_in[seed, step, pair] += 1.0  # one per step, so the indices are distinct
        np.add.at(self.visits, tuples.cells, 1.0)
        np.add.at(self.reward_sums, tuples.cells, tuples.reward)

    def fit(self) -> Kernel:
        """Lines 6 to 8: phi^, psi^ and P^."""
        self.kernel = self.representation.fit()
        return self.kernel

    def schedule(self, k: int) -> tuple[float, float]:
        """gamma_k and lambda_k."""
        config, batch = self.config, self.batch
        if config.schedule == "practical" or not config.alpha:  # no bonus if alpha is 0
            return (config.alpha or 0.0) * batch.horizon, config.ridge
        return theory_coefficients(
            k,
            batch.horizon,
            batch.n_actions,
            self.rank,
            float(self.negatives.min()),
            self.log_class_size,
            config.failure,
            config.constant,
        )

    def bonus(self, kernel: Kernel, k: int) -> Array:
        """Lines 9 and 10: min{gamma_k ||phi^||, 2H}, plus the width of a learned reward."""
        config, phi = self.config, kernel.features
        scale, ridge = self.schedule(k)
        divisor = k if config.covariance == "averaged" else 1  # erratum E1
        if config.features == "table":  # one-hot features: Sigma is diagonal
            diagonal = self.visits / divisor + ridge
            width, log_dets = 1 / np.sqrt(diagonal), np.log(diagonal).sum(-1)
        else:
            known = config.features == "true"  # LSVI-UCB uses all data in its covariance
            visits = self.visits if known else self.rolled_in
            chol = cholesky(covariance(phi, visits, ridge, divisor))
            width, log_dets = elliptical_width(phi, chol), log_det(chol)
        self.log_det = log_dets.sum(-1)
        beta = bonus(width, scale, 2.0 * self.batch.horizon).reshape(self.shape)
        reward_scale = (config.alpha or 0.0) * config.reward_alpha
        if config.reward == "learned":
            beta = beta + reward_scale / np.sqrt(self.visits + 1).reshape(self.shape)
        elif config.reward == "linear":
            chol = cholesky(covariance(phi, self.visits, config.ridge))
            beta = beta + reward_scale * elliptical_width(phi, chol).reshape(self.shape)
        return np.asarray(beta)

    def rewards(self) -> Array:
        """r_h, known or estimated by ridge regression on one-hot pairs or on phi^ (remark, l.168).

        The former is the mean of the observed rewards, 0 without visits.
        """
        if self.config.reward == "known":
            return self.batch.rewards
        if self.config.reward == "linear":
            phi = self.kernel.features
            weights = ridge_weights(phi, self.visits, self.reward_sums, REWARD_RIDGE)
            return np.asarray(np.matmul(phi, weights[..., None])).reshape(self.shape)
        mean = self.reward_sums / (self.visits + REWARD_RIDGE)
        return mean.reshape(self.shape)


def checked_negatives(given: Array | None, config: AgentConfig, batch: EnvBatch) -> Array:
    """P^- (S,), a distribution with positive probabilities (l.173)."""
    n_states = batch.n_states
    if given is None:
        weights = np.exp(-config.tilt * np.arange(n_states) / n_states)
        given = weights / weights.sum()
    negatives = np.asarray(given, dtype=np.float64)
    if negatives.shape != (n_states,):
        raise ValueError(
            f"P^- has shape {negatives.shape}; it must be ({n_states},), one entry per state"
        )
    if not np.isfinite(negatives).all() or abs(negatives.sum() - 1) > 1e-6:
        raise ValueError(f"P^- sums to {negatives.sum():.9g}; it must sum to 1")
    if not negatives.min() > 0:
        raise ValueError(
            f"P^- gives state {int(negatives.argmin())} the probability {negatives.min():.3g}; all"
            " probabilities must be positive, so mix P^- with the uniform distribution"
        )
    # A sum of 1 up to rounding is not normalized again, so that a saved P^- is loaded bit for bit.
    return negatives if abs(negatives.sum() - 1) < 1e-12 else negatives / negatives.sum()


def make_representation(
    config: AgentConfig, batch: EnvBatch, negatives: Array, generators: list[np.random.Generator]
) -> Representation:
    """The estimator of P^; with `features` true or table it learns no features."""
    shape = (batch.n_seeds, batch.horizon, batch.n_pairs, batch.n_states)
    phi, psi = batch.kernel.features, batch.kernel.measures
    if config.features == "true":
        return TrueFeaturesModel(phi, batch.n_states, config.ridge)
    if config.features == "table":
        return TableModel(shape, negatives)
    exact = config.negatives == "exact"
    if config.function_class != "counts":
        if psi is None:  # the true factors of a table are itself and the identity
            identity = np.eye(batch.n_states)
            psi = np.broadcast_to(identity, (*phi.shape[:2], *identity.shape))
        make = class_around if config.function_class == "finite" else product_class
        pairs = [
            make(Kernel(*factors), negatives, config.class_size, generator)
            for *factors, generator in zip(phi, psi, generators, strict=True)
        ]
        all_phi, all_psi = (np.stack(part) for part in zip(*pairs, strict=True))
        return FiniteModel(all_phi, all_psi, negatives, exact)
    assert config.rank is not None  # set by `resolve`
    return CountsModel(
        shape,
        config.rank,
        negatives,
        generators,
        exact=exact,
        likelihood=config.features == "likelihood",
        sweeps=config.sweeps,
        pseudo=config.pseudo,
        reseed_every=config.reseed_every,
    )
