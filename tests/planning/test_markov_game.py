"""Backward planning in Markov games against loops over states and joint actions."""

import numpy as np

from contrastive_ucb.envs import LowRankGame
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.planning.markov_game import (
    plan_nash,
    reply_values,
)
from contrastive_ucb.planning.value_iteration import plan, policy_value

H, S, A1, A2 = 3, 4, 2, 3


def batch(seeds: tuple[int, ...] = (0, 1)) -> EnvBatch:
    return EnvBatch([LowRankGame(S, (A1, A2), 2, H, seed=seed) for seed in seeds])


def test_a_game_with_one_column_action_is_an_mdp() -> None:
    games = EnvBatch([LowRankGame(S, (A1 * A2, 1), 2, H, seed=seed) for seed in (0, 1)])
    _, best = plan(games.kernel, games.rewards)
    values, row, column = plan_nash(games.kernel, games.rewards, (A1 * A2, 1))
    np.testing.assert_allclose(values, best)
    np.testing.assert_array_equal(column, np.ones((2, H, S, 1)))
    np.testing.assert_allclose(policy_value(games.kernel, games.rewards, row), best)
    np.testing.assert_allclose(reply_values(games.kernel, games.rewards, column, "column"), best)
