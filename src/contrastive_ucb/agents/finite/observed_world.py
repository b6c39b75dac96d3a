"""The world of observations: networks for phi and psi, and M draws of P^- as the states to plan on.

| paper              | here                  | shape             | line   |
|--------------------|-----------------------|-------------------|--------|
| D_h^k, D~_h^k      | `data`                |                   | 4      |
| phi~, psi~         | `train`               |                   | 6      |
| phi^, psi^, P^     | `fitted`, `kernel_on` | (1, H, M A, d)    | 7, 8   |
| Sigma^_h^k, beta   | `uncertainty`         | (H, d, d)         | 9, 10  |
| r_h, where learnt  | `uncertainty`         | (H, d), (H, d, d) | l.168  |
| pi^k               | `kept["last"]`        | a function of o   | 13, 16 |

The states of step h + 1 are draws of P^-_h and those of the first step are first observations that
were seen. They are drawn anew in every round; nothing but the data and a few policies stays.

A learnt reward is the regression of all rewards seen on phi^ with the ridge `REWARD_RIDGE`. Its
width is taken in another matrix, the sum of phi^ phi^' over all data plus lambda_k I with the ridge
of the bonus, times alpha * reward_alpha: with a unit vector a pair, that of the tables.

A round is whole or not at all: one that fails leaves no rows, no weights and no random draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.agents.finite.neural_parts import (
    make_class,
    make_negatives,
    make_recipe,
    planning_nodes,
)
from contrastive_ucb.agents.finite.world import Acting, Limits, Streams
from contrastive_ucb.bonus.elliptical import cholesky, covariance, log_det
from contrastive_ucb.bonus.schedule import Coefficients, PracticalSchedule
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import restore_stream, stream_state
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.data.observations import ObservationData, Transitions
from contrastive_ucb.data.sampler import (
    Policy,
    check_transitions,
    collect_observed,
    steps_per_round,
)
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, Twin, check_observed
from contrastive_ucb.planning.lookahead import Lookahead, Uncertainty, ahead_of, kernel_on
from contrastive_ucb.representation.neural import Fitted, Weights, initial_weights
from contrastive_ucb.representation.neural_fit import Recipe, check_features, check_finite, train

REWARD_GAIN = 5.0  # psi reads rewards so much larger, near the size of an observation
REWARD_RIDGE = 0.1  # of the regression of rewards, as in tables: a pair's mean over n + .1 visits


@dataclass(frozen=True)
class Begun:
    """Where a round began, to go back to if it fails.

    rows  (H,)  of each step
    """

    rows: IntArray
    fitted: Fitted | None
    streams: dict[str, dict[str, Any]]


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
        self.data = ObservationData(
            env.horizon, env.size, self.neural_class.extra, self.recipe.sampler == "paper"
        )
        self.fitted: Fitted | None = None
        self.states: Array  # (H, M, D), those of this round
        self.kernel: Kernel  # P^ between them
        self.uncertainty: Uncertainty
        self.kept: dict[str, Lookahead] = {}
        self.begun: Begun | None = None  # until the round is settled

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
    def figures(self) -> dict[str, Array]:
        return {} if self.fitted is None else {"losses/contrastive": np.array([self.fitted.loss])}

    @property
    def round_trajectories(self) -> int:
        return self.trajectories * self.env.horizon

    @property
    def round_steps(self) -> int:
        return self.trajectories * steps_per_round(self.env.horizon)

    def schedule(self, round_number: int) -> Coefficients:
        return self.coefficients(round_number)

    def collect(self, agent: Acting, round_number: int) -> None:
        self._undo()  # the last round may have failed in planning, which is not seen from here
        streams = {name: stream_state(self._stream(name)) for name in self.streams}
        self.begun = Begun(self.data.n.copy(), self.fitted, streams)
        with self._whole():
            policy = self._checked(agent.acts, round_number)
            found = collect_observed(self.env, policy, self.trajectories, self._stream("walk"))
            if self.neural_class.extra:
                found = [self._with_reward(seen) for seen in found]
            check_transitions(self.env.name, found, round_number)
            for step, seen in enumerate(found):
                self.data.add(step, seen)
            if self.data.labelled:
                self._label([len(seen.action) for seen in found])

    def fit(self, round_number: int) -> Kernel:
        with self._whole(), one_thread():
            start, recipe = self._start(round_number)
            random = self._stream("batch")
            found = train(start, self.neural_class, self.data, self.negatives, recipe, random)
            draws = self._stream("draws")
            nodes = planning_nodes(self.data, self.negatives, self.n_draws, draws)
            fitted = found.gauged(nodes)
            check_finite(fitted, round_number)
            self.fitted = fitted
            self.states = np.concatenate([self._first_states(), nodes[:-1, :, : self.env.size]])
            self.kernel = kernel_on(self.fitted, self.states, nodes)
        return self.kernel

    def bonus(self, kernel: Kernel, round_number: int) -> tuple[Array, Array]:
        with self._whole():
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
        self.begun = None

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
        self._undo()
        kept = {name: policy.state_dict() for name, policy in self.kept.items()}
        return {"data": self.data.state_dict(), "kept": kept}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        (state,) = states
        self.data.load_state_dict(state["data"])
        self.kept = {
            name: Lookahead.of_state(self.neural_class, policy)
            for name, policy in state["kept"].items()
        }
        self.fitted = self.kept["last"].fitted if "last" in self.kept else None
        self.begun = None

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Whatever stops a part of the round takes the whole round back."""
        try:
            yield
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        """Go back to where a round began that was not settled, if there is one."""
        if self.begun is None:
            return
        self.data.forget(self.begun.rows)
        self.fitted = self.begun.fitted
        for name, state in self.begun.streams.items():
            self.random[name][0] = restore_stream(state)
        self.begun = None

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

    def _checked(self, policy: Policy, round_number: int) -> Policy:
        """The same policy, which names the environment where it is asked at what is no number."""

        def checked(step: int, seen: Array) -> Array:
            when = f"step {step} of round {round_number}"
            check_observed(self.env.name, "observation", seen, when)
            return policy(step, seen)

        return checked

    def _label(self, counts: list[int]) -> None:
        """The paper's sampler: one label for each new tuple, and what it goes with.

        counts  of the new tuples of each step; the others keep the labels they came with
        """
        most, random = max(counts), self._stream("label")
        positive = random.random((len(counts), most)) < 0.5
        drawn = self.negatives.draw(self.data, most, random)
        for step, count in enumerate(counts):
            self.data.relabel(step, count, positive[step], drawn[step])

    def _first_states(self) -> Array:
        """First observations that were seen, drawn at random   (1, M, D)"""
        seen = self.data.observation[:1, : self.data.n[0]].astype(np.float64)
        return seen[:, self._stream("draws").integers(seen.shape[1], size=self.n_draws)]

    def _uncertainty(self, round_number: int) -> tuple[Uncertainty, Array]:
        """Line 9 on the bonus data; the regression of rewards and its width on all data."""
        assert self.fitted is not None
        config, data, most = self.config, self.data, int(self.data.n.max())
        found_phi = self.fitted.features_of(data.observation[:, :most], data.action[:, :most])
        check_features(found_phi, round_number)
        phi = torch.from_numpy(found_phi)
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
