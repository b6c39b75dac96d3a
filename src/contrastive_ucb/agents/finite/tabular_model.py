"""The model of a finite MDP or game: counts, features and bonuses of all pairs, for all seeds.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| D_h^k              | `representation` (counts)   |                 | 4      |
| D~_h^k             | `totals.rolled_in`          | (B, H, Z)       | 4      |
| phi^, psi^, P^     | returned by `fit`           | (B, H, Z, d)    | 6-8    |
| Sigma^_h^k         | `covariance(...)`           | (B, H, d, d)    | 9      |
| beta_h^k           | returned by `bonus`         | (B, H, S, A)    | 10     |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import log
from typing import Any, Protocol

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.bonus.elliptical import bonus, cholesky, covariance, elliptical_width, log_det
from contrastive_ucb.bonus.schedule import Coefficients, PracticalSchedule, TheorySchedule
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.counts import PairTotals
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.batch import Env, EnvBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.tabular_fit import (
    CountsModel,
    FiniteModel,
    TableModel,
    TrueFeaturesModel,
    class_around,
)

REWARD_RIDGE = 0.1  # of the regression of rewards on pairs


class Representation(Protocol):
    """Adds the data of each round and fits P^ = psi^'phi^."""

    def add(self, tuples: Tuples) -> None: ...
    def fit(self) -> Kernel: ...
    def state_of(self, seed: int) -> dict[str, Any]: ...
    def load_states(self, states: list[dict[str, Any]]) -> None: ...


class TabularModel:
    """Data, representation and bonus in tables.

    shape    (B, H, S, A)  seeds, steps, states, joint actions
    log_det  (B,)          log det Sigma^ of the last bonus, summed over steps
    """

    transaction = nullcontext  # no round is undone: a failed round keeps its data

    def __init__(
        self,
        envs: Sequence[Env],
        seeds: Sequence[int],
        config: AgentConfig,
        negative_distribution: Array | None,
    ):
        self.config, self.batch = config, EnvBatch.of(envs)
        self.shape: tuple[int, int, int, int] = self.batch.rewards.shape
        self.action_shape, self.initial = self.batch.action_shape, self.batch.initial
        self.negatives = checked_negatives(negative_distribution, config, self.batch)
        start = [stream(seed, "start") for seed in seeds]
        self.representation = make_representation(config, self.batch, self.negatives, start)
        self.schedule = make_schedule(config, self.batch, self.negatives, self.representation)
        self.totals = PairTotals(self.batch.n_seeds, self.batch.horizon, self.batch.n_pairs)
        self.log_det = np.zeros(self.batch.n_seeds)
        self.metrics: dict[str, Array] = {}  # of the last fit: none

    def add(self, tuples: Tuples) -> None:
        """Line 4: add the data of one round."""
        self.representation.add(tuples)
        self.totals.add(tuples)

    def fit(self) -> Kernel:
        """Lines 6 to 8: phi^, psi^ and P^."""
        return self.representation.fit()

    def bonus(self, kernel: Kernel, k: int) -> Array:
        """Lines 9 and 10: min{gamma_k ||phi^||, 2H}, plus the width of a learned reward."""
        config, phi, totals = self.config, kernel.features, self.totals
        scale, ridge = self.schedule(k)
        divisor = k if config.covariance == "averaged" else 1  # erratum E1
        if config.features == "table":  # one-hot features: Sigma is diagonal
            diagonal = totals.visits / divisor + ridge
            width, log_dets = 1 / np.sqrt(diagonal), np.log(diagonal).sum(-1)
        else:
            known = config.features == "true"  # LSVI-UCB uses all data in its covariance
            visits = totals.visits if known else totals.rolled_in
            chol = cholesky(covariance(phi, visits, ridge, divisor))
            width, log_dets = elliptical_width(phi, chol), log_det(chol)
        self.log_det = log_dets.sum(-1)
        beta = bonus(width, scale, 2.0 * self.batch.horizon).reshape(self.shape)
        if config.reward == "learned":
            visits = totals.visits.reshape(self.shape)
            beta = beta + (config.alpha or 0.0) * config.reward_alpha / np.sqrt(visits + 1)
        return np.asarray(beta)

    def rewards(self) -> Array:
        """r_h, known or estimated by ridge regression on the counts (remark, l.168)."""
        if self.config.reward == "known":
            return self.batch.rewards
        mean = self.totals.rewards / (self.totals.visits + REWARD_RIDGE)  # 0 without visits
        return mean.reshape(self.shape)

    def keep(self, names: Sequence[str], values: Sequence[Array], ceiling: Array | None) -> None:
        """Nothing to do: the tables of the agent hold the policy at every state."""

    def q_bounds(self, name: str, step: int, observations: Array) -> list[Array] | None:
        raise ValueError(
            "a finite environment has states, not observations; pass representation='neural' to"
            " represent states as vectors"
        )

    def state_of(self, seed: int) -> dict[str, Any]:
        return {
            "representation": self.representation.state_of(seed),
            "totals": self.totals.state_of(seed),
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.representation.load_states([state["representation"] for state in states])
        self.totals.load_states([state["totals"] for state in states])


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
    if config.features == "true":
        return TrueFeaturesModel(batch.kernel.features, batch.n_states, config.ridge)
    if config.features == "table":
        return TableModel(shape, negatives)
    exact = config.negatives == "exact"
    if config.function_class == "finite":
        pairs = [
            class_around(_true_factors(batch, seed), negatives, config.class_size, generator)
            for seed, generator in enumerate(generators)
        ]
        phi, psi = (np.stack(part) for part in zip(*pairs, strict=True))
        return FiniteModel(phi, psi, negatives, exact)
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


def make_schedule(
    config: AgentConfig, batch: EnvBatch, negatives: Array, representation: Representation
) -> Callable[[int], Coefficients]:
    """gamma_k and lambda_k as a function of k."""
    if config.schedule == "practical" or config.alpha == 0:  # alpha = 0: no bonus in any schedule
        return PracticalSchedule(batch.horizon, config.alpha or 0.0, config.ridge)
    rank = config.rank or batch.kernel.features.shape[-1]
    if isinstance(representation, FiniteModel):
        log_size = log(representation.size)
    else:  # the number of parameters stands for the log covering number of an infinite class
        log_size = float(rank * (batch.n_pairs + batch.n_states))
    floor = float(negatives.min())
    return TheorySchedule(
        batch.horizon, batch.n_actions, rank, floor, log_size, config.failure, config.constant
    )


def _true_factors(batch: EnvBatch, seed: int) -> Kernel:
    """The true kernel of one seed in factored form; a table is itself times the identity."""
    features, measures = batch.kernel.features[seed], batch.kernel.measures
    if measures is None:
        shape = (batch.horizon, batch.n_states, batch.n_states)
        return Kernel(features, np.broadcast_to(np.eye(batch.n_states), shape))
    return Kernel(features, measures[seed])
