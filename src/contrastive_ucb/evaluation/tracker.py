"""What a run is worth, round by round and exactly: regret, model error, optimism, when solved.

| paper                 | here               |                                                     |
|-----------------------|--------------------|-----------------------------------------------------|
| V* - V^{pi^k}         | `gap`              | of the greedy policy of round k                     |
| (1/K) sum of the gaps | `average_regret`   | what the theorem bounds                             |
| zeta_h^k, xi_h^k      | `zeta`, `xi`       | largest over h, under the true rho~ and rho-breve   |
| V-bar_1^k             | `optimistic_value` | near-optimism: at least V* - H sqrt(A zeta_1) (E5)  |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.envs.batch import MDPBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.evaluation.exact import one_step_later, rolled_in, squared_distance
from contrastive_ucb.planning.value_iteration import occupancy, plan, policy_value

STREAK = 5  # rounds in a row that a task must be solved in
ERROR_CELLS = 1_000_000  # table entries a seed up to which the model error is measured every round
ROUNDING = 1e-9


class Tracker:
    """Exact accounts of all seeds. Everything with a leading B has one entry a seed."""

    def __init__(self, batch: MDPBatch, solved_gap: float | None = None):
        self.batch, self.solved_gap = batch, solved_gap
        _, values = plan(batch.kernel, batch.rewards)
        self.optimal = (values[:, 0] * batch.initial).sum(-1)  # V*, (B,)
        n_seeds, shape = batch.n_seeds, (batch.n_seeds, batch.horizon, batch.n_pairs)
        self.rolled_in, self.one_later = np.zeros((2, *shape))  # k rho~, k rho-breve
        self.regret, self.measured, self.optimistic, self.near_optimistic = np.zeros((4, n_seeds))
        self.streak = np.zeros(n_seeds, dtype=np.int64)
        self.solved_at = np.zeros(n_seeds, dtype=np.int64)  # 0: not yet
        self.n_rounds = 0

    @property
    def always_measures(self) -> bool:
        """Whether the model error is small work, so that every round has it."""
        batch = self.batch
        return batch.horizon * batch.n_pairs * batch.n_states <= ERROR_CELLS

    def follow(self, roll_in: Array) -> None:
        """Account for one round of data collected with the policy `roll_in` (B, H, S, A)."""
        reached = occupancy(self.batch.kernel, roll_in, self.batch.initial)
        tilde = rolled_in(reached, self.batch.n_actions)
        self.rolled_in += tilde
        self.one_later += one_step_later(self.batch.kernel, tilde)
        self.n_rounds += 1

    def measure(
        self, kernel: Kernel, values: Array, policies: Array, error: bool
    ) -> dict[str, Array]:
        """The figures of this round, each (B,); `error` also measures zeta, xi and optimism.

        kernel P^, values V-bar (B, H, S), policies pi^k (B, H, S, A)
        """
        batch = self.batch
        earned = policy_value(batch.kernel, batch.rewards, policies)[:, 0]
        gap = self.optimal - (earned * batch.initial).sum(-1)
        self.regret += gap
        self._note_solved(gap)
        figures = {
            "gap": gap,
            "regret": self.regret.copy(),
            "average_regret": self.regret / self.n_rounds,
            "optimistic_value": (values[:, 0] * batch.initial).sum(-1),
        }
        if error or self.always_measures:
            figures |= self._errors(kernel, figures["optimistic_value"])
        return figures

    def summary(self, seed: int) -> dict[str, Any]:
        """The accounts of one seed that a summary shows."""
        measured = float(self.measured[seed])
        summary: dict[str, Any] = {"optimal_value": float(self.optimal[seed])}
        if measured:
            summary["optimistic_fraction"] = float(self.near_optimistic[seed]) / measured
            summary["strictly_optimistic_fraction"] = float(self.optimistic[seed]) / measured
        if self.solved_gap is not None:
            summary["solved_at"] = int(self.solved_at[seed]) or None
        return summary

    def _note_solved(self, gap: Array) -> None:
        if self.solved_gap is None:
            return
        solved = gap <= self.solved_gap * self.optimal + ROUNDING
        self.streak = np.where(solved, self.streak + 1, 0)
        first = (self.streak == STREAK) & (self.solved_at == 0)
        self.solved_at[first] = self.n_rounds - STREAK + 1

    def _errors(self, kernel: Kernel, optimistic_value: Array) -> dict[str, Array]:
        distance = squared_distance(self.batch.kernel, kernel)  # (B, H, Z)
        zeta = (self.rolled_in * distance).sum(-1) / self.n_rounds  # (B, H)
        xi = (self.one_later * distance).sum(-1) / self.n_rounds
        bias = self.batch.horizon * np.sqrt(self.batch.n_actions * zeta[:, 0])
        self.measured += 1
        self.optimistic += optimistic_value >= self.optimal - ROUNDING
        self.near_optimistic += optimistic_value >= self.optimal - bias - ROUNDING
        return {"zeta": zeta.max(-1), "zeta_first": zeta[:, 0], "xi": xi.max(-1)}

    _ARRAYS = ("rolled_in", "one_later", "regret", "measured", "optimistic", "near_optimistic")
    _INTEGERS = ("streak", "solved_at")

    def state_of(self, seed: int) -> dict[str, Any]:
        floats = {name: getattr(self, name)[seed : seed + 1] for name in self._ARRAYS}
        integers = {name: getattr(self, name)[seed : seed + 1] for name in self._INTEGERS}
        return {"n_rounds": self.n_rounds, **floats, **integers}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.n_rounds = states[0]["n_rounds"]
        for name in (*self._ARRAYS, *self._INTEGERS):
            setattr(self, name, np.concatenate([state[name] for state in states]))
