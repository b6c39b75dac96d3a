"""The accounts of a run on zero-sum games: duality gap, certificate and bracket.

| paper                          | here               |                                          |
|--------------------------------|--------------------|------------------------------------------|
| V^{br(nu^k),nu^k} - V^{pi^k,br}| `gap`              | of the marginal policies of round k      |
| (1/K) sum of the gaps          | `average_gap`      | what the theorem bounds (l.289)          |
| V-upper_1^k - V-lower_1^k      | `certificate`      | its smallest value picks k_0 (E8)        |
| V-lower <= V_Nash <= V-upper   | `bracket_fraction` | rounds in which it held                  |

There is no guarantee for the last round (E14), so the summary has the average over rounds, the last
round, the one with the best certificate (`exploitability`), and one drawn uniformly.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from contrastive_ucb.agents.profile import Profile
from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.evaluation.tracker import Tracked, Tracker
from contrastive_ucb.planning.markov_game import Bounds, plan_nash, reply_values
from contrastive_ucb.planning.matrix_game import STAGES

ROUNDING = 1e-6  # V_Nash itself is known that well: its matrix games are solved to 1e-7


class TrackedGame(Tracked, Protocol):
    """The bounds of the round, its policies, and the rounds that stand for a run."""

    @property
    def n_actions(self) -> tuple[int, int]: ...
    @property
    def bounds(self) -> Bounds: ...
    @property
    def last(self) -> Profile: ...
    @property
    def best(self) -> Profile: ...
    @property
    def drawn(self) -> Profile: ...
    @property
    def cce_gap(self) -> Array: ...
    @property
    def cce_stages(self) -> IntArray: ...


class GameTracker(Tracker[TrackedGame]):
    """How exploitable the policies of all rounds are, and whether the bounds held."""

    average = "average_gap"
    kept = (*Tracker.kept, "best_gap", "drawn_gap", "certificate", "bracketed", "cce_gap", "stages")

    def __init__(self, agent: TrackedGame):
        super().__init__(agent)
        values, _, _ = plan_nash(self.batch.kernel, self.batch.rewards, agent.n_actions)
        self.nash = self.at_start(values)  # V_Nash, (B,)
        n_seeds = self.batch.n_seeds
        self.best_gap, self.drawn_gap, self.bracketed, self.cce_gap = np.zeros((4, n_seeds))
        self.certificate = np.full(n_seeds, np.inf)
        self.stages = np.zeros((n_seeds, len(STAGES)), dtype=np.int64)

    def gap(self, agent: TrackedGame) -> Array:
        kernel, rewards, pair = self.batch.kernel, self.batch.rewards, agent.last
        above = reply_values(kernel, rewards, pair.column, fixed="column")
        below = reply_values(kernel, rewards, pair.row, fixed="row")
        return self.at_start(above) - self.at_start(below)

    def figures(self, agent: TrackedGame, gap: Array) -> dict[str, Array]:
        upper, lower = self.at_start(agent.bounds.v_upper), self.at_start(agent.bounds.v_lower)
        held = (lower <= self.nash + ROUNDING) & (self.nash <= upper + ROUNDING)
        self.bracketed += held
        self.best_gap = np.where(agent.best.number == self.n_rounds, gap, self.best_gap)
        self.drawn_gap = np.where(agent.drawn.number == self.n_rounds, gap, self.drawn_gap)
        self.certificate = agent.best.certificate.copy()
        self.cce_gap = np.maximum(self.cce_gap, agent.cce_gap)
        self.stages = agent.cce_stages.copy()
        return {
            "exploitability": self.best_gap.copy(),
            "certificate": upper - lower,
            "best_certificate": self.certificate,
            "upper_value": upper,
            "lower_value": lower,
            "cce_gap": agent.cce_gap,
        }

    def summary(self, seed: int) -> dict[str, Any]:
        stages = zip(STAGES, self.stages[seed].tolist(), strict=True)
        return {
            "nash_value": float(self.nash[seed]),
            "exploitability": float(self.best_gap[seed]),
            "drawn_gap": float(self.drawn_gap[seed]),
            "certificate": float(self.certificate[seed]),
            "bracket_fraction": float(self.bracketed[seed]) / self.n_rounds,
            "max_cce_gap": float(self.cce_gap[seed]),
            "cce_stages": dict(stages),
            **self.solved_summary(seed),
        }
