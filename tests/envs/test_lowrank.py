"""Random low-rank MDPs and games: rank, rewards, reproducibility and memory."""

import hashlib

import numpy as np
import pytest

from contrastive_ucb.envs import LowRankGame, LowRankMDP

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
