"""Backward planning in Markov games against loops over states and joint actions."""

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import LowRankGame
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.planning.markov_game import (
    plan_bounds,
    plan_nash,
    reply_values,
)
from contrastive_ucb.planning.matrix_game import solve_cce
from contrastive_ucb.planning.value_iteration import plan, policy_value

H, S, A1, A2 = 3, 4, 2, 3
RNG = np.random.default_rng(0)


def batch(seeds: tuple[int, ...] = (0, 1)) -> EnvBatch:
    return EnvBatch([LowRankGame(S, (A1, A2), 2, H, seed=seed) for seed in seeds])


def test_bounds_against_loops() -> None:
    games, bonus = batch(), RNG.random((2, H, S, A1 * A2))
    solved = {}

    def solve(step: int, upper: Array, lower: Array) -> Array:
        solved[step] = upper, lower
        return solve_cce(upper, lower, 1e-6).joint

    ceiling = np.array([1.5, 1.2, 0.8])
    bounds = plan_bounds(games.kernel, games.rewards, bonus, (A1, A2), solve, ceiling)
    table = games.kernel.table().reshape(2, H, S, A1, A2, S)
    rewards, beta = (x.reshape(2, H, S, A1, A2) for x in (games.rewards, bonus))
    for b in range(2):
        above, below = np.zeros(S), np.zeros(S)
        for h in reversed(range(H)):
            now = np.zeros((2, S))
            for s, i, j in np.ndindex(S, A1, A2):
                row, r, extra = table[b, h, s, i, j], rewards[b, h, s, i, j], beta[b, h, s, i, j]
                high = min(max(r + extra + row @ above, -ceiling[h]), ceiling[h])  # line 11
                low = min(max(r - extra + row @ below, -ceiling[h]), ceiling[h])  # line 12
                assert solved[h][0][b, s, i, j] == pytest.approx(high)
                assert solved[h][1][b, s, i, j] == pytest.approx(low)
                now[:, s] += bounds.joint[b, h, s, i, j] * np.array([high, low])  # lines 13, 14
            above, below = now
            np.testing.assert_allclose(bounds.v_upper[b, h], above)
            np.testing.assert_allclose(bounds.v_lower[b, h], below)
    assert (bounds.v_upper >= bounds.v_lower).all()


def test_a_game_with_one_column_action_is_an_mdp() -> None:
    games = EnvBatch([LowRankGame(S, (A1 * A2, 1), 2, H, seed=seed) for seed in (0, 1)])
    _, best = plan(games.kernel, games.rewards)
    values, row, column = plan_nash(games.kernel, games.rewards, (A1 * A2, 1))
    np.testing.assert_allclose(values, best)
    np.testing.assert_array_equal(column, np.ones((2, H, S, 1)))
    np.testing.assert_allclose(policy_value(games.kernel, games.rewards, row), best)
    np.testing.assert_allclose(reply_values(games.kernel, games.rewards, column, "column"), best)


def test_best_responses_against_loops() -> None:
    games = batch()
    row = RNG.dirichlet(np.ones(A1), (2, H, S))
    column = RNG.dirichlet(np.ones(A2), (2, H, S))
    table = games.kernel.table().reshape(2, H, S, A1, A2, S)
    rewards = games.rewards.reshape(2, H, S, A1, A2)
    for fixed, policy in (("row", row), ("column", column)):
        values = reply_values(games.kernel, games.rewards, policy, fixed)  # type: ignore[arg-type]
        for b in range(2):
            later = np.zeros(S)
            for h in reversed(range(H)):
                q = rewards[b, h] + table[b, h] @ later
                if fixed == "row":
                    later = np.array([(policy[b, h, s] @ q[s]).min() for s in range(S)])
                else:
                    later = np.array([(q[s] @ policy[b, h, s]).max() for s in range(S)])
                np.testing.assert_allclose(values[b, h], later)
