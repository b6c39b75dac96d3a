"""Metrics of a run, round by round: exact in finite environments, by episodes elsewhere.

| paper                    | here                  |                                          |
|--------------------------|-----------------------|------------------------------------------|
| V* - V^{pi^k}            | `gap` of an MDP       |                                          |
| duality gap of round k   | `gap` of a game       | exploitability of the policies           |
| zeta_h^k, xi_h^k         | `zeta`, `xi`          | largest over h, under rho~ and rho-breve |
| V-bar_1 >= V* - ...      | `optimistic_fraction` | near-optimism, with the factor H of E5   |
| V-lower, V_Nash, V-upper | `bracket_fraction`    | rounds in which the bounds hold          |

`MDPTracker` and `GameTracker` measure agents on tables. An agent with observations is followed on
the finite twin of its environment (`OnTwin`); if there is no twin, `ReturnTracker` plays episodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB, Profile
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.batch import EnvBatch, draw
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, Twin, check_observed
from contrastive_ucb.evaluation.exact import one_step_later, rolled_in, squared_distance
from contrastive_ucb.planning.markov_game import Bounds, marginals, plan_nash, reply_values
from contrastive_ucb.planning.matrix_game import STAGES
from contrastive_ucb.planning.value_iteration import occupancy, plan, policy_value

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.neural_model import NeuralModel

STREAK = 5  # consecutive rounds within the limit that count as solved
ERROR_CELLS = 1_000_000  # table entries per seed up to which every round measures the model error
ROUNDING = 1e-9
NASH_ROUNDING = 1e-6  # accuracy of V_Nash, whose matrix games are solved to 1e-7
EPISODES = 20  # per evaluation


class Tracked(Protocol):
    """An agent of a finite environment, or `OnTwin` for one with observations."""

    @property
    def batch(self) -> EnvBatch: ...
    @property
    def envs(self) -> Sequence[Any]: ...
    @property
    def kernel(self) -> Kernel | None:
        """P^, or None if it is not comparable with the true kernel."""
        ...


L = TypeVar("L", bound=Tracked)


class Tracker(ABC, Generic[L]):
    """Exact metrics of all seeds, which are a leading axis B.

    `follow` adds the data distribution of a round, `measure` returns the metrics of its policies.
    """

    average: str  # name of the metric that the theorem bounds

    def __init__(self, agent: L):
        self.batch, self.solved_gap = agent.batch, agent.envs[0].solved_gap
        n_seeds = self.batch.n_seeds
        shape = (n_seeds, self.batch.horizon, self.batch.n_pairs)
        self.rolled_in, self.one_later = np.zeros((2, *shape))  # k rho~, k rho-breve
        self.total, self.measured = np.zeros((2, n_seeds))  # sum of gaps; rounds with zeta and xi
        self.streak = np.zeros(n_seeds, dtype=np.int64)
        self.solved_at = np.zeros(n_seeds, dtype=np.int64)  # 0: not solved
        self.n_rounds = 0

    @abstractmethod
    def gap(self, agent: L) -> Array:
        """The loss of the policies of this round against optimal play or Nash   (B,)"""

    @abstractmethod
    def metrics(self, agent: L, gap: Array) -> dict[str, Array]:
        """The other metrics of this round, each (B,)."""

    def count_optimism(self, metrics: dict[str, Array]) -> None:
        """Update counts that depend on the model error of the round."""

    @abstractmethod
    def summary(self, seed: int) -> dict[str, Any]:
        """The metrics of the run of one seed."""

    @property
    def always_measures(self) -> bool:
        """Whether the model error is cheap enough to be measured in every round."""
        batch = self.batch
        return batch.horizon * batch.n_pairs * batch.n_states <= ERROR_CELLS

    def follow(self, roll_in: Array) -> None:
        """Add the distribution of data collected with the policy `roll_in` (B, H, S, A)."""
        reached = occupancy(self.batch.kernel, roll_in, self.batch.initial)
        tilde = rolled_in(reached, self.batch.n_actions)
        self.rolled_in += tilde
        self.one_later += one_step_later(self.batch.kernel, tilde)
        self.n_rounds += 1

    def measure(self, agent: L, error: bool) -> dict[str, Array]:
        """The metrics of the last round, each (B,); with `error` also zeta and xi."""
        gap = self.gap(agent)
        self.total += gap
        self._count_solved(gap)
        metrics = {"gap": gap, self.average: self.total / self.n_rounds}
        metrics |= self.metrics(agent, gap)
        if agent.kernel is not None and (error or self.always_measures):
            metrics |= self.errors(agent.kernel)
            self.measured += 1
            self.count_optimism(metrics)
        return metrics

    def at_start(self, values: Array) -> Array:
        """V_1 from the initial distribution.   values (B, H, S) -> (B,)"""
        return np.asarray((values[:, 0] * self.batch.initial).sum(-1))

    def solved_summary(self, seed: int) -> dict[str, Any]:
        if self.solved_gap is None:
            return {}
        return {"solved_at": int(self.solved_at[seed]) or None}

    @property
    def solved_limit(self) -> Array | float:
        """The gap up to which rounds count as solved."""
        return self.solved_gap or 0.0

    def _count_solved(self, gap: Array) -> None:
        if self.solved_gap is None:
            return
        solved = gap <= self.solved_limit + ROUNDING
        self.streak = np.where(solved, self.streak + 1, 0)
        first = (self.streak == STREAK) & (self.solved_at == 0)
        self.solved_at[first] = self.n_rounds - STREAK + 1

    def errors(self, kernel: Kernel) -> dict[str, Array]:
        """zeta and xi of a learned kernel, under the data distribution of all rounds."""
        distance = squared_distance(self.batch.kernel, kernel)  # (B, H, Z)
        zeta = (self.rolled_in * distance).sum(-1) / self.n_rounds  # (B, H)
        xi = (self.one_later * distance).sum(-1) / self.n_rounds
        return {"zeta": zeta.max(-1), "zeta_first": zeta[:, 0], "xi": xi.max(-1)}

    saved: tuple[str, ...] = (  # arrays with one row per seed that a checkpoint contains
        "rolled_in",
        "one_later",
        "total",
        "measured",
        "streak",
        "solved_at",
    )

    def state_of(self, seed: int) -> dict[str, Any]:
        arrays = {name: getattr(self, name)[seed : seed + 1] for name in self.saved}
        return {"n_rounds": self.n_rounds, **arrays}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.n_rounds = states[0]["n_rounds"]
        for name in self.saved:
            setattr(self, name, np.concatenate([state[name] for state in states]))


class TrackedMDP(Tracked, Protocol):
    """Policies (B, H, S, A) and V-bar (B, H, S) of the round."""

    @property
    def policies(self) -> Array: ...
    @property
    def values(self) -> Array: ...


class MDPTracker(Tracker[TrackedMDP]):
    """Regret of the policies of all rounds, and the fractions of optimistic rounds."""

    average = "average_regret"
    saved = (*Tracker.saved, "optimistic", "near_optimistic")

    def __init__(self, agent: TrackedMDP):
        super().__init__(agent)
        _, values = plan(self.batch.kernel, self.batch.rewards)
        self.optimal = self.at_start(values)  # V*, (B,)
        self.optimistic, self.near_optimistic = np.zeros((2, self.batch.n_seeds))

    def gap(self, agent: TrackedMDP) -> Array:
        batch = self.batch
        earned = policy_value(batch.kernel, batch.rewards, agent.policies)
        return np.asarray(self.optimal - self.at_start(earned))

    def metrics(self, agent: TrackedMDP, gap: Array) -> dict[str, Array]:
        return {"regret": self.total.copy(), "optimistic_value": self.at_start(agent.values)}

    def count_optimism(self, metrics: dict[str, Array]) -> None:
        value = metrics["optimistic_value"]
        bias = self.batch.horizon * np.sqrt(self.batch.n_actions * metrics["zeta_first"])
        self.optimistic += value >= self.optimal - ROUNDING
        self.near_optimistic += value >= self.optimal - bias - ROUNDING

    @property
    def solved_limit(self) -> Array | float:
        """A fraction of V*."""
        return np.asarray((self.solved_gap or 0.0) * self.optimal)

    def summary(self, seed: int) -> dict[str, Any]:
        summary: dict[str, Any] = {"optimal_value": float(self.optimal[seed])}
        if measured := float(self.measured[seed]):
            summary["optimistic_fraction"] = float(self.near_optimistic[seed]) / measured
            summary["strictly_optimistic_fraction"] = float(self.optimistic[seed]) / measured
        return {**summary, **self.solved_summary(seed)}


class TrackedGame(Tracked, Protocol):
    """The bounds of the round, and the policies of the last, the best and a random round."""

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
    """Exploitability of the policies of all rounds, and the fraction of valid bounds."""

    average = "average_gap"
    saved = (
        *Tracker.saved,
        "best_gap",
        "drawn_gap",
        "certificate",
        "bracketed",
        "cce_gap",
        "stages",
    )

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

    def metrics(self, agent: TrackedGame, gap: Array) -> dict[str, Array]:
        upper, lower = self.at_start(agent.bounds.v_upper), self.at_start(agent.bounds.v_lower)
        self.bracketed += (lower <= self.nash + NASH_ROUNDING) & (
            self.nash <= upper + NASH_ROUNDING
        )
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


# Twins: exact metrics of agents with observations


class OnTwin:
    """The policy, values and kernel of an agent at the states of a finite twin.

    policies      (1, H, S, A)    joint in a game
    bound_values  (n, 1, H, S)    V-upper, and in a game V-lower
    kernel                        P^ on the twin; None if P^- has no density there

    `look` evaluates the agent again, after every round.
    """

    def __init__(self, agent: Learner[Any], twin: Twin):
        self.agent, self.twin = agent, twin
        self.batch, self.envs = EnvBatch.of([twin.env]), agent.envs
        self.kernel: Kernel | None = None
        self.look()

    def look(self) -> None:
        steps = [self.agent.judge(step, row) for step, row in enumerate(self.twin.observations)]
        self.policies: Array = np.stack([policy for policy, _ in steps])[None]
        self.bound_values: Array = np.stack([values for _, values in steps], axis=1)[:, None]
        self.kernel = cast("NeuralModel", self.agent.model).kernel_on_twin(self.twin)

    @property
    def roll_in(self) -> Array:
        return self.agent.mixed(self.policies)

    @property
    def values(self) -> Array:
        return np.asarray(self.bound_values[0])


class GameOnTwin(OnTwin):
    """`OnTwin` for games."""

    agent: ContrastiveULCB

    @property
    def n_actions(self) -> tuple[int, int]:
        return self.agent.n_actions

    @property
    def bounds(self) -> Bounds:
        return Bounds(self._joint, self.bound_values[0], self.bound_values[1])

    @property
    def last(self) -> Profile:
        last = self.agent.last
        return Profile(*marginals(self._joint), last.certificate, last.number)

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


# Episodes: metrics of agents with observations but without a twin, and a criterion


def play(agent: Learner[Any], episodes: int = EPISODES) -> Array:
    """The returns (episodes,) of the planned policy in new episodes.

    They use a separate random stream and add no data, so that evaluations do not affect the run.
    Observations and rewards that are not finite raise an error.
    """
    env, random = agent.envs[0], agent.streams["evaluate"][0]
    assert isinstance(env, ObservedEnv)
    walk, returns = env.begin(episodes, random), np.zeros(episodes)
    for step in range(env.horizon):
        when = f"step {step} of an evaluation after round {agent.n_rounds}"
        check_observed(env.name, "observation", walk.observations, when)
        policy = agent.policy_at(step, walk.observations)
        rewards = walk.move(draw(policy, random.random(episodes)), random)
        check_observed(env.name, "reward", rewards, when)
        returns += rewards
    return returns


class StopRule:
    """Solved after STREAK evaluations in a row with all returns at or above `target`."""

    def __init__(self, target: float):
        self.target, self.streak, self.solved_at = target, 0, 0

    def note(self, returns: Array, round_number: int) -> None:
        passed = bool((returns >= self.target - ROUNDING).all())
        self.streak = self.streak + 1 if passed else 0
        if self.streak == STREAK and not self.solved_at:
            self.solved_at = round_number - STREAK + 1

    def state_dict(self) -> dict[str, Any]:
        return {"streak": self.streak, "solved_at": self.solved_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.streak, self.solved_at = state["streak"], state["solved_at"]


class ReturnTracker(Tracker[Any]):
    """Metrics if V* is not known; it is replaced by its upper bound H.

    `return`          mean return of 20 episodes, with rewards scaled to [0, 1]
    `gap`             H - `return`, an upper bound on the expected loss that need not go to 0
    `regret`          the sum of the gaps of all rounds
    `average_regret`  their mean, an upper bound on the average regret; summaries and reports use
                      this name for all MDPs
    """

    average = "average_regret"
    saved = ("total", "latest")

    def __init__(self, agent: Learner[Any]):
        self.horizon, self.solved_gap = agent.envs[0].horizon, None
        self.total, self.latest = np.zeros((2, 1))
        self.solved_at = np.zeros(1, dtype=np.int64)
        self.n_rounds = 0

    @property
    def always_measures(self) -> bool:
        return False

    def follow(self, roll_in: Array) -> None:
        self.n_rounds += 1

    def measure(self, agent: Learner[Any], error: bool) -> dict[str, Array]:
        gap = self.gap(agent)
        self.total = self.total + gap
        return {"gap": gap, self.average: self.total / self.n_rounds, **self.metrics(agent, gap)}

    def gap(self, agent: Learner[Any]) -> Array:
        self.latest = play(agent).mean(keepdims=True)
        return np.asarray(self.horizon - self.latest)

    def metrics(self, agent: Learner[Any], gap: Array) -> dict[str, Array]:
        return {"regret": self.total.copy(), "return": self.latest.copy()}

    def summary(self, seed: int) -> dict[str, Any]:
        return {"return": float(self.latest[seed])}
