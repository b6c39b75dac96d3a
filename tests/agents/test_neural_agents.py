"""Contrastive UCB and ULCB on observations: runs, seeds, saving, predictions and bad input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import contrastive_ucb as cu
from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.observed_world import ObservedWorld
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.evaluation.agreement import errors_of_both
from contrastive_ucb.planning.matrix_game import deviation_gain
from contrastive_ucb.representation import neural_fit

QUICK: dict[str, Any] = {
    "trajectories": 4,
    "fit_steps": 5,
    "batch_size": 16,
    "n_negatives": 16,
    "n_draws": 12,
}


def lock_agent(seed: int = 0, **changes: Any) -> ContrastiveUCB:
    return ContrastiveUCB(RichLock(3, 2, seed=1), seed=seed, **{**QUICK, **changes})


def vault_agent(seed: int = 0, **changes: Any) -> ContrastiveULCB:
    return ContrastiveULCB(RichLockGame(3, 2, seed=1), seed=seed, **{**QUICK, **changes})


def world(agent: Any) -> ObservedWorld:
    assert isinstance(agent.world, ObservedWorld)
    return agent.world


def policies(agent: Any) -> np.ndarray:
    seen = np.random.default_rng(0).standard_normal((9, agent.envs[0].size))
    return np.stack([agent.policy_at(step, seen) for step in range(agent.envs[0].horizon)])


def test_a_rich_lock_is_opened() -> None:
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
def test_same_seed_same_run_other_seed_other_run(make: Any) -> None:
    one, same, other = make(), make(), make(seed=1)
    for agent in (one, same, other):
        for _ in range(3):
            agent.round()
    np.testing.assert_array_equal(policies(one), policies(same))
    np.testing.assert_array_equal(one.bonus, same.bonus)
    assert (world(one).data.following != world(other).data.following).any()


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
@pytest.mark.parametrize("changes", [{}, {"warm_start": "on"}, {"sampler": "paper"}])
def test_saved_and_loaded_equals_undisturbed(
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


def test_what_was_kept_of_a_round_are_weights() -> None:
    agent = vault_agent()
    for _ in range(3):
        agent.round()
    kept = world(agent).kept
    assert set(kept) == {"last", "best", "drawn"}
    assert agent.best.row.shape == (1, 3, 0, 2)  # no tables
    before = policies(agent)
    best = agent.policy_at(1, np.ones((2, agent.envs[0].size)), "best")
    np.testing.assert_allclose(best.sum(-1), 1)
    np.testing.assert_array_equal(policies(agent), before)


def test_the_joint_policy_at_an_observation_is_a_cce_there() -> None:
    agent = vault_agent()
    for _ in range(2):
        agent.round()
    seen = world(agent).states[1]
    upper, lower = world(agent).bounds("last", 1, seen) or []
    joint = agent.policy_at(1, seen).reshape(-1, 2, 2)
    gaps = deviation_gain(joint, upper.reshape(-1, 2, 2), lower.reshape(-1, 2, 2))
    assert gaps.max() <= agent.config.iota / np.sqrt(3) + 1e-9
    np.testing.assert_allclose(joint, agent.bounds.joint[0, 1], atol=1e-4)


def test_policies_of_observations_count_their_steps() -> None:
    agent = lock_agent()
    agent.round()
    seen = np.random.default_rng(0).standard_normal((5, agent.envs[0].size))
    state = None
    for step in range(3):
        actions, state = agent.predict(seen, state)
        np.testing.assert_array_equal(actions, agent.policy_at(step, seen).argmax(-1))
        assert state == step + 1
    with pytest.raises(ValueError, match="step 3 has no action"):
        agent.predict(seen, state)
    with pytest.raises(ValueError, match="has 8 numbers"):
        agent.predict(seen[:, :4])
    with pytest.raises(ValueError, match="NaN"):
        agent.predict(np.full(8, np.nan))
    game = vault_agent()
    game.round()
    (row, column), state = game.predict(seen[0])
    assert row.shape == column.shape == ()
    assert state == 1


def test_the_first_round_rolls_in_uniformly() -> None:
    np.testing.assert_allclose(lock_agent().acts(1, np.zeros((3, 8))), 0.5)


def test_a_finite_mdp_given_as_vectors_is_measured_exactly() -> None:
    mdp = LowRankMDP(4, 2, 2, 3, seed=0)
    agent = ContrastiveUCB(
        mdp, representation="neural", density="uniform", trajectories=100, n_draws=8, fit_steps=150
    )
    result = agent.learn(3, progress=False)
    assert result.summary[0]["optimal_value"] == pytest.approx(cu.optimal_value(mdp))
    assert result.zeta[-1] < 0.2
    assert result.summary[0]["optimistic_fraction"] == 1


def test_networks_come_near_the_tables_at_the_same_data() -> None:
    mdp = LowRankMDP(6, 2, 2, 3, seed=1)
    tabular, neural = errors_of_both(mdp, rounds=100, seed=1, fit_steps=300)
    assert neural <= 2 * tabular


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["shared", "paper"])
@pytest.mark.parametrize("seed", range(5))
def test_zeta_of_networks_is_within_twice_that_of_tables(seed: int, sampler: Any) -> None:
    """Must be true, with the same transitions and, for the paper's sampler, the same labels."""
    mdp = LowRankMDP(6, 2, 2, 3, seed=seed)
    tabular, neural = errors_of_both(mdp, rounds=1000, seed=seed, sampler=sampler)
    assert neural <= 2 * tabular


def test_a_continuous_mdp_is_learnt_with_optimism() -> None:
    result = ContrastiveUCB(ContinuousMDP(seed=0), seed=0).learn(15, progress=False)
    assert result.summary[0]["strictly_optimistic_fraction"] == 1
    assert result.zeta[-1] < result.zeta.max()
    assert result.gap[-1] < 0.1


