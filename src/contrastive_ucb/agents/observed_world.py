"""The world of observations: networks for phi and psi, and M draws of P^- as the states to plan on.

| paper              | here                  | shape             | line   |
|--------------------|-----------------------|-------------------|--------|
| D_h^k, D~_h^k      | `data`                |                   | 4      |
| phi~, psi~         | `train`               |                   | 6      |
| phi^, psi^, P^     | `fitted`, `kernel_on` | (1, H, M A, d)    | 7, 8   |
| Sigma^_h^k, beta   | `uncertainty`         | (H, d, d)         | 9, 10  |
| pi^k               | `kept["last"]`        | a function of o   | 13, 16 |

The states of step h + 1 are draws of P^-_h and those of the first step are first observations that
were seen. They are drawn anew in every round; nothing but the data and a few policies stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.config import AgentConfig
from contrastive_ucb.agents.neural_parts import make_class, make_negatives, make_recipe
from contrastive_ucb.agents.world import Acting, Limits, Streams
from contrastive_ucb.arrays import Array
from contrastive_ucb.bonus.elliptical import cholesky, covariance, log_det
from contrastive_ucb.bonus.schedule import Coefficients, PracticalSchedule
from contrastive_ucb.data.collect import steps_per_round
from contrastive_ucb.data.collect_observed import check_transitions, collect_observed
from contrastive_ucb.data.observations import ObservationData, Transitions
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, Twin
from contrastive_ucb.planning.lookahead import Lookahead, Uncertainty, ahead_of, kernel_on
from contrastive_ucb.representation.fitted import Fitted
from contrastive_ucb.representation.neural import Weights, initial_weights
from contrastive_ucb.representation.neural_fit import Recipe, check_finite, train
from contrastive_ucb.training.threads import one_thread

REWARD_GAIN = 5.0  # psi reads rewards so much larger, near the size of an observation
REWARD_RIDGE = 0.1  # of the regression of rewards, as in tables: a pair's mean over n + .1 visits


class ObservedWorld:
    """One environment of observations; the seed axis has length 1."""

    streams = ("walk", "label", "weights", "batch", "draws", "evaluate")

    def __init__(self, env: ObservedEnv, config: AgentConfig, streams: Streams):
        self.env, self.config, self.random = env, config, streams
        assert config.trajectories is not None  # both filled in by `resolve_neural`
        assert config.n_draws is not None
        self.trajectories, self.n_draws = config.trajectories, config.n_draws
        self.neural_class = make_class(config, env)
        self.negatives, self.recipe = make_negatives(config, env), make_recipe(config)
        self.coefficients = PracticalSchedule(env.horizon, config.alpha or 0.0, config.ridge)
        self.data = ObservationData(env.horizon, env.size, self.neural_class.extra)
        self.fitted: Fitted | None = None
        self.states: Array  # (H, M, D), those of this round
        self.kernel: Kernel  # P^ between them
        self.uncertainty: Uncertainty
        self.kept: dict[str, Lookahead] = {}

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return 1, self.env.horizon, self.n_draws, self.env.n_joint

    @property
    def action_shape(self) -> tuple[int, ...]:
        return self.env.action_shape

    @property
    def initial(self) -> Array:
        return np.full((1, self.n_draws), 1 / self.n_draws)

    @property
    def n_listed(self) -> int:
        return 0

    @property
    def round_trajectories(self) -> int:
        return self.trajectories * self.env.horizon

    @property
    def round_steps(self) -> int:
        return self.trajectories * steps_per_round(self.env.horizon)

    def schedule(self, round_number: int) -> Coefficients:
        return self.coefficients(round_number)

    def collect(self, agent: Acting, round_number: int) -> None:
        found = collect_observed(self.env, agent.acts, self.trajectories, self._stream("walk"))
        check_transitions(self.env.name, found, round_number)
        for step, seen in enumerate(found):
            self.data.add(step, self._with_reward(seen) if self.neural_class.extra else seen)
        if self.recipe.sampler == "paper":
            self._label(max(len(seen.action) for seen in found))

    def fit(self, round_number: int) -> Kernel:
        with one_thread():
            start, recipe = self._start(round_number)
            random = self._stream("batch")
            found = train(start, self.neural_class, self.data, self.negatives, recipe, random)
            nodes = self.negatives.nodes(self.data, self.n_draws, self._stream("draws"))
            self.fitted = found.gauged(nodes)
            check_finite(self.fitted, round_number)
            self.states = np.concatenate([self._first_states(), nodes[:-1, :, : self.env.size]])
            self.kernel = kernel_on(self.fitted, self.states, nodes)
        return self.kernel

    def bonus(self, kernel: Kernel, round_number: int) -> tuple[Array, Array]:
        self.uncertainty, growth = self._uncertainty(round_number)
        return self.uncertainty.beta(kernel.features[0], slice(None)).reshape(self.shape), growth

    def rewards(self) -> Array:
        """Known, or the ridge regression of the rewards seen on phi^ (remark, l.168)."""
        weights = self.uncertainty.reward
        if weights is not None:
            learnt = np.matmul(self.kernel.features, weights[..., None])
            return np.asarray(learnt).reshape(self.shape)
        known = [self.env.rewards(step, seen) for step, seen in enumerate(self.states)]
        return np.stack(known).reshape(self.shape)

    def settle(self, names: Sequence[str], values: Sequence[Array], limits: Limits | None) -> None:
        assert self.fitted is not None  # a round has just been planned
        ahead = np.stack([ahead_of(self.kernel, one[0]) for one in values])
        low, high = (None, None) if limits is None else limits
        policy = Lookahead(self.fitted, self.uncertainty, ahead, low, high)
        self.kept = {**self.kept, **dict.fromkeys(names, policy)}

    def kernel_on_twin(self, twin: Twin) -> Kernel | None:
        """P^ between the states of the twin, where P^- has a density there; else None."""
        if self.fitted is None or not twin.is_even or self.config.density != "uniform":
            return None
        seen = twin.observations
        with one_thread():
            return kernel_on(self.fitted.gauged(seen), seen, seen)

    def bounds(self, name: str, step: int, observations: Array) -> list[Array] | None:
        if name not in self.kept:
            return None
        with one_thread():
            return self.kept[name].bounds(step, observations, self.env.rewards)

    def state_of(self, seed: int) -> dict[str, Any]:
        kept = {name: policy.state_dict() for name, policy in self.kept.items()}
        return {"data": self.data.state_dict(), "kept": kept}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        (state,) = states
        self.data.load_state_dict(state["data"])
        self.kept = {
            name: Lookahead.of_state(self.neural_class, policy)
            for name, policy in state["kept"].items()
        }
        if "last" in self.kept:
            self.fitted = self.kept["last"].fitted

    def _stream(self, name: str) -> np.random.Generator:
        return self.random[name][0]

    @staticmethod
    def _with_reward(seen: Transitions) -> Transitions:
        """Transitions to the next observation and the reward: both together are what is foreseen.

        Where next observations alone are, the reward of two pairs with the same future is averaged.
        """
        rewards = REWARD_GAIN * seen.reward[:, None]
        return replace(seen, following=np.concatenate([seen.following, rewards], axis=1))

    def _start(self, round_number: int) -> tuple[Weights, Recipe]:
        """The weights that a fit begins with: new ones, or in a warm start those of the last round.

        A warm start takes ever smaller steps, so that its weights settle as the data grows.
        """
        if self.config.warm_start == "on" and self.fitted is not None:
            rate = self.recipe.learning_rate / sqrt(round_number)
            return self.fitted.weights, replace(self.recipe, learning_rate=rate)
        random = self._stream("weights")
        return initial_weights(self.neural_class, self.env.horizon, random), self.recipe

    def _label(self, newest: int) -> None:
        """The paper's sampler: one label for each of the newest tuples, and what it goes with."""
        horizon, data = self.env.horizon, self.data
        positive = self._stream("label").random((horizon, newest)) < 0.5
        drawn = self.negatives.draw(data, newest, self._stream("label"))
        for step, last in enumerate(data.n):
            data.relabel(step, min(newest, int(last)), positive[step], drawn[step])

    def _first_states(self) -> Array:
        """First observations that were seen, drawn at random   (1, M, D)"""
        seen = self.data.observation[:1, : self.data.n[0]].astype(np.float64)
        return seen[:, self._stream("draws").integers(seen.shape[1], size=self.n_draws)]

    def _uncertainty(self, round_number: int) -> tuple[Uncertainty, Array]:
        """Line 9 on the bonus data, and the regression of rewards on all data."""
        assert self.fitted is not None
        config, data, most = self.config, self.data, int(self.data.n.max())
        phi = torch.from_numpy(
            self.fitted.features_of(data.observation[:, :most], data.action[:, :most])
        )
        is_row = np.arange(most) < data.n[:, None]
        rolled_in = torch.from_numpy((is_row & data.rolled_in[:, :most]).astype(np.float64))
        scale, ridge = self.schedule(round_number)
        divisor = round_number * self.trajectories if config.covariance == "averaged" else 1  # E1
        chol = cholesky(covariance(phi, rolled_in, ridge, divisor))
        growth = log_det(chol).sum().reshape(1).numpy()
        found = Uncertainty(chol.numpy(), scale, 2.0 * self.env.horizon)
        if config.reward == "known":
            return found, growth
        every = torch.from_numpy(is_row.astype(np.float64))
        seen = torch.from_numpy(data.reward[:, :most].astype(np.float64)) * every
        gram = covariance(phi, every, REWARD_RIDGE)
        moments = np.matmul(phi.mT.numpy(), seen[..., None].numpy())
        learnt = np.linalg.solve(gram.numpy(), moments)[..., 0]
        width = cholesky(covariance(phi, every, ridge)).numpy()
        own = (config.alpha or 0.0) * config.reward_alpha
        return replace(found, reward=learnt, reward_chol=width, reward_scale=own), growth
