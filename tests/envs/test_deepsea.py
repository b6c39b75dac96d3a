"""DeepSea against the rules of bsuite, as a finite MDP and as frames."""

import numpy as np
import pytest

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import DeepSea
from contrastive_ucb.envs.deepsea import DeepSeaGrid, solved_at
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality


@pytest.mark.parametrize("size", [1, 2, 5])
def test_arrays_follow_the_rules_of_bsuite(size: int) -> None:
    mdp = DeepSea(size, seed=3)
    for row, column, a in np.ndindex(size, size, 2):
        right = a == mdp.right[row, column]
        after = min(column + 1, size - 1) if right else max(column - 1, 0)
        treasure = right and row == column == size - 1
        bsuite_reward = treasure - 0.01 / size * right
        np.testing.assert_array_equal(mdp.transitions[row, column, a], np.eye(size)[after])
        assert mdp.rewards[row, column, a] == pytest.approx(bsuite_reward + 0.01 / size)


@pytest.mark.parametrize("seed", range(3))
def test_only_moving_right_at_every_step_is_optimal(seed: int) -> None:
    mdp = DeepSea(10, seed)
    assert optimal_value(mdp) == pytest.approx(1, abs=1e-12)
    assert suboptimality(mdp, mdp.right) == pytest.approx(0, abs=1e-12)
    assert suboptimality(mdp, 1 - mdp.right) == pytest.approx(0.99)
    one_wrong = mdp.right.copy()
    one_wrong[4, 4] = 1 - one_wrong[4, 4]
    assert suboptimality(mdp, one_wrong) == pytest.approx(1 - 0.001)
    assert suboptimality(mdp, np.full((10, 10, 2), 0.5)) > 0.99
    assert not mdp.reveals_reward
    assert mdp.solved_gap == 0.05


def test_frames_follow_the_arrays_of_the_finite_mdp() -> None:
    env, mdp = DeepSeaGrid(6, seed=2), DeepSea(6, seed=2)
    random = stream(0, "actions")
    for _ in range(20):
        column = 0
        assert env.reset().argmax() == 0
        for row in range(6):
            assert env.frame.dtype == np.float32
            assert env.frame.sum() == env.frame[row * 6 + column] == 1
            action = int(random.integers(2))
            step = env.step(action)
            assert step.reward == step.raw_reward == mdp.rewards[row, column, action]
            column = int(mdp.transitions[row, column, action].argmax())
        assert step.terminated
        assert step.episode_over
        assert not step.truncated
        assert not step.frame.any()
    assert env.render().shape == (96, 96, 3)


def test_solved_at_against_counting() -> None:
    def by_counting(returns: list[float]) -> int | None:
        for n in range(1, len(returns) + 1):
            if sum(r < 0.5 for r in returns[:n]) < 0.9 * n:
                return n
        return None

    assert solved_at([]) is None
    assert solved_at([0.01] * 30) is None
    assert solved_at([0.0] * 18 + [1.0] * 2) is None
    assert solved_at([0.0] * 18 + [1.0] * 3) == 21
    random = stream(0, "returns")
    for _ in range(50):
        returns = list((random.random(60) < 0.12).astype(float))
        assert solved_at(returns) == by_counting(returns)
