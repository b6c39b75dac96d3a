"""What is looked at in every round beside the usual accounts, one class an aspect.

| paper              | probe           |                                                           |
|--------------------|-----------------|-----------------------------------------------------------|
| near-optimism      | `Optimism`      | V-bar_1 - V* and the bias it may have (l.1093, E5)        |
| Lemma stat-err     | `Recovery`      | zeta and xi over their bound (l.317)                      |
| Definition of F    | `ProductClass`  | a class F = Psi x Phi that holds the truth (l.195)        |
| beta_h^k           | `Spread`        | whether the bonus tells pairs apart (l.145, E1)           |
| Lemma logdet-tele  | `Potential`     | both sides, with the true features (l.1814)               |
| maximum likelihood | `SameData`      | three models fed by one agent (l.1800)                    |
| iota_k-CCE         | `CCEGap`        | its gap over iota_k (l.268)                               |
| V-lower, V-upper   | `Bracket`       | their distances from V_Nash (l.414)                       |

`look` is called after every round and returns figures (B,); the largest of each over all rounds is
kept as `worst_<name>`. `finish` returns what is known at the end only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.evaluation.exact import model_error, potential
from contrastive_ucb.evaluation.trackers import GameTracker, MDPTracker
from contrastive_ucb.facts.bounds import (
    far_ahead,
    potential_corrected,
    potential_printed,
    recovery_bound,
)
from contrastive_ucb.facts.classes import Together, contrastive_twins, product_model
from contrastive_ucb.planning.value_iteration import occupancy
from contrastive_ucb.representation.tabular_fit import FiniteModel
from contrastive_ucb.runs.session import Session

Figures = dict[str, Array]


class Probe:
    """Looks at the agent of a session; made before the first round, which it may prepare."""

    def __init__(self, session: Session):
        self.session = session

    def look(self, figures: Figures, noted: bool) -> Figures:
        """Figures of this round; `noted` says whether its curves are kept."""
        return {}

    def finish(self, rounds: IntArray) -> tuple[Figures, Figures]:
        """Curves (B, n) at the noted rounds, and totals (B,)."""
        return {}, {}


class Optimism(Probe):
    """How far V-bar_1 is above V*, and how far below it may be: H sqrt(A zeta_1)."""

    def look(self, figures: Figures, noted: bool) -> Figures:
        tracker = self.session.tracker
        assert isinstance(tracker, MDPTracker)
        batch = tracker.batch
        bias = batch.horizon * np.sqrt(batch.n_actions * figures["zeta_first"])
        excess = figures["optimistic_value"] - tracker.optimal
        return {"optimism": excess, "allowed_bias": bias, "shortfall": -excess - bias}


class ProductClass(Probe):
    """Gives the agent the class Psi x Phi in the place of its own, which has the same size."""

    def __init__(self, session: Session):
        super().__init__(session)
        session.agent.model = product_model(session.agent)


class Recovery(Probe):
    """zeta_k and xi_k, the largest over h, over the bound of the lemma."""

    def look(self, figures: Figures, noted: bool) -> Figures:
        agent = self.session.agent
        model, config = agent.model, agent.config
        assert isinstance(model, FiniteModel)
        assert config.rank is not None
        bound = recovery_bound(
            agent.n_rounds,
            agent.batch.horizon,
            config.rank,
            float(agent.negatives.min()),
            float(np.log(model.size)),
            config.failure,
        )
        return {
            "recovery_bound": np.full(agent.batch.n_seeds, bound),
            "zeta_over_bound": figures["zeta"] / bound,
            "xi_over_bound": figures["xi"] / bound,
        }


class Spread(Probe):
    """The largest minus the smallest bonus over (s,a), at the step where that is most."""

    def look(self, figures: Figures, noted: bool) -> Figures:
        beta = self.session.agent.bonus
        return {
            "bonus_spread": (beta.max((-2, -1)) - beta.min((-2, -1))).max(-1),
            "bonus_mean": beta.mean((1, 2, 3)),
        }

    def finish(self, rounds: IntArray) -> tuple[Figures, Figures]:
        agent = self.session.agent
        totals = {"final_bonus": agent.bonus.mean((1, 2, 3))}
        if agent.config.schedule == "theory":
            totals["leaves_cap_at"], totals["far_spread"] = far_ahead(agent)
        return {}, totals


class Potential(Probe):
    """Both sides of the elliptical potential lemma for G_k = E[phi* phi*'] under pi^k."""

    RIDGE = 1.0

    def __init__(self, session: Session):
        super().__init__(session)
        self.gains: list[Array] = []  # of each round, (B, H, d, d)

    def look(self, figures: Figures, noted: bool) -> Figures:
        agent = self.session.agent
        assert isinstance(agent, ContrastiveUCB)
        batch = agent.batch
        reached = occupancy(batch.kernel, agent.policies, batch.initial)  # (B, H, S)
        weights = (reached[..., None] * agent.policies).reshape(*reached.shape[:2], -1)
        phi = batch.kernel.features
        self.gains.append(np.matmul((phi * weights[..., None]).swapaxes(-1, -2), phi))
        return {}

    def finish(self, rounds: IntArray) -> tuple[Figures, Figures]:
        gains = np.stack(self.gains)
        rank = gains.shape[-1]
        curves: dict[str, list[Array]] = {name: [] for name in ("", "_printed", "_corrected")}
        for k in rounds:
            spent, allowed = potential(gains[:k], self.RIDGE)  # (B, H)
            printed = potential_printed(int(k), rank, self.RIDGE)
            corrected = potential_corrected(int(k), rank, self.RIDGE)
            curves[""].append((spent / allowed).max(-1))
            curves["_printed"].append((allowed / printed).max(-1))
            curves["_corrected"].append((allowed / corrected).max(-1))
        kept = {f"potential{name}": np.stack(rows, -1) for name, rows in curves.items()}
        return kept, {f"worst_{name}": values.max(-1) for name, values in kept.items()}


class SameData(Probe):
    """Fits with exact negatives and by maximum likelihood on what the agent samples."""

    def __init__(self, session: Session):
        super().__init__(session)
        agent = session.agent
        self.models = Together(agent.model, contrastive_twins(agent))
        agent.model = self.models

    def look(self, figures: Figures, noted: bool) -> Figures:
        if not noted:
            return {}
        tracker = self.session.tracker
        weights = tracker.rolled_in / tracker.n_rounds
        errors = {
            f"zeta_{name}": model_error(tracker.batch.kernel, kernel, weights).max(-1)
            for name, kernel in self.models.kernels.items()
        }
        return {"zeta_sampled": figures["zeta"], **errors}


class CCEGap(Probe):
    """The largest gain from leaving the CCE, over all states and steps, relative to iota_k."""

    def look(self, figures: Figures, noted: bool) -> Figures:
        agent = self.session.agent
        assert isinstance(agent, ContrastiveULCB)
        iota = agent.config.iota / np.sqrt(agent.n_rounds)
        return {"cce_over_iota": figures["cce_gap"] / iota}


class Bracket(Probe):
    """How far V-upper is above V_Nash, and V-lower below it."""

    def look(self, figures: Figures, noted: bool) -> Figures:
        tracker = self.session.tracker
        assert isinstance(tracker, GameTracker)
        return {
            "upper_slack": figures["upper_value"] - tracker.nash,
            "lower_slack": tracker.nash - figures["lower_value"],
        }


PROBES: dict[str, Callable[[Session], Probe]] = {
    "optimism": Optimism,
    "product-class": ProductClass,
    "recovery": Recovery,
    "spread": Spread,
    "potential": Potential,
    "same-data": SameData,
    "cce": CCEGap,
    "bracket": Bracket,
}


def make_probes(names: tuple[str, ...], session: Session) -> list[Any]:
    """The probes by name; ProductClass and SameData change what the agent fits."""
    return [PROBES[name](session) for name in names]
