"""Additional measurements in every round, one class per quantity.

| paper              | probe           |                                                           |
|--------------------|-----------------|-----------------------------------------------------------|
| near-optimism      | `Optimism`      | V-bar_1 - V* and the allowed bias (l.1093, E5)            |
| pi^                | `DrawnPolicy`   | how often a drawn policy has at most the mean gap (l.227) |
| Lemma stat-err     | `Recovery`      | zeta and xi relative to their bound (l.317)               |
| beta_h^k           | `Spread`        | whether the bonus differs between pairs (l.145, E1)       |
| Lemma recover-mle  | `Likelihood`    | squared total variation relative to its bound (l.1800)    |
| Lemma con-inverse  | `Inverses`      | inverse covariances relative to 3/5 and 3 (l.1791)        |
| Lemma logdet-tele  | `Potential`     | both sides, with the true features (l.1814)               |
| maximum likelihood | `SameData`      | three models fitted to the data of one agent (l.1800)     |
| iota_k-CCE         | `CCEGap`        | its gap relative to iota_k (l.268)                        |
| V-lower, V-upper   | `Bracket`       | their distances from V_Nash (l.414)                       |

Runs name them in `probes`. Metrics of a probe are in the metrics of its run, their largest values
and totals in its summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.tabular_model import Representation, make_representation
from contrastive_ucb.bonus.elliptical import bonus, cholesky, covariance, elliptical_width
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.evaluation.exact import model_error, potential
from contrastive_ucb.evaluation.game_tracker import GameTracker
from contrastive_ucb.evaluation.trackers import MDPTracker
from contrastive_ucb.facts.bounds import potential_corrected, potential_printed, recovery_bound
from contrastive_ucb.planning.value_iteration import occupancy
from contrastive_ucb.representation.tabular_fit import FiniteModel
from contrastive_ucb.runs.session import Probe, Session

Figures = dict[str, Array]
FUTURE_ROUNDS = np.logspace(0, 12, 12 * 20 + 1)  # twenty per decade


class Optimism(Probe):
    """V-bar_1 - V*, and the bias H sqrt(A zeta_1) by which it may fall short."""

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        tracker = self.session.tracker
        assert isinstance(tracker, MDPTracker)
        batch = tracker.batch
        bias = batch.horizon * np.sqrt(batch.n_actions * figures["zeta_first"])
        excess = figures["optimistic_value"] - tracker.optimal
        return {"optimism": excess, "allowed_bias": bias, "shortfall": -excess - bias}


class Recovery(Probe):
    """zeta_k and xi_k, maximized over h, relative to the bound of the lemma."""

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent = self.session.agent
        model, config = agent.model.representation, agent.config
        assert isinstance(model, FiniteModel)
        assert config.rank is not None
        floor, log_size = float(agent.negatives.min()), float(np.log(model.size))
        sizes = (agent.n_rounds, agent.batch.horizon, config.rank)
        bound = recovery_bound(*sizes, floor, log_size, config.failure)
        return {
            "recovery_bound": np.full(agent.batch.n_seeds, bound),
            "zeta_over_bound": figures["zeta"] / bound,
            "xi_over_bound": figures["xi"] / bound,
        }


class Likelihood(Probe):
    """sum_i E |Pr^ - Pr|_TV^2 over all tuples, relative to 2 log(n |F| / delta), maximized over h.

    The contrastive loss is a log likelihood: with f^ the minimizer, Pr^(y = 1 | z, s') is
    f^ / (1 + f^), and s' has the density (P + P^-) / 2. Step 1 has n = k tuples, later steps 2 k.
    """

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent, tracker = self.session.agent, self.session.tracker
        model = agent.model.representation
        assert isinstance(model, FiniteModel)
        if not on_grid:
            return {}
        seed, step = np.indices((agent.batch.n_seeds, agent.batch.horizon))
        fitted = model.ratio[seed, model.losses.argmin(1), step]  # (B, H, Z, S)
        true = tracker.batch.kernel.table()
        labels = true / (true + agent.negatives)  # f* / (1 + f*)
        density = (true + agent.negatives) / 2
        distance = (abs(fitted / (1 + fitted) - labels) * density).sum(-1)  # of both labels, halved
        spent = ((tracker.rolled_in + tracker.one_later) * distance**2).sum(-1)  # (B, H)
        tuples = agent.n_rounds * np.where(np.arange(spent.shape[-1]) == 0, 1, 2)
        allowed = 2 * (np.log(tuples / agent.config.failure) + np.log(model.size))
        return {"likelihood_over_bound": (spent / allowed).max(-1)}


class Inverses(Probe):
    """The eigenvalues of inv(Sigma^) relative to those of the expected Sigma, between 3/5 and 3.

    Sigma^ is the sum of phi^ phi^' over D~ and the expected one the sum of its expectations, both
    plus lambda_k I.
    """

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent, tracker = self.session.agent, self.session.tracker
        if not on_grid:
            return {}
        assert agent.kernel is not None
        _, ridge = agent.model.schedule(agent.n_rounds)
        phi = agent.kernel.features
        drawn = covariance(phi, agent.model.rolled_in, ridge)
        expected = covariance(phi, tracker.rolled_in, ridge)
        quotients = np.linalg.eigvals(np.linalg.solve(drawn, expected)).real  # (B, H, d)
        return {
            "inverse_below": (0.6 / quotients).max((1, 2)),
            "inverse_above": (quotients / 3).max((1, 2)),
        }


class DrawnPolicy(Probe):
    """The share of the K rounds whose policy has at most the mean gap of all K rounds.

    It is the probability that the uniformly drawn policy is epsilon-optimal, where epsilon is what
    the theorem bounds.
    """

    def __init__(self, session: Session):
        super().__init__(session)
        self.gaps: list[Array] = []  # of each round, (B,)

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        self.gaps.append(figures["gap"])
        return {}

    def totals(self) -> Figures:
        gaps = np.stack(self.gaps)  # (K, B)
        return {"drawn_within_average": (gaps <= gaps.mean(0)).mean(0)}

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"gaps": np.stack(self.gaps)[:, seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.gaps = list(np.stack([state["gaps"] for state in states], axis=1))


class Potential(Probe):
    """Both sides of the elliptical potential lemma for G_k = E[phi* phi*'] under pi^k."""

    RIDGE = 1.0

    def __init__(self, session: Session):
        super().__init__(session)
        self.gains: list[Array] = []  # G_k of each round, (B, H, d, d)

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent = self.session.agent
        assert isinstance(agent, ContrastiveUCB)
        batch = agent.batch
        reached = occupancy(batch.kernel, agent.policies, batch.initial)  # (B, H, S)
        weights = (reached[..., None] * agent.policies).reshape(*reached.shape[:2], -1)
        phi = batch.kernel.features
        self.gains.append(np.matmul((phi * weights[..., None]).swapaxes(-1, -2), phi))
        if not on_grid:
            return {}
        k, rank = len(self.gains), phi.shape[-1]
        left, right = potential(np.stack(self.gains), self.RIDGE)  # (B, H)
        return {
            "potential": (left / right).max(-1),
            "potential_printed": right.max(-1) / potential_printed(k, rank, self.RIDGE),
            "potential_corrected": right.max(-1) / potential_corrected(k, rank, self.RIDGE),
        }

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"gains": np.stack([gain[seed] for gain in self.gains])}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.gains = list(np.stack([state["gains"] for state in states], axis=1))


class CCEGap(Probe):
    """The largest gain from deviating from the CCE over all states and steps, over iota_k."""

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent = self.session.agent
        assert isinstance(agent, ContrastiveULCB)
        iota = agent.config.iota / np.sqrt(agent.n_rounds)
        return {"cce_over_iota": figures["cce_gap"] / iota}


class Bracket(Probe):
    """V-upper - V_Nash and V_Nash - V-lower."""

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        tracker = self.session.tracker
        assert isinstance(tracker, GameTracker)
        return {
            "upper_slack": figures["upper_value"] - tracker.nash,
            "lower_slack": tracker.nash - figures["lower_value"],
        }


class Spread(Probe):
    """The largest minus the smallest bonus over (s, a), at the step where this is largest."""

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        beta = self.session.agent.bonus
        return {
            "bonus_spread": (beta.max((-2, -1)) - beta.min((-2, -1))).max(-1),
            "bonus_mean": beta.mean((1, 2, 3)),
        }

    def totals(self) -> Figures:
        agent = self.session.agent
        totals = {"final_bonus": agent.bonus.mean((1, 2, 3))}
        if agent.config.schedule == "theory":
            spreads = np.stack([future_spread(agent, k) for k in FUTURE_ROUNDS], axis=-1)  # (B, n)
            positive = spreads > 0
            first = FUTURE_ROUNDS[positive.argmax(-1)]
            totals["leaves_cap_at"] = np.where(positive.any(-1), first, np.nan)  # NaN: never
            totals["far_spread"] = spreads.max(-1)
        return totals


def future_spread(agent: Learner[Any], k: float) -> Array:
    """The spread of the bonus in round k, if features and visit frequencies stay as they are. (B,)

    gamma, lambda and the number of visits are those of round k.
    """
    assert agent.kernel is not None  # after at least one round
    scale, ridge = agent.model.schedule(int(k))
    visits = torch.from_numpy(agent.model.rolled_in * (k / agent.n_rounds))
    phi = torch.from_numpy(agent.kernel.features)
    divisor = int(k) if agent.config.covariance == "averaged" else 1
    chol = cholesky(covariance(phi, visits, ridge, divisor))
    beta = bonus(elliptical_width(phi, chol), scale, 2.0 * agent.batch.horizon)  # (B, H, Z)
    return np.asarray((beta.amax(-1) - beta.amin(-1)).amax(-1).numpy())


class SameData(Probe):
    """Also fits a model with exact negatives and one by maximum likelihood to the agent's data."""

    def __init__(self, session: Session):
        super().__init__(session)
        agent = session.agent
        changes: dict[str, dict[str, Any]] = {
            "exact": {"negatives": "exact"},
            "likelihood": {"features": "likelihood"},
        }
        others = {
            name: make_representation(
                replace(agent.config, **change),
                agent.batch,
                agent.negatives,
                [stream(seed, "start") for seed in agent.seeds],
            )
            for name, change in changes.items()
        }
        self.models = ModelGroup(agent.model.representation, others)
        agent.model.representation = self.models

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        if not on_grid:
            return {}
        tracker = self.session.tracker
        weights = tracker.rolled_in / tracker.n_rounds
        errors = {
            f"zeta_{name}": model_error(tracker.batch.kernel, kernel, weights).max(-1)
            for name, kernel in self.models.kernels.items()
        }
        return {"zeta_sampled": figures["zeta"], **errors}


class ModelGroup:
    """Several models that receive the same data. The agent uses the first."""

    def __init__(self, first: Representation, others: Mapping[str, Representation]):
        self.first, self.others = first, dict(others)
        self.kernels: dict[str, Kernel] = {}  # latest fits of the others

    def add(self, tuples: Tuples) -> None:
        for model in (self.first, *self.others.values()):
            model.add(tuples)

    def fit(self) -> Kernel:
        self.kernels = {name: model.fit() for name, model in self.others.items()}
        return self.first.fit()

    def state_of(self, seed: int) -> dict[str, Any]:
        others = {name: model.state_of(seed) for name, model in self.others.items()}
        return {"first": self.first.state_of(seed), "others": others}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.first.load_states([state["first"] for state in states])
        for name, model in self.others.items():
            model.load_states([state["others"][name] for state in states])
