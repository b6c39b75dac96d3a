"""agent.learn, save and load: what a person does at a prompt."""

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import contrastive_ucb as cu
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.runtime import STOPS


def small(seed: int = 0) -> cu.LowRankMDP:
    return cu.LowRankMDP(n_states=5, n_actions=2, rank=2, horizon=3, seed=seed)


def test_result_has_the_figures_of_the_last_round() -> None:
    env = small()
    agent = cu.ContrastiveUCB(env, seed=0)
    result = agent.learn(rounds=30, progress=False)
    assert result.rounds[-1] == 30
    assert result.gap[-1] == pytest.approx(cu.suboptimality(env, agent.policy), abs=1e-12)
    assert result.average_regret[-1] == pytest.approx(result.regret[-1] / 30)
    assert result.summary[0]["final_gap"] == result.gap[-1]
    assert len(result.plot().axes) == 2
    assert repr(result).startswith("Result(30 rounds, 1 seed: ")
    assert repr(env) == "LowRankMDP(n_states=5, n_actions=2, horizon=3, rank=2)"


def test_a_run_without_a_model_error_was_not_drawn() -> None:
    """One panel is no row of panels in matplotlib: the plot was a TypeError."""
    quick = {"trajectories": 4, "fit_steps": 5, "n_draws": 12}
    for env in (cu.RichLock(2, 2), cu.GymObserved("CartPole-v1", horizon=2)):
        result = cu.ContrastiveUCB(env, seed=0, **quick).learn(rounds=2, progress=False)
        assert "zeta" not in result.figures
        [panel] = result.plot().axes
        assert panel.get_ylabel() == "average regret"
        assert len(panel.lines) == 1


def test_several_seeds_have_a_column_each() -> None:
    agent = cu.ContrastiveUCB([small(1), small(2)], seed=np.arange(1, 3))
    result = agent.learn(rounds=12, progress=False)
    assert result.zeta.shape == (len(result.rounds), 2)
    alone = cu.ContrastiveUCB(small(2), seed=np.int64(2)).learn(rounds=12, progress=False)
    np.testing.assert_array_equal(result.regret[:, 1], alone.regret)


def test_rounds_for_epsilon_is_the_round_from_which_the_average_stays_below() -> None:
    seeds = [1, 2]
    agent = cu.ContrastiveUCB([small(seed) for seed in seeds], seed=seeds)
    result = agent.learn(rounds=40, progress=False)
    for at in range(2):
        average = result.average_regret[:, at]
        epsilon = (average[-1] + average.max()) / 2
        reached = result.rounds_for(epsilon)[at]
        after = result.rounds >= reached
        assert (average[after] <= epsilon).all()
        assert reached == 1 or average[~after][-1] > epsilon
    assert np.isnan(result.rounds_for(result.average_regret[-1].min() / 2)).all()
    with pytest.raises(UserError, match="epsilon must be positive and finite, got 0"):
        result.rounds_for(0)
    game = cu.ContrastiveULCB(cu.LowRankGame(3, 2, 2, 2), seed=0).learn(5, progress=False)
    assert game.rounds_for(game.average_gap.max()).tolist() == [1]


def test_learning_twice_equals_learning_once() -> None:
    once = cu.ContrastiveUCB(small(), seed=3).learn(rounds=40, progress=False)
    agent = cu.ContrastiveUCB(small(), seed=3)
    agent.learn(rounds=15, progress=False)
    twice = agent.learn(rounds=25, progress=False)
    assert twice.regret[-1] == once.regret[-1]


def test_rounds_outside_of_learn_are_not_passed_over() -> None:
    agent = cu.ContrastiveUCB(small(), seed=0)
    agent.round()
    with pytest.raises(ValueError, match="1 rounds and 0 of them were measured"):
        agent.learn(rounds=5, progress=False)


def test_saved_agent_goes_on_bit_for_bit(tmp_path: Path) -> None:
    agent = cu.ContrastiveUCB(cu.Lock(3, 3, 4, seed=1), seed=1, negatives="exact")
    agent.learn(rounds=20, progress=False)
    agent.save(tmp_path)
    again = cu.load(tmp_path)
    np.testing.assert_array_equal(again.values, agent.values)
    np.testing.assert_array_equal(again.policy, agent.policy)
    one, other = (a.learn(rounds=20, progress=False) for a in (agent, again))
    np.testing.assert_array_equal(one.regret, other.regret)
    np.testing.assert_array_equal(one.zeta, other.zeta)
    assert one.summaries == other.summaries


