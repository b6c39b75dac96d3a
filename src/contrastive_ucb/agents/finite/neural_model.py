"""The model of an environment with observations: networks for phi and psi.

| paper              | here                  | shape             | line   |
|--------------------|-----------------------|-------------------|--------|
| D_h^k, D~_h^k      | `data`                |                   | 4      |
| phi~, psi~         | `train`               |                   | 6      |
| phi^, psi^, P^     | `fitted`, `kernel_on` | (1, H, M A, d)    | 7, 8   |
| Sigma^_h^k, beta   | `uncertainty`         | (H, d, d)         | 9, 10  |
| r_h, if learned    | `uncertainty`         | (H, d), (H, d, d) | l.168  |
| pi^k               | `kept["last"]`        | a function of o   | 13, 16 |

A round is planned on M states per step: observed first observations at step 1 and draws of P^-_h at
step h + 1. They are drawn again in every round; only the data and a few policies are stored.

A learned reward is the ridge regression of all observed rewards on phi^, with ridge `REWARD_RIDGE`.
Its width uses another matrix, the sum of phi^ phi^' over all data plus lambda_k I, and is scaled by
alpha * reward_alpha. With one-hot features it equals the width of `TabularModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from math import sqrt
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.bonus.elliptical import (
    REWARD_RIDGE,
    bonus,
    cholesky,
    covariance,
    elliptical_width,
    log_det,
    ridge_weights,
)
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import restore_stream, stream_state
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.data.observations import (
    Negatives,
    ObservationData,
    Transitions,
)
from contrastive_ucb.data.sampler import Streams
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, Twin, check_observed
from contrastive_ucb.representation.neural import (
    Fitted,
    NeuralClass,
    Observations,
    Recipe,
    Weights,
    initial_weights,
    train,
)

REWARD_GAIN = 5.0  # scale of rewards as inputs of psi, similar to that of observations
SIGNS = (1.0, -1.0)  # of the bonus in the upper bound and, in games, the lower one
KnownReward = Callable[[int, Array], Array]  # step h, observations (n, D) -> (n, A)


class NeuralModel:
    """Data, representation and bonus of one environment; the seed axis has length 1.

    shape    (1, H, M, A)  steps, states to plan on, joint actions
    log_det  (1,)          log det Sigma^ of the last bonus, summed over steps
    states   (H, M, D)     the states of this round
    kernel                 P^ between them
    kept                   the policies of the last round and, in games, of other selected rounds
    """

    states: Array
    kernel: Kernel
    uncertainty: Uncertainty

    def __init__(self, env: ObservedEnv, config: AgentConfig, streams: Streams):
        self.env, self.config, self.random = env, config, streams
        assert config.trajectories is not None  # both set by `resolve`
        assert config.n_draws is not None
        self.trajectories, self.n_draws = config.trajectories, config.n_draws
        self.shape = (1, env.horizon, self.n_draws, env.n_joint)
        self.action_shape = env.action_shape
        self.initial = np.full((1, self.n_draws), 1 / self.n_draws)
        self.neural_class, self.negatives = make_class(config, env), make_negatives(config, env)
        self.recipe = Recipe(**{f.name: getattr(config, f.name) for f in fields(Recipe)})
        self.data = ObservationData(
            env.horizon, env.size, self.neural_class.extra, self.recipe.sampler == "paper"
        )
        self.fitted: Fitted | None = None
        self.log_det = np.zeros(1)
        self.kept: dict[str, Lookahead] = {}

    @property
    def n_rounds(self) -> int:
        """Rounds in the data; each adds one row per trajectory to the first step."""
        return int(self.data.n[0]) // self.trajectories

    @property
    def metrics(self) -> dict[str, Array]:
        """Metrics of the last fit by name, each (1,)."""
        return {} if self.fitted is None else {"losses/contrastive": np.array([self.fitted.loss])}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo the data, the weights and the random draws of a round that fails."""
        rows, fitted = self.data.n.copy(), self.fitted
        streams = {name: stream_state(row[0]) for name, row in self.random.items()}
        try:
            yield
        except BaseException:
            self.data.forget(rows)
            self.fitted = fitted
            for name, state in streams.items():
                self.random[name][0] = restore_stream(state)
            raise

    def add(self, transitions: list[Transitions]) -> None:
        """Line 4: add the data of one round, one entry per step."""
        if self.neural_class.extra:
            transitions = [_with_reward(rows) for rows in transitions]
        for step, rows in enumerate(transitions):
            for name in ("observation", "reward", "following"):
                when = f"step {step} of round {self.n_rounds + 1}"
                check_observed(self.env.name, name, getattr(rows, name), when)
        for step, rows in enumerate(transitions):
            self.data.add(step, rows)
        if self.data.labeled:
            self._label([len(rows.action) for rows in transitions])

    def fit(self) -> Kernel:
        """Lines 6 to 8: train the networks, then normalize them on the states to plan on."""
        start, recipe = self._start()
        trained = train(
            start, self.neural_class, self.data, self.negatives, recipe, self._stream("batch")
        )
        nodes = self.negatives.nodes(self.data, self.n_draws, self._stream("draws"))
        self.fitted = trained.gauged(nodes)
        check_finite(self.fitted, self.n_rounds)
        self.states = np.concatenate([self._first_states(), nodes[:-1, :, : self.env.size]])
        self.kernel = kernel_on(self.fitted, self.states, nodes)
        return self.kernel

    def bonus(self, kernel: Kernel, k: int) -> Array:
        """Lines 9 and 10: min{gamma_k ||phi^||, 2H}, plus the width of a learned reward."""
        self.uncertainty = self._uncertainty(k)
        return self.uncertainty.beta(kernel.features[0], slice(None)).reshape(self.shape)

    def rewards(self) -> Array:
        """r_h, known or estimated by ridge regression on phi^ (remark, l.168)."""
        weights = self.uncertainty.reward
        if weights is not None:
            learned = np.matmul(self.kernel.features, weights[..., None])
            return np.asarray(learned).reshape(self.shape)
        known = [self.env.rewards(step, states) for step, states in enumerate(self.states)]
        return np.stack(known).reshape(self.shape)

    def keep(self, names: Sequence[str], values: Sequence[Array], ceiling: Array | None) -> None:
        """Store the policy of this round, as a function of observations, under these names.

        values   V-upper (1, H, M), and in games V-lower
        ceiling  (H,) the largest Q_h; the smallest is 0, in games its negative. None: not clipped
        """
        assert self.fitted is not None
        ahead = np.stack([ahead_of(self.kernel, bound[0]) for bound in values])
        low = None if ceiling is None else (len(values) == 2) * -ceiling
        policy = Lookahead(self.fitted, self.uncertainty, ahead, low, ceiling)
        self.kept = {**self.kept, **dict.fromkeys(names, policy)}

    def kernel_on_twin(self, twin: Twin) -> Kernel | None:
        """P^ between the states of the finite twin; None if P^- has no density there."""
        if self.fitted is None or not twin.is_even or self.config.density != "uniform":
            return None
        states = twin.observations
        with one_thread():
            return kernel_on(self.fitted.gauged(states), states, states)

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
        self.fitted = self.kept["last"].fitted if "last" in self.kept else None

    def _stream(self, name: str) -> np.random.Generator:
        return self.random[name][0]

    def _start(self) -> tuple[Weights, Recipe]:
        """The initial weights: new ones, or with a warm start those of the previous round.

        A warm start scales the learning rate by 1 / sqrt(k), so that the weights converge.
        """
        if self.config.warm_start == "on" and self.fitted is not None:
            rate = self.recipe.learning_rate / sqrt(self.n_rounds)
            return self.fitted.weights, replace(self.recipe, learning_rate=rate)
        random = self._stream("weights")
        return initial_weights(self.neural_class, self.env.horizon, random), self.recipe

    def _label(self, counts: list[int]) -> None:
        """The paper's sampler: draw a label for each new tuple, and a negative for false labels.

        counts  the number of new tuples of each step
        """
        most, random = max(counts), self._stream("label")
        positive = random.random((len(counts), most)) < 0.5
        drawn = self.negatives.draw(self.data, most, random)
        for step, count in enumerate(counts):
            self.data.relabel(step, count, positive[step], drawn[step])

    def _first_states(self) -> Array:
        """Observed first observations, drawn at random   (1, M, D)"""
        observed = self.data.observation[:1, : self.data.n[0]].astype(np.float64)
        return observed[:, self._stream("draws").integers(observed.shape[1], size=self.n_draws)]

    def _uncertainty(self, k: int) -> Uncertainty:
        """Line 9 on the bonus data; the regression of rewards and its width on all data."""
        assert self.fitted is not None
        config, data, most = self.config, self.data, int(self.data.n.max())
        features = self.fitted.features_of(data.observation[:, :most], data.action[:, :most])
        broken = np.flatnonzero(~np.isfinite(features).all((1, 2)))
        if len(broken):  # products of finite weights can overflow
            raise ArithmeticError(
                f"the features phi have a NaN or infinite entry at step {broken[0]} of round {k};"
                " lower the learning rate"
            )
        phi = torch.from_numpy(features)
        is_row = np.arange(most) < data.n[:, None]
        rolled_in = torch.from_numpy((is_row & data.rolled_in[:, :most]).astype(np.float64))
        alpha, ridge = config.alpha or 0.0, config.ridge
        divisor = k * self.trajectories if config.covariance == "averaged" else 1  # erratum E1
        chol = cholesky(covariance(phi, rolled_in, ridge, divisor))
        self.log_det = log_det(chol).sum().reshape(1).numpy()
        horizon = self.env.horizon
        uncertainty = Uncertainty(chol.numpy(), alpha * horizon, 2.0 * horizon)
        if config.reward == "known":
            return uncertainty
        visits = is_row.astype(np.float64)
        rewards = data.reward[:, :most].astype(np.float64) * visits
        weights = ridge_weights(features, visits, rewards, REWARD_RIDGE)
        width = cholesky(covariance(phi, torch.from_numpy(visits), ridge))
        return replace(
            uncertainty,
            reward=weights,
            reward_chol=width.numpy(),
            reward_scale=alpha * config.reward_alpha,
        )


