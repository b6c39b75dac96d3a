"""The deep sea against bsuite's rules, and that only N moves to the right find the treasure."""

import numpy as np
import pytest

from contrastive_ucb.envs import DeepSea
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality


@pytest.mark.parametrize("size", [1, 2, 5])
def test_arrays_by_the_rules_one_by_one(size: int) -> None:
    sea = DeepSea(size, seed=3)
    for row, column, a in np.ndindex(size, size, 2):
        right = a == sea.right[row, column]
        after = min(column + 1, size - 1) if right else max(column - 1, 0)
        treasure = right and row == column == size - 1
        bsuite_reward = treasure - 0.01 / size * right
        np.testing.assert_array_equal(sea.transitions[row, column, a], np.eye(size)[after])
        assert sea.rewards[row, column, a] == pytest.approx(bsuite_reward + 0.01 / size)


@pytest.mark.parametrize("seed", range(3))
def test_only_going_right_all_the_way_solves_it(seed: int) -> None:
    sea = DeepSea(10, seed)
    assert optimal_value(sea) == pytest.approx(1, abs=1e-12)
    assert suboptimality(sea, sea.right) == pytest.approx(0, abs=1e-12)
    assert suboptimality(sea, 1 - sea.right) == pytest.approx(0.99)
    slip = sea.right.copy()
    slip[4, 4] = 1 - slip[4, 4]
    assert suboptimality(sea, slip) == pytest.approx(1 - 0.001)
    assert suboptimality(sea, np.full((10, 10, 2), 0.5)) > 0.99
    assert not sea.reveals_reward
    assert sea.solved_gap == 0.05


def test_same_seed_same_sea_other_seed_another() -> None:
    np.testing.assert_array_equal(DeepSea(seed=1).right, DeepSea(seed=1).right)
    assert (DeepSea(seed=1).right != DeepSea(seed=2).right).any()
    assert 0.3 < DeepSea(30).right.mean() < 0.7


def test_size_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        DeepSea(0)
