"""Contrastive UCB and ULCB on observations: runs, seeds, saving, predictions and bad input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents.neural_play import (
    QUICK,
    lock_agent,
    model,
    planned_values,
    policies,
    vault_agent,
)

import contrastive_ucb as cu
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.planning.matrix_game import deviation_gain


def test_a_rich_lock_is_solved() -> None:
    agent = ContrastiveUCB(RichLock(3, 3, seed=0), seed=0, n_draws=128, fit_steps=100)
    result = agent.learn(30, progress=False)
    assert result.summary[0]["solved_at"] is not None
    assert agent.n_rounds < 30
    assert result.summary[0]["return"] == 1
    assert result.summary[0]["trajectories"] == agent.n_rounds * 3 * 50
    assert result.gap[-1] < 0.1
    with pytest.raises(ValueError, match="solved, so there is nothing left"):
        agent.learn(1)


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
@pytest.mark.parametrize("changes", [{}, {"warm_start": "on"}, {"sampler": "paper"}])
def test_a_saved_and_loaded_run_equals_an_uninterrupted_run(
    make: Any, changes: dict[str, Any], tmp_path: Path
) -> None:
    whole, first = make(**changes), make(**changes)
    whole.learn(4, progress=False)
    first.learn(2, progress=False)
    first.save(tmp_path / "agent")
    again: Any = cu.load(tmp_path / "agent")
    assert again.config == first.config
    result = again.learn(2, progress=False)
    np.testing.assert_array_equal(policies(whole), policies(again))
    assert whole.session.summary(0) == result.summary[0]


def test_the_joint_policy_at_an_observation_is_a_cce_there() -> None:
    agent = vault_agent()
    for _ in range(2):
        agent.round()
    seen = model(agent).states[1]
    upper, lower = model(agent).kept["last"].bounds(1, seen, agent.envs[0].rewards)
    joint = agent.policy_at(1, seen).reshape(-1, 2, 2)
    gaps = deviation_gain(joint, upper.reshape(-1, 2, 2), lower.reshape(-1, 2, 2))
    assert gaps.max() <= agent.config.iota / np.sqrt(2) + 1e-9  # of the round that was planned
    np.testing.assert_allclose(joint, agent.bounds.joint[0, 1], atol=1e-4)


def test_predict_counts_steps() -> None:
    agent = lock_agent()
    agent.round()
    seen = np.random.default_rng(0).standard_normal((5, agent.envs[0].size))
    state = None
    for step in range(3):
        actions, state = agent.predict(seen, state)
        np.testing.assert_array_equal(actions, agent.policy_at(step, seen).argmax(-1))
        assert state == step + 1
    with pytest.raises(ValueError, match="step 3 is out of range"):
        agent.predict(seen, state)
    with pytest.raises(ValueError, match="has 8 numbers"):
        agent.predict(seen[:, :4])
    with pytest.raises(ValueError, match="NaN"):
        agent.predict(np.full(8, np.nan))
    game = vault_agent()
    game.round()
    with pytest.raises(ValueError, match=r"agent\.policies has no table.*agent\.policy_at"):
        _ = game.policies
    (row, column), state = game.predict(seen[0])
    assert row.shape == column.shape == ()
    assert state == 1


def test_a_finite_mdp_with_one_hot_observations_is_evaluated_exactly() -> None:
    mdp = LowRankMDP(4, 2, 2, 3, seed=0)
    agent = ContrastiveUCB(
        mdp, representation="neural", density="uniform", trajectories=100, n_draws=8, fit_steps=150
    )
    result = agent.learn(3, progress=False)
    assert result.summary[0]["optimal_value"] == pytest.approx(cu.optimal_value(mdp))
    # Without training zeta is above 1, the gap .5, and V-bar below V* in every round.
    assert result.zeta[-1] < 0.05
    assert result.gap[-1] < 0.01
    assert result.summary[0]["strictly_optimistic_fraction"] == 1


def test_the_drawn_policy_of_a_neural_agent_is_that_of_its_round() -> None:
    mdp = LowRankMDP(4, 2, 2, 3, seed=0)
    agent = ContrastiveUCB(
        mdp, representation="neural", seed=3, density="uniform", **{**QUICK, "fit_steps": 3}
    )
    seen, policies = np.eye(4), []
    result = agent.learn(
        4, progress=False, callback=lambda _: policies.append(agent.policy_at(1, seen))
    )
    number = int(agent.drawn.number[0])
    assert number < 4  # with this seed, so that it is not the last round
    np.testing.assert_array_equal(agent.policy_at(1, seen, "drawn"), policies[number - 1])
    assert result.summary[0]["drawn_gap"] == result.gap[number - 1]


def test_training_learns_a_continuous_mdp_and_the_bonus_makes_it_optimistic() -> None:
    """Compared with the same agent without training, and without a bonus."""
    trained, untrained, plain = (
        ContrastiveUCB(ContinuousMDP(seed=0), seed=0, trajectories=100, **changes).learn(
            6, progress=False
        )
        for changes in ({}, {"learning_rate": 1e-9}, {"algo": "no-bonus"})
    )
    assert trained.zeta[-1] < 0.6 * untrained.zeta[-1]
    assert trained.summary[0]["strictly_optimistic_fraction"] == 1
    assert plain.summary[0]["strictly_optimistic_fraction"] < 1


def test_a_gymnasium_environment_is_evaluated_by_its_returns() -> None:
    result = ContrastiveUCB(cart_pole(), seed=0, **QUICK).learn(1, progress=False)
    again, env = ContrastiveUCB(cart_pole(), seed=0, **QUICK), cart_pole()
    again.round()
    random, state, returns = again.streams["evaluate"][0], None, np.zeros(20)
    walk = env.begin(20, random)
    for _ in range(15):
        actions, state = again.predict(walk.observations, state)
        random.random(20)  # what a mixed policy would be drawn with
        returns += walk.move(actions, random)
    assert 5 < returns.mean() < 15
    assert result.summary[0]["return"] == pytest.approx(returns.mean())
    assert result.summary[0]["final_gap"] == pytest.approx(15 - returns.mean())
    assert "zeta" not in result.figures


def cart_pole() -> GymObserved:
    return GymObserved("CartPole-v1", horizon=15)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": 5},
        {"phi_head": "softplus", "psi_head": "softplus"},
        {"density": "gaussian"},
        {"standardise": "on"},
        {"sampler": "paper"},
        {"final_rate": 1.0},
        {"weight_decay": 5.0},
        {"covariance": "averaged"},
        {"warm_start": "on"},
        {"clip": "off", "alpha": 1.0},  # a bonus that Q is clipped with
    ],
    ids=str,
)
def test_every_switch_runs_and_changes_what_is_planned(changes: dict[str, Any]) -> None:
    agent, plain = lock_agent(**changes), lock_agent(alpha=changes.get("alpha"))
    for one in (agent, plain):
        one.learn(2, progress=False)
    assert np.isfinite(planned_values(agent)).all()
    assert not np.allclose(planned_values(agent), planned_values(plain), atol=1e-3)


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        (RichLock(3, 2), {"representation": "tabular"}, "needs a finite environment"),
        (RichLock(3, 2), {"algo": "rep-ucb"}, "features = 'likelihood' needs tables"),
        (RichLock(3, 2), {"sweeps": 50}, "sweeps = 50 needs tables; observations take"),
        (RichLock(3, 2), {"density": "uniform"}, "needs bounds"),
        (RichLock(3, 2), {"harmonics": 2}, "needs bounds"),
        (RichLock(3, 2), {"reward": "known", **QUICK}, "are not known; use"),
        (RichLock(3, 2), {"learning_rate": 0.0}, "learning_rate must be positive"),
        (RichLock(3, 2), {"final_rate": 1.5}, r"final_rate must be in \[0, 1\], got 1.5"),
        (RichLock(3, 2), {"negative_distribution": np.ones(3) / 3}, "is for tables"),
        ([RichLock(3, 2)] * 2, {"seed": [0, 1]}, "one seed at a time"),
        (RichLockGame(3, 2), {}, "two-player game"),
        (LowRankMDP(3, 2, 2, 2), {"trajectories": 5}, "trajectories = 5 is for networks"),
        (LowRankMDP(3, 2, 2, 2), {"uniform_share": 0.2}, "uniform_share = 0.2 is for networks"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(env: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContrastiveUCB(env, **settings).round()