def test_a_gymnasium_environment_is_learnt_from_its_returns() -> None:
    env = GymObserved("CartPole-v1", horizon=5)
    result = ContrastiveUCB(env, seed=0, **QUICK).learn(2, progress=False)
    assert result.summary[0]["return"] == pytest.approx(5 - result.summary[0]["final_gap"])
    assert "zeta" not in result.figures


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": 5},
        {"phi_head": "softplus", "psi_head": "softplus"},
        {"density": "gaussian"},
        {"standardise": "on"},
        {"covariance": "averaged"},
        {"reward": "learnt", "clip": "off"},
    ],
    ids=str,
)
def test_every_switch_runs(changes: dict[str, Any]) -> None:
    agent = lock_agent(**changes)
    agent.learn(2, progress=False)
    assert np.isfinite(policies(agent)).all()


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        (RichLock(3, 2), {"representation": "tabular"}, "no table holds"),
        (RichLock(3, 2), {"algo": "rep-ucb"}, "features = 'likelihood' needs tables"),
        (RichLock(3, 2), {"negatives": "exact"}, "negatives = 'exact' needs tables"),
        (RichLock(3, 2), {"schedule": "theory"}, "schedule = 'theory' needs tables"),
        (RichLock(3, 2), {"density": "uniform"}, "needs bounds"),
        (RichLock(3, 2), {"harmonics": 2}, "needs bounds"),
        (RichLock(3, 2), {"reward": "known", **QUICK}, "does not tell its rewards"),
        (RichLock(3, 2), {"trajectories": 0}, "trajectories must be at least 1"),
        (RichLock(3, 2), {"learning_rate": 0.0}, "learning_rate must be positive"),
        (RichLock(3, 2), {"density": "flat"}, "density must be one of"),
        (RichLock(3, 2), {"negative_distribution": np.ones(3) / 3}, "is for tables"),
        ([RichLock(3, 2)] * 2, {"seed": [0, 1]}, "one seed at a time"),
        (RichLockGame(3, 2), {}, "game of two players"),
        (LowRankMDP(3, 2, 2, 2), {"trajectories": 5}, "trajectories = 5 is for networks"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(env: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContrastiveUCB(env, **settings).round()


def test_a_game_is_not_for_contrastive_ucb_and_back() -> None:
    with pytest.raises(ValueError, match="zero-sum game"):
        ContrastiveULCB(RichLock(3, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no tables"):
        lock_agent().batch  # noqa: B018
    assert ContrastiveULCB(LowRankGame(3, 2, 2, 2), representation="neural", **QUICK).n_rounds == 0


def test_a_nan_in_the_weights_stops_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = lock_agent()
    agent.learn(1, progress=False)
    before = policies(agent)

    def broken(*parts: torch.Tensor) -> Any:
        return tuple(torch.full_like(part, float("nan")) for part in parts)

    monkeypatch.setattr(neural_fit, "shared_slopes", broken)
    with pytest.raises(ArithmeticError, match=r"weights 'phi'.*round 2"):
        agent.learn(1, progress=False)
    np.testing.assert_array_equal(policies(agent), before)  # the last good policy still acts


def test_covariance_and_reward_are_those_of_plain_loops() -> None:
    """Sigma has the bonus data alone, the regression of rewards all data; rows unused count not."""
    agent = lock_agent(covariance="averaged")
    for _ in range(3):
        agent.round()
    own, data = world(agent), world(agent).data
    assert own.fitted is not None
    assert data.n[0] < data.action.shape[1]
    for step in range(3):
        sigma, gram, moment = np.zeros((8, 8)), 0.1 * np.eye(8), np.zeros(8)
        for row in range(data.n[step]):
            seen = data.observation[step, row][None, None]
            phi = own.fitted.at(step).features(seen)[0, 0, data.action[step, row]]
            sigma += data.rolled_in[step, row] * np.outer(phi, phi)
            gram += np.outer(phi, phi)
            moment += phi * data.reward[step, row]
        sigma = sigma / (3 * 4) + np.eye(8)  # E1: the average over tau, of 4 trajectories a round
        found = own.uncertainty
        assert found.reward is not None
        np.testing.assert_allclose(found.chol[step] @ found.chol[step].T, sigma, rtol=1e-5)
        np.testing.assert_allclose(found.reward[step], np.linalg.solve(gram, moment), rtol=1e-4)


def test_warm_starts_go_on_with_smaller_steps() -> None:
    cold, warm = lock_agent(), lock_agent(warm_start="on")
    for agent in (cold, warm):
        for _ in range(4):
            agent.round()
    start, recipe = world(warm)._start(16)
    assert world(warm).fitted is not None
    assert start is world(warm).fitted.weights  # type: ignore[union-attr]
    assert recipe.learning_rate == world(warm).recipe.learning_rate / 4
    start, recipe = world(cold)._start(16)
    assert start is not world(cold).fitted.weights  # type: ignore[union-attr]
    assert recipe.learning_rate == world(cold).recipe.learning_rate


def test_a_foreseen_reward_is_read_by_psi_alone() -> None:
    agent = lock_agent(foresee_reward="on")
    agent.round()
    data = world(agent).data
    np.testing.assert_allclose(data.following[..., -1], 5 * data.reward, rtol=1e-6)
    assert data.observation.shape[-1] == agent.envs[0].size
    assert world(agent).states.shape[-1] == agent.envs[0].size
    with pytest.raises(ValueError, match="foresee_reward goes with density"):
        lock_agent(foresee_reward="on", density="gaussian")
