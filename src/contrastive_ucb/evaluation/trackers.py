"""What a run is worth, round by round and exactly: the accounts that MDPs and games share.

| paper                 | here               |                                                     |
|-----------------------|--------------------|-----------------------------------------------------|
| zeta_h^k, xi_h^k      | `zeta`, `xi`       | largest over h, under the true rho~ and rho-breve   |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB, Profile
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import Twin
from contrastive_ucb.evaluation.exact import one_step_later, rolled_in, squared_distance
from contrastive_ucb.planning.markov_game import Bounds, marginals, plan_nash, reply_values
from contrastive_ucb.planning.matrix_game import STAGES
from contrastive_ucb.planning.value_iteration import occupancy, plan, policy_value

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.neural_model import NeuralModel

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


NASH_ROUNDING = 1e-6  # V_Nash itself is known that well: its matrix games are solved to 1e-7


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
        held = (lower <= self.nash + NASH_ROUNDING) & (self.nash <= upper + NASH_ROUNDING)
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


class OnTwin:
    """The image of the agent's last round; `look` takes it anew.

    policies  (1, H, S, A)  joint in a game
    upper, lower  (1, H, S)  V-bar of each bound; an MDP has the upper one alone
    kernel                  P^ on the twin, None where P^- has no density there
    """

    def __init__(self, agent: Learner[Any], twin: Twin):
        self.agent, self.twin = agent, twin
        self.batch, self.envs = EnvBatch.of([twin.env]), agent.envs
        self.kernel: Kernel | None = None
        self.look()

    def look(self) -> None:
        seen = [self.agent.judge(step, row) for step, row in enumerate(self.twin.observations)]
        self.policies: Array = np.stack([policy for policy, _ in seen])[None]
        self.bound_values: Array = np.stack([values for _, values in seen], axis=1)[:, None]
        self.kernel = cast("NeuralModel", self.agent.model).kernel_on_twin(self.twin)

    @property
    def roll_in(self) -> Array:
        return self.agent.mixed(self.policies)

    @property
    def values(self) -> Array:
        return np.asarray(self.bound_values[0])


class GameOnTwin(OnTwin):
    """The same in a game."""

    agent: ContrastiveULCB

    @property
    def n_actions(self) -> tuple[int, int]:
        return self.agent.n_actions

    @property
    def bounds(self) -> Bounds:
        return Bounds(self._joint, self.bound_values[0], self.bound_values[1])

    @property
    def last(self) -> Profile:
        kept = self.agent.last
        return Profile(*marginals(self._joint), kept.certificate, kept.number)

    @property
    def best(self) -> Profile:
        return self.agent.best

    @property
    def drawn(self) -> Profile:
        return self.agent.drawn

    @property
    def cce_gap(self) -> Array:
        return self.agent.cce_gap

    @property
    def cce_stages(self) -> IntArray:
        return self.agent.cce_stages

    @property
    def _joint(self) -> Array:
        return self.policies.reshape(*self.policies.shape[:3], *self.n_actions)
