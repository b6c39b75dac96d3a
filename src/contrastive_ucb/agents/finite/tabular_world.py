"""The world of finite MDPs and games: counts, features, bonuses of every pair, all seeds at once.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| D_h^k              | `model` (counts)            |                 | 4      |
| D~_h^k             | `totals.rolled_in`          | (B, H, Z)       | 4      |
| phi^, psi^, P^     | what `fit` returns          | (B, H, Z, d)    | 6-8    |
| Sigma^_h^k         | `covariance(...)`           | (B, H, d, d)    | 9      |
| beta_h^k           | what `bonus` returns        | (B, H, S, A)    | 10     |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.agents.finite.parts import Model, checked_negatives, make_model, make_schedule
from contrastive_ucb.agents.finite.world import Acting, Limits, Streams
from contrastive_ucb.bonus.elliptical import bonus, cholesky, covariance, elliptical_width, log_det
from contrastive_ucb.bonus.schedule import Coefficients
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.counts import PairTotals
from contrastive_ucb.data.sampler import collect, n_uniforms, steps_per_round
from contrastive_ucb.envs.batch import Env, EnvBatch
from contrastive_ucb.envs.kernel import Kernel


class TabularWorld:
    """Everything that is known of all pairs z, in tables."""

    streams = ("walk", "label")  # the random streams that go on round by round

    def __init__(
        self,
        envs: Sequence[Env],
        seeds: Sequence[int],
        config: AgentConfig,
        negative_distribution: Array | None,
        streams: Streams,
    ):
        self.config, self.random = config, streams
        self.batch = EnvBatch.of(envs)
        self.negatives = checked_negatives(negative_distribution, config, self.batch)
        start = [stream(seed, "start") for seed in seeds]
        self.model: Model = make_model(config, self.batch, self.negatives, start)
        self.coefficients = make_schedule(config, self.batch, self.negatives, self.model)
        self.totals = PairTotals(self.batch.n_seeds, self.batch.horizon, self.batch.n_pairs)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        batch = self.batch
        return batch.n_seeds, batch.horizon, batch.n_states, batch.n_actions

    @property
    def action_shape(self) -> tuple[int, ...]:
        return self.batch.action_shape

    @property
    def initial(self) -> Array:
        return self.batch.initial

    @property
    def n_listed(self) -> int:
        return self.batch.n_states

    @property
    def figures(self) -> dict[str, Array]:
        return {}

    @property
    def round_trajectories(self) -> int:
        return self.batch.horizon

    @property
    def round_steps(self) -> int:
        return steps_per_round(self.batch.horizon)

    def schedule(self, round_number: int) -> Coefficients:
        return self.coefficients(round_number)

    def collect(self, agent: Acting, round_number: int) -> None:
        n_walk, n_label = n_uniforms(self.batch.horizon)
        walk, label = self._uniforms("walk", n_walk), self._uniforms("label", n_label)
        tuples = collect(self.batch, agent.roll_in, self.negatives, walk, label)
        self.model.add(tuples)
        self.totals.add(tuples)

    def fit(self, round_number: int) -> Kernel:
        return self.model.fit()

    def bonus(self, kernel: Kernel, round_number: int) -> tuple[Array, Array]:
        """min{gamma_k ||phi^||, 2H}, plus the learnt reward's width."""
        config, shape = self.config, self.batch.rewards.shape
        scale, ridge = self.schedule(round_number)
        divisor = round_number if config.covariance == "averaged" else 1  # erratum E1
        if config.features == "table":  # one-hot features: Sigma is diagonal
            diagonal = torch.from_numpy(self.totals.visits / divisor + ridge)
            width, growth = diagonal.rsqrt(), diagonal.log().sum(-1)
        else:
            phi = torch.from_numpy(kernel.features)
            known = config.features == "true"  # LSVI-UCB's own covariance has all its data
            visits = self.totals.visits if known else self.totals.rolled_in
            chol = cholesky(covariance(phi, torch.from_numpy(visits), ridge, divisor))
            width, growth = elliptical_width(phi, chol), log_det(chol)
        beta = bonus(width, scale, 2.0 * self.batch.horizon).numpy().reshape(shape)
        if config.reward == "learnt":
            visits = self.totals.visits.reshape(shape)
            beta = beta + (config.alpha or 0.0) * config.reward_alpha / np.sqrt(visits + 1)
        return np.asarray(beta), growth.sum(-1).numpy()

    def rewards(self) -> Array:
        """r_h, known or estimated by ridge regression on the counts (remark, l.168)."""
        if self.config.reward == "known":
            return self.batch.rewards
        mean = self.totals.rewards / (self.totals.visits + 0.1)  # unvisited pairs: 0
        return mean.reshape(self.batch.rewards.shape)

    def settle(self, names: Sequence[str], values: Sequence[Array], limits: Limits | None) -> None:
        """Nothing to do: the agent's own tables have the policy at every state."""

    def bounds(self, name: str, step: int, observations: Array) -> list[Array] | None:
        raise ValueError(
            "a finite environment has states, not observations; pass representation='neural' to"
            " see them as vectors"
        )

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"model": self.model.state_of(seed), "totals": self.totals.state_of(seed)}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.model.load_states([state["model"] for state in states])
        self.totals.load_states([state["totals"] for state in states])

    def _uniforms(self, name: str, count: int) -> Array:
        """Numbers in [0, 1) of one stream   (B, count)"""
        return np.stack([generator.random(count) for generator in self.random[name]])
