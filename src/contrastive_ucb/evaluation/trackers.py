"""Metrics of a run, round by round: exact in finite environments, by episodes elsewhere.

| paper                    | here                  |                                          |
|--------------------------|-----------------------|------------------------------------------|
| V* - V^{pi^k}            | `gap` of an MDP       | in games see `game_tracker.py`           |
| V* - V^{pi^}             | `drawn_gap`           | of the drawn round (l.227)               |
| zeta_h^k, xi_h^k         | `zeta`, `xi`          | largest over h, under rho~ and rho-breve |
| V-bar_1 >= V* - ...      | `optimistic_fraction` | near-optimism, with the factor H of E5   |

`MDPTracker` and `GameTracker` measure agents on tables. An agent with observations is followed on
the finite twin of its environment (`OnTwin`); if there is no twin, `ReturnTracker` plays episodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.batch import EnvBatch, SeedState, draw
from contrastive_ucb.envs.kernel import Kernel, squared_distance
from contrastive_ucb.envs.observed import ObservedEnv, Twin, check_observed
from contrastive_ucb.planning.value_iteration import (
    occupancy,
    one_step_later,
    plan,
    policy_value,
    rolled_in,
)

STREAK = 5  # consecutive rounds within the limit that count as solved
ERROR_CELLS = 1_000_000  # table entries per seed up to which every round measures the model error
ROUNDING = 1e-9
EPISODES = 20  # per evaluation


def make_tracker(agent: Learner[Any]) -> tuple[Any, Tracker]:
    """What is measured, the agent or its projection on a finite twin, and the tracker for it."""
    env = agent.envs[0]
    kinds: tuple[type[OnTwin], type[Tracker]] = OnTwin, MDPTracker
    if agent.n_players == 2:
        from contrastive_ucb.evaluation.game_tracker import GameOnTwin, GameTracker

        kinds = GameOnTwin, GameTracker
    if not isinstance(env, ObservedEnv):
        return agent, kinds[1](agent)
    if (twin := env.twin()) is None:
        return agent, ReturnTracker(agent)
    tracked = kinds[0](agent, twin)
    return tracked, kinds[1](tracked)


class Tracker(SeedState, ABC):
    """Exact metrics of all seeds, which are a leading axis B.

    `follow` adds the data distribution of a round, `measure` returns the metrics of its policies.
    The argument `agent` is an agent of a finite environment, or `OnTwin` for one with observations.
    """

    average: str  # name of the metric that the theorem bounds
    saved: tuple[str, ...] = (
        "n_rounds",
        "rolled_in",
        "one_later",
        "total",
        "drawn_gap",
        "measured",
        "streak",
        "solved_at",
    )

    def __init__(self, agent: Any):
        batch = self.batch = agent.batch
        self.solved_gap: float | None = agent.envs[0].solved_gap
        self.solved_limit: Array | float = self.solved_gap or 0.0
        n_seeds, shape = batch.n_seeds, (batch.n_seeds, batch.horizon, batch.n_pairs)
        self.always_measures = batch.horizon * batch.n_pairs * batch.n_states <= ERROR_CELLS
        self.rolled_in, self.one_later = np.zeros((2, *shape))  # k rho~, k rho-breve
        self.total, self.measured = np.zeros((2, n_seeds))  # sum of gaps; rounds with zeta and xi
        self.drawn_gap = np.zeros(n_seeds)  # of the uniformly drawn round
        self.streak, self.solved_at = np.zeros((2, n_seeds), dtype=np.int64)  # 0: not solved
        self.n_rounds = 0

    @abstractmethod
    def evaluate(self, agent: Any, errors: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """The loss of the policies of this round against optimal play or Nash, and other metrics.

        errors  zeta and xi, if they were measured; all metrics are (B,)
        """

    @abstractmethod
    def summary(self, seed: int) -> dict[str, Any]:
        """The metrics of the run of one seed."""

    def follow(self, roll_in: Array) -> None:
        """Add the distribution of data collected with the policy `roll_in` (B, H, S, A)."""
        reached = occupancy(self.batch.kernel, roll_in, self.batch.initial)
        tilde = rolled_in(reached, self.batch.n_actions)
        self.rolled_in += tilde
        self.one_later += one_step_later(self.batch.kernel, tilde)
        self.n_rounds += 1

    def measure(self, agent: Any, error: bool) -> dict[str, Array]:
        """The metrics of the last round, each (B,).

        error  also zeta and xi, the error of the kernel under the data distribution of all rounds
        """
        errors = {}
        if agent.kernel is not None and (error or self.always_measures):
            distance = squared_distance(self.batch.kernel, agent.kernel)  # (B, H, Z)
            zeta = (self.rolled_in * distance).sum(-1) / self.n_rounds  # (B, H)
            xi = (self.one_later * distance).sum(-1) / self.n_rounds
            errors = {"zeta": zeta.max(-1), "zeta_first": zeta[:, 0], "xi": xi.max(-1)}
            self.measured += 1
        gap, metrics = self.evaluate(agent, errors)
        self.total += gap
        self.drawn_gap = np.where(agent.drawn.number == self.n_rounds, gap, self.drawn_gap)
        if self.solved_gap is not None:
            self.streak = np.where(gap <= self.solved_limit + ROUNDING, self.streak + 1, 0)
            first = (self.streak == STREAK) & (self.solved_at == 0)
            self.solved_at[first] = self.n_rounds - STREAK + 1
        return {"gap": gap, self.average: self.total / self.n_rounds, **errors, **metrics}

    def at_start(self, values: Array) -> Array:
        """V_1 from the initial distribution.   values (B, H, S) -> (B,)"""
        return np.asarray((values[:, 0] * self.batch.initial).sum(-1))


class MDPTracker(Tracker):
    """Regret of the policies of all rounds, and the fractions of optimistic rounds."""

    average = "average_regret"
    saved = (*Tracker.saved, "optimistic", "near_optimistic")

    def __init__(self, agent: Any):
        super().__init__(agent)
        _, values = plan(self.batch.kernel, self.batch.rewards)
        self.optimal = self.at_start(values)  # V*, (B,)
        self.solved_limit = (self.solved_gap or 0.0) * self.optimal
        self.optimistic, self.near_optimistic = np.zeros((2, self.batch.n_seeds))

    def evaluate(self, agent: Any, errors: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        earned = policy_value(self.batch.kernel, self.batch.rewards, agent.planned)
        gap, value = self.optimal - self.at_start(earned), self.at_start(agent.values)
        if errors:
            bias = self.batch.horizon * np.sqrt(self.batch.n_actions * errors["zeta_first"])
            self.optimistic += value >= self.optimal - ROUNDING
            self.near_optimistic += value >= self.optimal - bias - ROUNDING
        return gap, {"regret": self.total + gap, "optimistic_value": value}

    def summary(self, seed: int) -> dict[str, Any]:
        summary: dict[str, Any] = {"optimal_value": float(self.optimal[seed])}
        if measured := float(self.measured[seed]):
            summary["optimistic_fraction"] = float(self.near_optimistic[seed]) / measured
            summary["strictly_optimistic_fraction"] = float(self.optimistic[seed]) / measured
        if self.solved_gap is not None:
            summary["solved_at"] = int(self.solved_at[seed]) or None
        return summary


class OnTwin:
    """The policy, values and kernel of an agent at the states of a finite twin.

    planned       (1, H, S, A)    the policy, joint in a game
    bound_values  (n, 1, H, S)    V-upper, and in a game V-lower
    values        (1, H, S)       V-upper
    roll_in       (1, H, S, A)    the policy of the next round, with uniform actions mixed in
    drawn                         the drawn round of the agent
    kernel                        P^ on the twin; None if P^- has no density there

    `look` evaluates the agent again, after every round.
    """

    def __init__(self, agent: Any, twin: Twin):
        self.agent, self.twin = agent, twin
        self.batch, self.envs = EnvBatch([twin.env]), agent.envs
        self.look()

    def look(self) -> None:
        steps = [self.agent.judge(step, row) for step, row in enumerate(self.twin.observations)]
        self.planned: Array = np.stack([policy for policy, _ in steps])[None]
        self.bound_values: Array = np.stack([values for _, values in steps], axis=1)[:, None]
        self.values = self.bound_values[0]
        self.drawn = self.agent.drawn
        self.roll_in = self.agent.mixed(self.planned)
        self.kernel: Kernel | None = self.agent.model.kernel_on_twin(self.twin)


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


class ReturnTracker(Tracker):
    """Metrics if V* is not known; it is replaced by its upper bound H.

    `return`          mean return of 20 episodes, with rewards scaled to [0, 1]
    `raw_return`      the same in rewards of the environment, in the summary
    `gap`             H - `return`, an upper bound on the expected loss that need not go to 0
    `regret`          the sum of the gaps of all rounds
    `average_regret`  their mean, an upper bound on the average regret; summaries and reports use
                      this name for all MDPs
    """

    average = "average_regret"
    saved = ("n_rounds", "total", "drawn_gap", "latest")
    returns: Array  # (20,) of the last round

    def __init__(self, agent: Learner[Any]):
        self.env = agent.envs[0]
        self.horizon, self.solved_gap, self.always_measures = self.env.horizon, None, False
        self.total, self.drawn_gap, self.latest = np.zeros((3, 1))
        self.solved_at = np.zeros(1, dtype=np.int64)
        self.n_rounds = 0

    def follow(self, roll_in: Array) -> None:
        self.n_rounds += 1

    def measure(self, agent: Learner[Any], error: bool) -> dict[str, Array]:
        return super().measure(agent, error=False)  # there is no true kernel

    def evaluate(
        self, agent: Learner[Any], errors: dict[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        self.returns = play(agent)
        self.latest = self.returns.mean(keepdims=True)
        gap = self.horizon - self.latest
        return gap, {"regret": self.total + gap, "return": self.latest.copy()}

    def summary(self, seed: int) -> dict[str, Any]:
        raw = self.env.raw_returns(self.latest)
        return {"return": float(self.latest[seed]), "raw_return": float(raw[seed])}