# The policy of a round at any observation
#
# V_{h+1} is used only in P^V(z) = phi^(z)' w_h with the vector w_h = E_{s' ~ P^-}[psi~(s')
# V_{h+1}(s')] of d numbers per step. So
#
#     Q_h(o, a) = r_h(o, a) +- beta_h(o, a) + phi^_h(o, a)' w_h
#
# at any observation, and the policy of a round is stored as its networks, a Cholesky factor and w.


@dataclass(frozen=True)
class Uncertainty:
    """beta_h and the learned r_h, both functions of phi^.

    chol         (H, d, d)  Cholesky factor of Sigma_h
    scale, cap              gamma_k and 2H
    reward       (H, d)     weights of the ridge regression of rewards on phi^; None: known
    reward_chol  (H, d, d)  Cholesky factor of lambda_k I + the sum of phi^ phi^' over all data, for
                            the width of the learned reward; the regression itself uses another
                            ridge
    reward_scale            the factor of that width, alpha * reward_alpha
    """

    chol: Array
    scale: float
    cap: float
    reward: Array | None = None
    reward_chol: Array | None = None
    reward_scale: float = 0.0

    def beta(self, phi: Array, steps: slice) -> Array:
        """min{gamma ||phi^||, 2H} plus the width of the learned reward.   (H', n, d) -> (H', n)"""
        features = torch.from_numpy(phi)
        width = elliptical_width(features, torch.from_numpy(self.chol[steps]))
        beta = bonus(width, self.scale, self.cap).numpy()
        if self.reward_chol is not None:
            reward_width = elliptical_width(features, torch.from_numpy(self.reward_chol[steps]))
            beta = beta + self.reward_scale * reward_width.numpy()
        return np.asarray(beta)