def test_the_last_save_wins(tmp_path: Path) -> None:
    first, second = (cu.ContrastiveUCB(small(seed), seed=seed) for seed in (1, 2))
    first.learn(rounds=9, progress=False)
    second.learn(rounds=4, progress=False)
    first.save(tmp_path)
    second.save(tmp_path)
    assert (cu.load(tmp_path).seeds, cu.load(tmp_path).n_rounds) == ([2], 4)


def test_a_saved_agent_of_an_earlier_version_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state has no drawn policy, and loading it was a KeyError."""
    saved = tuple(name for name in cu.ContrastiveUCB.saved if name != "drawn")
    with monkeypatch.context() as earlier:
        earlier.setattr(cu.ContrastiveUCB, "saved", saved)
        cu.ContrastiveUCB(small(), seed=0).save(tmp_path)
    with pytest.raises(UserError, match=r"does not fit this version .*train the agent again"):
        cu.load(tmp_path)


def test_nothing_saved_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no saved agent"):
        cu.load(tmp_path)


def test_gymnasium_environment_is_taken_out_of_its_wrappers() -> None:
    env = gymnasium.make("contrastive_ucb/Lock-v0", horizon=2, n_actions=2)
    cu.ContrastiveUCB(env, seed=0).learn(rounds=2, progress=False)
    agent = cu.ContrastiveUCB("contrastive_ucb/Lock-v0", env_kwargs={"horizon": 2}, seed=0)
    assert isinstance(agent.envs[0], cu.Lock)
    with pytest.raises(UserError, match="ndarray is not an environment"):
        cu.ContrastiveUCB([np.zeros(3)], seed=[0])


@pytest.mark.parametrize("wrong", [1.5, -1, "0", True, None])
def test_seed_must_be_a_whole_number(wrong: object) -> None:
    with pytest.raises(ValueError, match="seed must be"):
        cu.ContrastiveUCB(small(), seed=wrong)


def test_memory_does_not_grow_with_the_rounds() -> None:
    def size(state: object) -> int:
        if isinstance(state, dict):
            return sum(size(value) for value in state.values())
        return state.nbytes if isinstance(state, np.ndarray) else 0

    agent = cu.ContrastiveUCB(small(), seed=0)
    agent.learn(rounds=10, progress=False)
    early = size(agent.session.state_of(0))
    agent.learn(rounds=300, progress=False)
    assert size(agent.session.state_of(0)) == early > 0


def test_a_round_that_fails_is_not_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ArithmeticError("a NaN in round 3")

    agent, other = (cu.ContrastiveUCB(cu.RichLock(3, 3), seed=0, trajectories=5) for _ in range(2))
    agent.learn(rounds=2, progress=False)
    with monkeypatch.context() as patched:
        patched.setattr(agent.model, "fit", broken)
        with pytest.raises(ArithmeticError, match="round 3"):
            agent.learn(rounds=1, progress=False)
    gaps = agent.learn(rounds=2, progress=False).gap
    other.learn(rounds=2, progress=False)
    assert gaps.tolist() == other.learn(rounds=2, progress=False).gap.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: cu.ContrastiveUCB(cu.LowRankMDP(4, 2, 2, 2), seed=0),
        lambda: cu.ContrastiveULCB(cu.LowRankGame(4, 2, 2, 2), seed=0),
    ],
    ids=["mdp", "game"],
)
@pytest.mark.parametrize("number", STOPS)
def test_learning_goes_on_after_a_signal(
    make: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, whole = make(), make()
    fit = agent.model.fit

    def interrupted_fit() -> Any:
        if agent.n_rounds == 6:  # in the middle of round 7
            os.kill(os.getpid(), number)
        return fit()

    monkeypatch.setattr(agent.model, "fit", interrupted_fit)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(50, progress=False)
    assert agent.n_rounds == 7
    monkeypatch.setattr(agent.model, "fit", fit)
    again = agent.learn(13, progress=False)
    expected = whole.learn(20, progress=False)
    np.testing.assert_array_equal(again.gap[-1], expected.gap[-1])
    assert again.summaries == expected.summaries
