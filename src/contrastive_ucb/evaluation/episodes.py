"""Whole episodes of an agent that sees observations: a stop rule, and accounts without a twin."""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.batch import draw
from contrastive_ucb.envs.observed import ObservedEnv, check_observed
from contrastive_ucb.evaluation.trackers import ROUNDING, STREAK, Tracker

EPISODES = 20  # of an evaluation


def play(agent: Learner[Any], episodes: int = EPISODES) -> Array:
    """The returns (episodes,) of the planned policy; no data comes of it.

    Its random numbers are of a stream of their own: whether and when somebody evaluates changes
    nothing in the run. A NaN stops it, as in the data: it would be an action or a gap otherwise.
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
    """Solved when so many evaluations in a row have no episode below `target`."""

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
    """The accounts where nobody knows V*: H, the most that rewards of 1 add up to, stands for it.

    `return`          mean of 20 episodes, of the rewards that the agent sees, in [0, 1]
    `gap`             H less that: on average at least the loss, and it need not go to 0
    `regret`          the sum of the gaps of all rounds
    `average_regret`  their mean, so no regret but what bounds it; it has the name of the figure
                      that summaries and reports look for in an MDP
    """

    average = "average_regret"
    kept = ("total", "latest")

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
        return {"gap": gap, self.average: self.total / self.n_rounds, **self.figures(agent, gap)}

    def gap(self, agent: Learner[Any]) -> Array:
        self.latest = play(agent).mean(keepdims=True)
        return np.asarray(self.horizon - self.latest)

    def figures(self, agent: Learner[Any], gap: Array) -> dict[str, Array]:
        return {"regret": self.total.copy(), "return": self.latest.copy()}

    def summary(self, seed: int) -> dict[str, Any]:
        return {"return": float(self.latest[seed])}
