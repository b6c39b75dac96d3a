"""Random low-rank MDPs and games: low rank, reproducible, worth solving, large ones stay small."""

import hashlib
import tracemalloc

import numpy as np
import pytest

from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.planning.value_iteration import plan


def uniform_share(mdp: LowRankMDP) -> float:
    """The part of V* that uniform actions earn."""
    best = optimal_value(mdp)
    return 1 - suboptimality(mdp, np.full(mdp.rewards.shape, 1 / mdp.n_actions)) / best


@pytest.mark.parametrize("reward", ["sparse", "linear"])
def test_kernel_has_the_rank_and_rewards_are_legal(reward: str) -> None:
    mdp = LowRankMDP(n_states=12, n_actions=4, rank=3, horizon=5, seed=1, reward=reward)
    assert mdp.rank == 3
    assert (np.linalg.matrix_rank(mdp.kernel.table()) == 3).all()
    np.testing.assert_allclose(mdp.transitions.sum(-1), 1, atol=1e-14)
    assert mdp.rewards.min() >= 0
    assert mdp.rewards.max() <= 1


def test_linear_rewards_are_linear_in_the_features() -> None:
    mdp = LowRankMDP(n_states=12, n_actions=4, rank=3, horizon=5, seed=1, reward="linear")
    for features, rewards in zip(mdp.kernel.features, mdp.rewards, strict=True):
        theta, residual, *_ = np.linalg.lstsq(features, rewards.ravel(), rcond=None)
        assert residual[0] < 1e-20
        assert ((theta >= -1e-9) & (theta <= 1 + 1e-9)).all()


def test_sparse_rewards_pay_one_action_in_a_tenth_of_the_states() -> None:
    mdp = LowRankMDP(n_states=21, n_actions=4, rank=3, horizon=5, seed=1)
    assert set(mdp.rewards.ravel()) == {0.0, 1.0}
    assert mdp.rewards[:-1].sum() == 0
    assert sorted(mdp.rewards[-1].sum(-1), reverse=True) == [1.0] * 3 + [0.0] * 18


@pytest.mark.parametrize("seed", range(10))
def test_sparse_is_worth_planning_for(seed: int) -> None:
    mdp = LowRankMDP(n_states=10, n_actions=3, rank=3, horizon=4, seed=seed)
    assert optimal_value(mdp) > 0.1
    assert uniform_share(mdp) < 0.4


def test_same_seed_same_mdp_other_seed_another() -> None:
    one, same, other = (LowRankMDP(seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.kernel.features, same.kernel.features)
    np.testing.assert_array_equal(one.transitions, same.transitions)
    np.testing.assert_array_equal(one.rewards, same.rewards)
    assert not np.isclose(one.transitions, other.transitions).any(-1).all()


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 1, 5, 1), (1, 3, 2, 4)])
@pytest.mark.parametrize("reward", ["sparse", "linear"])
def test_the_smallest_sizes_work(sizes: tuple[int, int, int, int], reward: str) -> None:
    assert 0 < optimal_value(LowRankMDP(*sizes, reward=reward)) <= sizes[-1]


@pytest.mark.parametrize("name", ["n_states", "n_actions", "rank", "horizon"])
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        LowRankMDP(**{name: 0})


def test_bad_reward_and_seed_are_refused() -> None:
    with pytest.raises(ValueError, match="reward is 'dense'; it must be 'sparse' or 'linear'"):
        LowRankMDP(reward="dense")
    with pytest.raises(ValueError, match="seed"):
        LowRankMDP(seed=-1)


def test_a_large_one_builds_and_plans_in_little_memory() -> None:
    tracemalloc.start()
    mdp = LowRankMDP(n_states=2000, n_actions=10, rank=10, horizon=10)
    plan(mdp.kernel, mdp.rewards)
    mdp.reset(seed=0)
    mdp.step(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # the table would take 3.2 GB


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "45e4c5a5bfbe6220"),
        ({"reward": "linear", "seed": 5}, "d8a9545a687fc012"),
        ({"n_states": 20, "n_actions": 4, "rank": 5, "horizon": 6, "seed": 2}, "c0ccd33a39e972bd"),
    ],
)
def test_a_seed_keeps_its_mdp_from_version_to_version(options: dict, expected: str) -> None:
    mdp = LowRankMDP(**options)
    arrays = (mdp.kernel.features, mdp.kernel.measures, mdp.rewards, mdp.initial)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    assert digest.hexdigest()[:16] == expected


def test_game_has_the_rank_and_its_rewards_are_legal() -> None:
    game = LowRankGame(n_states=12, n_actions=(4, 2), rank=3, horizon=5, seed=1)
    assert (game.n_actions, game.rank, game.name) == ((4, 2), 3, "lowrank-game")
    assert (np.linalg.matrix_rank(game.kernel.table()) == 3).all()
    np.testing.assert_allclose(game.transitions.sum(-1), 1, atol=1e-14)
    assert game.transitions.shape == (5, 12, 4, 2, 12)
    np.testing.assert_array_equal(game.initial, np.eye(12)[0])
    assert -1 <= game.rewards.min() < -0.9
    assert 0.9 < game.rewards.max() <= 1
    assert abs(game.rewards.mean()) < 4.5 * np.sqrt(1 / 3 / game.rewards.size)


def test_defaults_of_the_game() -> None:
    game = LowRankGame()
    assert (game.n_states, game.n_actions, game.rank, game.horizon) == (6, (3, 3), 3, 3)
    assert game.reward_scale is None
    np.testing.assert_array_equal(LowRankGame(n_actions=(3, 3)).transitions, game.transitions)


def test_same_seed_same_game_other_seed_another() -> None:
    one, same, other = (LowRankGame(seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.kernel.features, same.kernel.features)
    np.testing.assert_array_equal(one.transitions, same.transitions)
    np.testing.assert_array_equal(one.rewards, same.rewards)
    assert not np.isclose(one.rewards, other.rewards).any()
    assert not np.isclose(one.transitions, other.transitions).any(-1).all()


@pytest.mark.parametrize("name", ["n_states", "n_actions", "rank", "horizon"])
def test_sizes_of_a_game_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        LowRankGame(**{name: 0})
