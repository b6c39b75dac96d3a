"""Random low-rank MDPs and games: rank, rewards, reproducibility and memory."""

import hashlib
import tracemalloc

import numpy as np
import pytest

from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.planning.value_iteration import plan

SIZES = {"n_states": 12, "rank": 3, "horizon": 5, "seed": 1}


@pytest.mark.parametrize(
    "env",
    [
        LowRankMDP(n_actions=4, reward="sparse", **SIZES),
        LowRankMDP(n_actions=4, reward="linear", **SIZES),
        LowRankGame(n_actions=(4, 2), **SIZES),
    ],
    ids=["sparse", "linear", "game"],
)
def test_rank_and_probabilities(env: LowRankMDP | LowRankGame) -> None:
    assert env.rank == 3
    assert (np.linalg.matrix_rank(env.kernel.table()) == 3).all()
    np.testing.assert_allclose(env.transitions.sum(-1), 1, atol=1e-14)
    np.testing.assert_array_equal(env.initial, np.eye(12)[0])
    assert env.reward_scale is None
    assert env.least_reward <= env.rewards.min()
    assert env.rewards.max() <= 1


def test_linear_rewards_are_linear_in_the_features() -> None:
    mdp = LowRankMDP(n_actions=4, reward="linear", **SIZES)
    for features, rewards in zip(mdp.kernel.features, mdp.rewards, strict=True):
        theta, residual, *_ = np.linalg.lstsq(features, rewards.ravel(), rcond=None)
        assert residual[0] < 1e-20
        assert ((theta >= -1e-9) & (theta <= 1 + 1e-9)).all()


def test_sparse_rewards_pay_one_action_in_a_tenth_of_the_states() -> None:
    mdp = LowRankMDP(n_states=21, n_actions=4, rank=3, horizon=5, seed=1)
    assert set(mdp.rewards.ravel()) == {0.0, 1.0}
    assert mdp.rewards[:-1].sum() == 0
    assert sorted(mdp.rewards[-1].sum(-1), reverse=True) == [1.0] * 3 + [0.0] * 18


def test_rewards_of_games_are_uniform() -> None:
    rewards = LowRankGame(n_actions=(4, 2), **SIZES).rewards
    assert rewards.min() < -0.9
    assert rewards.max() > 0.9
    assert abs(rewards.mean()) < 4.5 * np.sqrt(1 / 3 / rewards.size)


@pytest.mark.parametrize("seed", range(10))
def test_uniform_policies_earn_little_of_sparse_rewards(seed: int) -> None:
    mdp = LowRankMDP(n_states=10, n_actions=3, rank=3, horizon=4, seed=seed)
    best = optimal_value(mdp)
    assert best > 0.1
    assert suboptimality(mdp, np.full(mdp.rewards.shape, 1 / 3)) > 0.6 * best


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 1, 5, 1), (1, 3, 2, 4)])
@pytest.mark.parametrize("reward", ["sparse", "linear"])
def test_smallest_sizes(sizes: tuple[int, int, int, int], reward: str) -> None:
    assert 0 < optimal_value(LowRankMDP(*sizes, reward=reward)) <= sizes[-1]


def test_large_mdps_need_little_memory() -> None:
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
def test_arrays_do_not_change_between_versions(options: dict, expected: str) -> None:
    mdp = LowRankMDP(**options)
    arrays = (mdp.kernel.features, mdp.kernel.measures, mdp.rewards, mdp.initial)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    assert digest.hexdigest()[:16] == expected


@pytest.mark.parametrize("kind", [LowRankMDP, LowRankGame])
def test_seed_and_sizes(kind: type[LowRankMDP] | type[LowRankGame]) -> None:
    first, same, other = (kind(seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.kernel.features, same.kernel.features)
    np.testing.assert_array_equal(first.transitions, same.transitions)
    np.testing.assert_array_equal(first.rewards, same.rewards)
    assert not np.isclose(first.transitions, other.transitions).any(-1).all()
    for name in ("n_states", "n_actions", "rank", "horizon"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            kind(**{name: 0})
    with pytest.raises(ValueError, match="seed"):
        kind(seed=-1)
    with pytest.raises(ValueError, match="reward is 'dense'; it must be 'sparse' or 'linear'"):
        LowRankMDP(reward="dense")
