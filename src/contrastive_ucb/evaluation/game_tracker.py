"""Metrics of a game, round by round.

| paper                    | here               |                                 |
|--------------------------|--------------------|---------------------------------|
| duality gap of round k   | `gap`              | exploitability of the policies  |
| V-lower, V_Nash, V-upper | `bracket_fraction` | rounds in which the bounds hold |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ulcb import Profile
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.evaluation.trackers import OnTwin, Tracker
from contrastive_ucb.planning.markov_game import Bounds, marginals, plan_nash, reply_values
from contrastive_ucb.planning.matrix_game import STAGES

NASH_ROUNDING = 1e-6  # accuracy of V_Nash, whose matrix games are solved to 1e-7


class GameTracker(Tracker):
    """Exploitability of the policies of all rounds, and the fraction of valid bounds."""

    average = "average_gap"
    saved = (
        *Tracker.saved,
        "best_gap",
        "certificate",
        "bracketed",
        "cce_gap",
        "stages",
    )

    def __init__(self, agent: Any):
        super().__init__(agent)
        values, _, _ = plan_nash(self.batch.kernel, self.batch.rewards, agent.n_actions)
        self.nash = self.at_start(values)  # V_Nash, (B,)
        n_seeds = self.batch.n_seeds
        self.best_gap, self.bracketed, self.cce_gap = np.zeros((3, n_seeds))
        self.certificate = np.full(n_seeds, np.inf)
        self.stages = np.zeros((n_seeds, len(STAGES)), dtype=np.int64)

    def evaluate(self, agent: Any, errors: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        kernel, rewards, pair = self.batch.kernel, self.batch.rewards, agent.last
        above = reply_values(kernel, rewards, pair.column, fixed="column")
        below = reply_values(kernel, rewards, pair.row, fixed="row")
        gap = self.at_start(above) - self.at_start(below)
        upper, lower = self.at_start(agent.bounds.v_upper), self.at_start(agent.bounds.v_lower)
        self.bracketed += (lower <= self.nash + NASH_ROUNDING) & (
            self.nash <= upper + NASH_ROUNDING
        )
        self.best_gap = np.where(agent.best.number == self.n_rounds, gap, self.best_gap)
        self.certificate = agent.best.certificate.copy()
        self.cce_gap = np.maximum(self.cce_gap, agent.cce_gap)
        self.stages = agent.cce_stages.copy()
        return gap, {
            "exploitability": self.best_gap.copy(),
            "certificate": upper - lower,
            "best_certificate": self.certificate,
            "upper_value": upper,
            "lower_value": lower,
            "cce_gap": agent.cce_gap,
        }

    def summary(self, seed: int) -> dict[str, Any]:
        stages = zip(STAGES, self.stages[seed].tolist(), strict=True)
        is_defined = self.solved_gap is not None
        solved = {"solved_at": int(self.solved_at[seed]) or None} if is_defined else {}
        return {
            "nash_value": float(self.nash[seed]),
            "exploitability": float(self.best_gap[seed]),
            "certificate": float(self.certificate[seed]),
            "bracket_fraction": float(self.bracketed[seed]) / self.n_rounds,
            "max_cce_gap": float(self.cce_gap[seed]),
            "cce_stages": dict(stages),
            **solved,
        }


class GameOnTwin(OnTwin):
    """`OnTwin` for games, with the attributes of `ContrastiveULCB` that `GameTracker` reads."""

    def look(self) -> None:
        super().look()
        agent = self.agent
        self.n_actions: tuple[int, int] = agent.n_actions
        joint = self.planned.reshape(*self.planned.shape[:3], *self.n_actions)
        self.bounds = Bounds(joint, self.bound_values[0], self.bound_values[1])
        self.last = Profile(*marginals(joint), agent.last.certificate, agent.last.number)
        self.best = agent.best
        self.cce_gap, self.cce_stages = agent.cce_gap, agent.cce_stages
