"""Episodes of an evaluation: a NaN in them stops the run and names environment, step and round."""

from typing import Any

import numpy as np
import pytest
from agents.neural_play import QUICK, lock_agent, vault_agent

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.envs.finite_twin import EmissionWalk
from contrastive_ucb.envs.gym_observed import GymObserved, GymWalk
from contrastive_ucb.evaluation.episodes import EPISODES, play


def break_evaluations(patch: pytest.MonkeyPatch, walk: Any, what: str, at: int) -> None:
    """What is shown or paid at a step of the 20 episodes, and there alone, is no number."""
    move = walk.move

    def broken(self: Any, actions: Any, random: Any) -> Any:
        rewards = move(self, actions, random)
        self.moved = getattr(self, "moved", 0) + 1
        if len(actions) != EPISODES or self.moved != at:
            return rewards
        if what == "observation":
            self.observations = np.where(np.arange(EPISODES)[:, None] == 3, np.nan, 1.0) * (
                self.observations
            )
            return rewards
        return np.where(np.arange(EPISODES) == 3, np.nan, rewards)

    patch.setattr(walk, "move", broken)


@pytest.mark.parametrize(("what", "step"), [("observation", 2), ("reward", 1)])
def test_a_nan_in_an_evaluation_was_action_0(
    what: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = lock_agent()
    agent.learn(2, progress=False)
    break_evaluations(monkeypatch, EmissionWalk, what, at=2)
    message = rf"rich-lock gave a NaN.*'{what}' at step {step} of an evaluation after round 3"
    with pytest.raises(ArithmeticError, match=message):
        agent.learn(1, progress=False)


@pytest.mark.parametrize("what", ["observation", "reward"])
def test_a_nan_return_of_a_gymnasium_environment_was_a_gap(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ContrastiveUCB(GymObserved("CartPole-v1", horizon=4), seed=0, **QUICK)
    break_evaluations(monkeypatch, GymWalk, what, at=2)
    with pytest.raises(ArithmeticError, match=rf"gym/CartPole-v1 gave a NaN.*'{what}'.*round 1"):
        agent.learn(1, progress=False)


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
def test_a_nan_seen_while_rolling_in_names_the_environment(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the Q that comes of it."""
    agent, move = make(), EmissionWalk.move
    agent.round()

    def broken(self: Any, actions: Any, random: Any) -> Any:
        rewards = move(self, actions, random)
        self.observations = np.full_like(self.observations, np.inf)
        return rewards

    monkeypatch.setattr(EmissionWalk, "move", broken)
    with pytest.raises(ArithmeticError, match=r"rich-lock.* gave a NaN.*'observation'.*round 2"):
        agent.round()


def test_a_policy_whose_values_are_no_numbers_does_not_choose() -> None:
    """The largest of NaNs was action 0."""
    agent = lock_agent()
    agent.round()
    with pytest.raises(ArithmeticError, match=r"Q-bar has a NaN.*step 1 of round 1"):
        agent.policy_at(1, np.full((2, agent.envs[0].size), np.nan))


def test_evaluations_change_nothing_in_the_run() -> None:
    one, other = lock_agent(), lock_agent()
    for agent in (one, other):
        agent.round()
    assert play(one).shape == (EPISODES,)
    for agent in (one, other):
        agent.round()
    np.testing.assert_array_equal(one.bonus, other.bonus)
