"""What a run is worth, round by round and exactly: the accounts that MDPs and games share.

| paper                 | here               |                                                     |
|-----------------------|--------------------|-----------------------------------------------------|
| zeta_h^k, xi_h^k      | `zeta`, `xi`       | largest over h, under the true rho~ and rho-breve   |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.evaluation.exact import one_step_later, rolled_in, squared_distance
from contrastive_ucb.planning.value_iteration import occupancy

STREAK = 5  # rounds in a row that a task must be solved in
ERROR_CELLS = 1_000_000  # table entries a seed up to which the model error is measured every round
ROUNDING = 1e-9


class Tracked(Protocol):
    """What is accounted for: an agent of a finite environment, or the image of one on a twin."""

    @property
    def batch(self) -> EnvBatch: ...
    @property
    def envs(self) -> Sequence[Any]: ...
    @property
    def kernel(self) -> Kernel | None:
        """P^; None where it cannot be compared with the truth."""
        ...


L = TypeVar("L", bound=Tracked)


class Tracker(ABC, Generic[L]):
    """Exact accounts of all seeds. Everything with a leading B has one entry a seed."""

    average: str  # the figure that the theorem bounds, by name

    def __init__(self, agent: L):
        self.batch, self.solved_gap = agent.batch, agent.envs[0].solved_gap
        n_seeds = self.batch.n_seeds
        shape = (n_seeds, self.batch.horizon, self.batch.n_pairs)
        self.rolled_in, self.one_later = np.zeros((2, *shape))  # k rho~, k rho-breve
        self.total, self.measured = np.zeros((2, n_seeds))  # sum of the gaps; rounds with an error
        self.streak = np.zeros(n_seeds, dtype=np.int64)
        self.solved_at = np.zeros(n_seeds, dtype=np.int64)  # 0: not yet
        self.n_rounds = 0

    @abstractmethod
    def gap(self, agent: L) -> Array:
        """How far the policies of this round are from optimal or from Nash   (B,)"""

    @abstractmethod
    def figures(self, agent: L, gap: Array) -> dict[str, Array]:
        """What else this round is accounted with, each (B,)."""

    def note_error(self, figures: dict[str, Array]) -> None:
        """Accounts that need the model error of the round; there may be none."""

    @abstractmethod
    def summary(self, seed: int) -> dict[str, Any]:
        """The accounts of one seed that a summary shows."""

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

    def measure(self, agent: L, error: bool) -> dict[str, Array]:
        """The figures of the round just played, each (B,); `error` also measures zeta and xi."""
        gap = self.gap(agent)
        self.total += gap
        self._note_solved(gap)
        figures = {"gap": gap, self.average: self.total / self.n_rounds}
        figures |= self.figures(agent, gap)
        if agent.kernel is not None and (error or self.always_measures):
            figures |= self.errors(agent.kernel)
            self.measured += 1
            self.note_error(figures)
        return figures

    def at_start(self, values: Array) -> Array:
        """V_1 from the initial distribution.   values (B, H, S) -> (B,)"""
        return np.asarray((values[:, 0] * self.batch.initial).sum(-1))

    def solved_summary(self, seed: int) -> dict[str, Any]:
        if self.solved_gap is None:
            return {}
        return {"solved_at": int(self.solved_at[seed]) or None}

    @property
    def solved_limit(self) -> Array | float:
        """The gap up to which a round counts as solved."""
        return self.solved_gap or 0.0

    def _note_solved(self, gap: Array) -> None:
        if self.solved_gap is None:
            return
        solved = gap <= self.solved_limit + ROUNDING
        self.streak = np.where(solved, self.streak + 1, 0)
        first = (self.streak == STREAK) & (self.solved_at == 0)
        self.solved_at[first] = self.n_rounds - STREAK + 1

    def errors(self, kernel: Kernel) -> dict[str, Array]:
        """zeta and xi of a learnt kernel, under what was rolled in with so far."""
        distance = squared_distance(self.batch.kernel, kernel)  # (B, H, Z)
        zeta = (self.rolled_in * distance).sum(-1) / self.n_rounds  # (B, H)
        xi = (self.one_later * distance).sum(-1) / self.n_rounds
        return {"zeta": zeta.max(-1), "zeta_first": zeta[:, 0], "xi": xi.max(-1)}

    kept: tuple[str, ...] = (  # the arrays, one row a seed, that a checkpoint holds
        "rolled_in",
        "one_later",
        "total",
        "measured",
        "streak",
        "solved_at",
    )

    def state_of(self, seed: int) -> dict[str, Any]:
        arrays = {name: getattr(self, name)[seed : seed + 1] for name in self.kept}
        return {"n_rounds": self.n_rounds, **arrays}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.n_rounds = states[0]["n_rounds"]
        for name in self.kept:
            setattr(self, name, np.concatenate([state[name] for state in states]))
