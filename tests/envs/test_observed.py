"""Environments of observations: their kernels, how they look, and their finite twins."""

from math import sqrt

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard as scipy_hadamard

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.envs.continuous import ContinuousMDP, wave
from contrastive_ucb.envs.finite_twin import one_hot, spread
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame, hadamard, observation_size
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.evaluation.games import nash_value
from contrastive_ucb.planning.value_iteration import plan


@pytest.mark.parametrize("n_states", [3, 5, 600])
def test_a_finite_mdp_suggests_the_density_of_tables(n_states: int) -> None:
    """Every state equally often, in the draws and among the nodes."""
    shown = one_hot(LowRankMDP(n_states, 2, 2, 2))
    assert shown.suggested["density"] == "uniform"
    nodes = shown.uniform_nodes(shown.suggested["n_draws"])
    assert nodes is not None
    assert len(nodes) >= 512
    np.testing.assert_array_equal(nodes.sum(0), len(nodes) / n_states)
    drawn = shown.uniform(2000, stream(0, "test"))
    np.testing.assert_array_equal(np.sort(drawn, axis=1)[:, -2:], [[0, 1]] * 2000)
    assert abs(drawn.mean(0) - 1 / n_states).max() < 0.05


@pytest.mark.parametrize("size", [1, 2, 8, 32])
def test_hadamard_is_sylvesters(size: int) -> None:
    np.testing.assert_array_equal(hadamard(size), scipy_hadamard(size))


@pytest.mark.parametrize("horizon", range(1, 70))
def test_observations_have_the_size_of_the_specification(horizon: int) -> None:
    assert observation_size(horizon) == 2 ** int(np.ceil(np.log2(horizon + 4)))


def test_a_rich_observation_is_a_rotated_latent() -> None:
    """Turned back, the mean has 1 at the latent and at the step; the noise has its size."""
    lock = RichLock(horizon=5, seed=1)
    states = np.repeat([0, 1, 2], 4000)
    seen = lock.show(3, states, stream(0, "test"))
    back = seen @ np.linalg.inv(scipy_hadamard(16))
    for state in range(3):
        mean = np.zeros(16)
        mean[[state, 3 + 3]] = 1
        np.testing.assert_allclose(back[states == state].mean(0), mean, atol=0.01)
    spread_of = back[states == 2].std(0)
    np.testing.assert_allclose(spread_of[:8], 0.1, rtol=0.1)
    np.testing.assert_allclose(spread_of[8:], 0, atol=1e-12)


def test_the_combination_opens_the_rich_lock() -> None:
    lock, random = RichLock(horizon=4, n_actions=3, seed=3), stream(0, "test")
    walk, total = lock.begin(200, random), np.zeros(200)
    combination = lock.base.combination  # type: ignore[union-attr]
    for step in range(4):
        right = combination[step][np.minimum(walk.states, 1)]
        total += walk.move(right, random)
    np.testing.assert_array_equal(total, 1.0)


def test_a_wrong_action_is_bribed_half_of_the_time_and_kills() -> None:
    lock, random = RichLock(horizon=3, n_actions=3, seed=3), stream(0, "test")
    walk = lock.begin(4000, random)
    wrong = (lock.base.combination[0][walk.states] + 1) % 3  # type: ignore[union-attr]
    paid = walk.move(wrong, random)
    assert set(np.unique(paid)) == {0.0, 0.1}
    assert abs((paid > 0).mean() - 0.5) < 0.04
    assert (walk.states == 2).all()
    assert not walk.move(np.zeros(4000, dtype=np.int64), random).any()


def test_the_twins_are_worth_what_the_environments_are() -> None:
    lock = RichLock(horizon=4, n_actions=3).twin()
    assert lock.observations.shape == (4, 48, 8)
    assert optimal_value(lock.env) == pytest.approx(1.0)  # type: ignore[arg-type]
    game = RichLockGame(horizon=3).twin()
    assert nash_value(game.env) == pytest.approx(0.5, abs=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [LowRankMDP(4, 2, 2, 3), LowRankGame(4, (2, 3), 2, 3)])
def test_copies_of_states_change_no_value(base: LowRankMDP | LowRankGame) -> None:
    wide = spread(base, 3)
    shape = (3, 4, -1)
    _, narrow = plan(base.kernel, base.rewards.reshape(shape))
    _, values = plan(wide.kernel, wide.rewards.reshape(3, 12, -1))
    np.testing.assert_allclose(values, narrow.repeat(3, axis=-1), atol=1e-12)
    np.testing.assert_allclose(wide.kernel.table().sum(-1), 1, atol=1e-12)