@dataclass(frozen=True)
class Lookahead:
    """Q-upper (and in games Q-lower) of one round at any observation.

    ahead      (n, H, d)  w_h of each bound, the upper one first
    low, high  (H,)       the range of Q; None: not clipped
    """

    fitted: Fitted
    uncertainty: Uncertainty
    ahead: Array
    low: Array | None
    high: Array | None

    def bounds(self, step: int, observations: Array, known: KnownReward) -> list[Array]:
        """Q-upper, and in games Q-lower, at one step.   observations (n, D) -> (n, A)"""
        phi = self.fitted.at(step).features(observations[None])[0]  # (n, A, d)
        at = slice(step, step + 1)
        beta = self.uncertainty.beta(phi.reshape(1, -1, phi.shape[-1]), at).reshape(phi.shape[:2])
        weights = self.uncertainty.reward
        reward = known(step, observations) if weights is None else phi @ weights[step]
        bounds = []
        for sign, ahead in zip(SIGNS, self.ahead, strict=False):
            q = reward + sign * beta + phi @ ahead[step]
            if self.low is not None and self.high is not None:
                q = np.clip(q, self.low[step], self.high[step])
            bounds.append(q)
        return bounds

    def state_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "fitted": self.fitted.state_dict(),
            "uncertainty": vars(self.uncertainty),
        }

    @staticmethod
    def of_state(shape: NeuralClass, state: dict[str, Any]) -> Lookahead:
        fitted = Fitted(shape, **state["fitted"])
        return Lookahead(
            **{**state, "fitted": fitted, "uncertainty": Uncertainty(**state["uncertainty"])}
        )


