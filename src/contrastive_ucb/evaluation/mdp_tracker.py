"""The accounts of a run on MDPs: regret and optimism.

| paper                 | here               |                                                     |
|-----------------------|--------------------|-----------------------------------------------------|
| V* - V^{pi^k}         | `gap`              | of the greedy policy of round k                     |
| (1/K) sum of the gaps | `average_regret`   | what the theorem bounds                             |
| V-bar_1^k             | `optimistic_value` | near-optimism: at least V* - H sqrt(A zeta_1) (E5)  |
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.evaluation.tracker import ROUNDING, Tracked, Tracker
from contrastive_ucb.planning.value_iteration import plan, policy_value


class TrackedMDP(Tracked, Protocol):
    """Policies (B, H, S, A) and V-bar (B, H, S) of the round."""

    @property
    def policies(self) -> Array: ...
    @property
    def values(self) -> Array: ...


class MDPTracker(Tracker[TrackedMDP]):
    """What the policies of all rounds lose against V*, and how often V-bar was above it."""

    average = "average_regret"
    kept = (*Tracker.kept, "optimistic", "near_optimistic")

    def __init__(self, agent: TrackedMDP):
        super().__init__(agent)
        _, values = plan(self.batch.kernel, self.batch.rewards)
        self.optimal = self.at_start(values)  # V*, (B,)
        self.optimistic, self.near_optimistic = np.zeros((2, self.batch.n_seeds))

    def gap(self, agent: TrackedMDP) -> Array:
        batch = self.batch
        earned = policy_value(batch.kernel, batch.rewards, agent.policies)
        return np.asarray(self.optimal - self.at_start(earned))

    def figures(self, agent: TrackedMDP, gap: Array) -> dict[str, Array]:
        return {"regret": self.total.copy(), "optimistic_value": self.at_start(agent.values)}

    def note_error(self, figures: dict[str, Array]) -> None:
        value = figures["optimistic_value"]
        bias = self.batch.horizon * np.sqrt(self.batch.n_actions * figures["zeta_first"])
        self.optimistic += value >= self.optimal - ROUNDING
        self.near_optimistic += value >= self.optimal - bias - ROUNDING

    @property
    def solved_limit(self) -> Array | float:
        """A part of V*."""
        return np.asarray((self.solved_gap or 0.0) * self.optimal)

    def summary(self, seed: int) -> dict[str, Any]:
        summary: dict[str, Any] = {"optimal_value": float(self.optimal[seed])}
        if measured := float(self.measured[seed]):
            summary["optimistic_fraction"] = float(self.near_optimistic[seed]) / measured
            summary["strictly_optimistic_fraction"] = float(self.optimistic[seed]) / measured
        return {**summary, **self.solved_summary(seed)}