def test_one_hot_shows_the_states_and_nothing_else() -> None:
    mdp = LowRankMDP(5, 2, 2, 3, seed=1)
    shown = one_hot(mdp)
    walk = shown.begin(50, stream(0, "test"))
    np.testing.assert_array_equal(walk.observations, np.eye(5)[walk.states])
    twin = shown.twin()
    assert twin.env is mdp
    assert twin.is_even
    np.testing.assert_array_equal(twin.observations, np.tile(np.eye(5), (3, 1, 1)))
    np.testing.assert_allclose(shown.rewards(1, np.eye(5)), mdp.rewards[1])
    nodes = shown.uniform_nodes(10)
    assert nodes is not None
    np.testing.assert_array_equal(nodes.sum(0), 2)
    assert shown.uniform_nodes(11) is None


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(1, 3), st.integers(0, 9))
def test_a_continuous_mdp_is_inside_the_assumption(
    rank: int, n_actions: int, horizon: int, seed: int
) -> None:
    amplitude = min(1.0, rank**0.5 - 1) * 0.9
    mdp = ContinuousMDP(n_actions, rank, horizon, amplitude, seed)
    twin = mdp.twin()
    features, measures = twin.env.kernel.features, twin.env.kernel.measures
    assert measures is not None
    np.testing.assert_allclose(twin.env.kernel.table().sum(-1), 1, atol=1e-12)
    assert np.linalg.norm(features, axis=-1).max() <= 1 / (1 + amplitude) + 1e-12
    assert measures.min() >= 0
    assert (measures * mdp.nodes).max() <= 1 + amplitude + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_more_nodes_change_no_value_of_a_continuous_mdp(seed: int) -> None:
    """The maximum over actions has kinks, so the rule is not exact there, but nearly; and the value
    of a policy that changes its action from state to state jumps."""
    optimal, gaps = [], []
    for nodes in (1024, 16384):
        twin = ContinuousMDP(seed=seed, nodes=nodes).twin()
        assert isinstance(twin.env, TabularMDP)
        optimal.append(optimal_value(twin.env))
        turn = np.floor(7.3 * twin.observations[..., 0]).astype(int) % 3
        gaps.append(suboptimality(twin.env, turn))
    assert optimal[0] == pytest.approx(optimal[1], abs=1e-6)
    assert gaps[0] == pytest.approx(gaps[1], abs=4e-4)


def test_fewer_nodes_than_waves_are_refused() -> None:
    with pytest.raises(ValueError, match="nodes must be at least 16, got 8"):
        ContinuousMDP(rank=4, nodes=8)


@pytest.mark.parametrize("order", [1, 3])
def test_waves_are_drawn_with_their_density(order: int) -> None:
    random = stream(0, "test")
    drawn = wave(*random.random((2, 400_000)), np.full(400_000, order), 0.8)
    shares = np.histogram(drawn, bins=24, range=(0, 1))[0] / len(drawn)
    ends = np.linspace(0, 1, 25)
    mass = np.diff(ends + 0.8 * np.sin(2 * np.pi * order * ends) / (2 * np.pi * order))
    np.testing.assert_allclose(shares, mass, atol=0.002)


def test_a_walk_follows_the_kernel() -> None:
    """Empirical next states of one start and action against the density."""
    mdp, random = ContinuousMDP(seed=4), stream(1, "test")
    walk = mdp.begin(200_000, random)
    walk.observations = np.full((200_000, 1), 0.3)
    rewards = walk.move(np.full(200_000, 1), random)
    np.testing.assert_allclose(rewards, mdp.rewards(0, np.array([[0.3]]))[0, 1])
    fine = (np.arange(2000) + 0.5) / 2000
    density = mdp.features(0, np.array([0.3]))[0, 1] @ mdp.measures(fine)
    shares = np.histogram(walk.observations, bins=20, range=(0, 1))[0] / 200_000
    np.testing.assert_allclose(shares, density.reshape(20, 100).mean(1) / 20, atol=0.002)


@pytest.mark.parametrize("amplitude", [0.0, -0.1, 1.01, float("nan")])
def test_amplitudes_outside_the_assumption_are_refused(amplitude: float) -> None:
    with pytest.raises(ValueError, match="amplitude must be above 0"):
        ContinuousMDP(amplitude=amplitude)


@pytest.mark.parametrize("rank", range(1, 5))
def test_the_largest_amplitude_itself_is_refused(rank: int) -> None:
    """It left a root of a number that rounding made negative."""
    limit = sqrt(rank) - 1
    with pytest.raises(ValueError, match=r"below sqrt\(rank\) - 1"):
        ContinuousMDP(rank=rank, amplitude=limit)
    if rank > 1:
        assert 0 < ContinuousMDP(rank=rank, amplitude=limit - 1e-9).purity < 1e-3
    assert ContinuousMDP(rank=5, amplitude=1.0).purity == pytest.approx(0.25)


def test_observed_mdps_are_gymnasium_environments() -> None:
    for env in (ContinuousMDP(seed=1), RichLock(3, 2), one_hot(LowRankMDP(3, 2, 2, 3))):
        first, _ = env.reset(seed=3)  # type: ignore[attr-defined]
        again, _ = env.reset(seed=3)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(first, again)
        assert first.shape == (env.size,)
        for step in range(env.horizon):
            _, reward, terminated, truncated, _ = env.step(0)  # type: ignore[attr-defined]
            assert terminated == (step == env.horizon - 1)
            assert not truncated
            assert 0 <= reward <= 1
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)  # type: ignore[attr-defined]