def kernel_on(fitted: Fitted, states: Observations, nodes: Observations) -> Kernel:
    """P^ between finitely many observations: current states and next states of every step.

    states  (H, m, D)  at steps 1..H
    nodes   (H, m, D)  at steps 2..H+1, equal shares of P^-

    returns features (1, H, m A, d) and measures (1, H, d, m)
    """
    phi = fitted.features(states)
    return Kernel(phi.reshape(1, len(phi), -1, phi.shape[-1]), fitted.measures(nodes)[None])


def ahead_of(kernel: Kernel, values: Array) -> Array:
    """w_h = sum over the nodes of psi^_h V_{h+1}, zero at the last step.

    kernel of one seed, values (H, m) at the states; returns (H, d)
    """
    assert kernel.measures is not None
    later = np.concatenate([values[1:], np.zeros_like(values[:1])])
    return np.asarray(np.matmul(kernel.measures[0], later[..., None])[..., 0])


# From a configuration of `resolve` to its parts


def make_class(config: Any, env: ObservedEnv) -> NeuralClass:
    """The architecture of the networks."""
    if config.harmonics:
        env.check_bounded(f"harmonics = {config.harmonics}")
    return NeuralClass(
        env.size,
        env.n_joint,
        config.rank,
        extra=int(config.foresee_reward == "on"),
        hidden=config.hidden,
        harmonics=config.harmonics,
        simplex=config.phi_head == "simplex",
        exponential=config.psi_head == "exp",
        low=tuple(env.low.tolist()),
        high=tuple(env.high.tolist()),
    )


def make_negatives(config: AgentConfig, env: ObservedEnv) -> Negatives:
    """The distribution P^-."""
    if config.foresee_reward == "on" and config.density != "seen":
        raise ValueError(
            f"foresee_reward = 'on' needs draws with rewards, density = 'seen', got"
            f" {config.density!r}"
        )
    if config.density in ("uniform", "mixed"):
        env.check_bounded(f"density = {config.density!r}")
    center, scale = config.negative_center, config.negative_scale
    return Negatives(env, config.density, config.uniform_share, center, scale)


def check_finite(fitted: Fitted, round_number: int) -> None:
    """Raise if the weights or the masses have an entry that is not finite."""
    tensors = {
        f"the weights {name!r} of the networks have": w for name, w in fitted.weights.items()
    }
    for subject, tensor in {**tensors, "log_mass, the mass of psi, has": fitted.log_mass}.items():
        if not torch.isfinite(tensor).all():
            raise ArithmeticError(
                f"{subject} a NaN or infinite entry in round {round_number}; lower the"
                " learning rate"
            )


def _with_reward(rows: Transitions) -> Transitions:
    """Transitions whose next observation includes the reward.

    Without it, pairs with the same distribution of next observations share their mean reward.
    """
    rewards = REWARD_GAIN * rows.reward[:, None]
    return replace(rows, following=np.concatenate([rows.following, rewards], axis=1))
