"""Environments with observations: kernels, emissions and finite twins."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard as scipy_hadamard

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.finite_twin import duplicate_states, one_hot
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.evaluation.exact import nash_value, optimal_value, suboptimality
from contrastive_ucb.planning.value_iteration import plan

# Finite environments with sampled observations


@pytest.mark.parametrize("n_states", [3, 5, 600])
def test_uniform_distribution_of_one_hot_observations(n_states: int) -> None:
    env = one_hot(LowRankMDP(n_states, 2, 2, 2))
    assert env.suggested["density"] == "uniform"
    nodes = env.uniform_nodes(env.suggested["n_draws"])
    assert nodes is not None
    assert len(nodes) >= 512
    np.testing.assert_array_equal(nodes.sum(0), len(nodes) / n_states)
    assert env.uniform_nodes(len(nodes) + 1) is None
    drawn = env.uniform(2000, stream(0, "test"))
    np.testing.assert_array_equal(np.sort(drawn, axis=1)[:, -2:], [[0, 1]] * 2000)
    assert abs(drawn.mean(0) - 1 / n_states).max() < 0.05


@pytest.mark.parametrize("base", [LowRankMDP(4, 2, 2, 3), LowRankGame(4, (2, 3), 2, 3)])
def test_duplicated_states_have_the_same_values(base: LowRankMDP | LowRankGame) -> None:
    duplicated = duplicate_states(base, 3)
    _, expected = plan(base.kernel, base.rewards.reshape(3, 4, -1))
    _, values = plan(duplicated.kernel, duplicated.rewards.reshape(3, 12, -1))
    np.testing.assert_allclose(values, expected.repeat(3, axis=-1), atol=1e-12)
    np.testing.assert_allclose(duplicated.kernel.table().sum(-1), 1, atol=1e-12)


# RichLock


def test_rich_observations_are_rotated_latents_with_noise() -> None:
    lock = RichLock(horizon=5, seed=1)
    states = np.repeat([0, 1, 2], 4000)
    latents = lock.emit(3, states, stream(0, "test")) @ np.linalg.inv(scipy_hadamard(16))
    for state in range(3):
        mean = np.zeros(16)
        mean[[state, 3 + 3]] = 1
        np.testing.assert_allclose(latents[states == state].mean(0), mean, atol=0.01)
    deviation = latents[states == 2].std(0)
    np.testing.assert_allclose(deviation[:8], 0.1, rtol=0.1)
    np.testing.assert_allclose(deviation[8:], 0, atol=1e-12)


def test_twins_of_rich_locks_have_the_values_of_the_locks() -> None:
    lock = RichLock(horizon=4, n_actions=3).twin()
    assert lock.observations.shape == (4, 48, 8)
    assert optimal_value(lock.env) == pytest.approx(1.0)
    assert nash_value(RichLockGame(horizon=3).twin().env) == pytest.approx(0.5, abs=1e-6)


# ContinuousMDP


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(1, 3), st.integers(0, 9))
def test_continuous_mdps_satisfy_the_assumption(
    rank: int, n_actions: int, horizon: int, seed: int
) -> None:
    amplitude = min(1.0, rank**0.5 - 1) * 0.9
    mdp = ContinuousMDP(n_actions, rank, horizon, amplitude, seed)
    kernel = mdp.twin().env.kernel
    assert kernel.measures is not None
    np.testing.assert_allclose(kernel.table().sum(-1), 1, atol=1e-12)
    assert np.linalg.norm(kernel.features, axis=-1).max() <= 1 / (1 + amplitude) + 1e-12
    assert kernel.measures.min() >= 0
    assert (kernel.measures * mdp.nodes).max() <= 1 + amplitude + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_quadrature_error_of_the_twin(seed: int) -> None:
    """Against 16 times more nodes, for V* and for a policy that changes its action often."""
    optimal, gaps = [], []
    for nodes in (1024, 16384):
        twin = ContinuousMDP(seed=seed, nodes=nodes).twin()
        assert isinstance(twin.env, TabularMDP)
        optimal.append(optimal_value(twin.env))
        policy = np.floor(7.3 * twin.observations[..., 0]).astype(int) % 3
        gaps.append(suboptimality(twin.env, policy))
    assert optimal[0] == pytest.approx(optimal[1], abs=1e-6)
    assert gaps[0] == pytest.approx(gaps[1], abs=4e-4)


def test_trajectories_follow_the_kernel() -> None:
    mdp, random = ContinuousMDP(seed=4), stream(1, "test")
    walk = mdp.begin(200_000, random)
    walk.observations = np.full((200_000, 1), 0.3)
    rewards = walk.move(np.full(200_000, 1), random)
    np.testing.assert_allclose(rewards, mdp.rewards(0, np.array([[0.3]]))[0, 1])
    fine = (np.arange(2000) + 0.5) / 2000
    density = mdp.features(0, np.array([0.3]))[0, 1] @ mdp.measures(fine)
    shares = np.histogram(walk.observations, bins=20, range=(0, 1))[0] / 200_000
    np.testing.assert_allclose(shares, density.reshape(20, 100).mean(1) / 20, atol=0.002)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"amplitude": a}, "amplitude must be") for a in (0.0, -0.1, 1.01, float("nan"))]
    + [({"rank": 4, "nodes": 8}, "nodes must be at least 16, got 8")],
)
def test_invalid_settings_of_continuous_mdps(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContinuousMDP(**settings)


def test_observed_mdps_are_gymnasium_environments() -> None:
    for env in (ContinuousMDP(seed=1), RichLock(3, 2), one_hot(LowRankMDP(3, 2, 2, 3))):
        first, _ = env.reset(seed=3)
        again, _ = env.reset(seed=3)
        np.testing.assert_array_equal(first, again)
        assert first.shape == (env.size,)
        for step in range(env.horizon):
            _, reward, terminated, truncated, _ = env.step(0)
            assert terminated == (step == env.horizon - 1)
            assert not truncated
            assert 0 <= reward <= 1
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)
