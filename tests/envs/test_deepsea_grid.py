"""The deep sea as frames: the finite MDP's rules, one-hot cells, and when it counts as solved."""

import numpy as np
import pytest

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import DeepSea
from contrastive_ucb.envs.deepsea import DeepSeaGrid, solved_at
from contrastive_ucb.envs.registry import make_eval_envs


def test_follows_the_arrays_of_the_finite_sea() -> None:
    env, sea = DeepSeaGrid(6, seed=2), DeepSea(6, seed=2)
    random = stream(0, "actions")
    for _ in range(20):
        column = 0
        assert env.reset().argmax() == 0
        for row in range(6):
            assert env.frame.dtype == np.float32
            assert env.frame.sum() == env.frame[row * 6 + column] == 1
            action = int(random.integers(2))
            step = env.step(action)
            assert step.reward == step.raw_reward == sea.rewards[row, column, action]
            column = int(sea.transitions[row, column, action].argmax())
        assert step.terminated
        assert step.episode_over
        assert not step.truncated
        assert not step.frame.any()
    assert env.render().shape == (96, 96, 3)


@pytest.mark.parametrize("role", ["train", "eval-3"])
def test_going_right_finds_the_treasure_in_every_role(role: str) -> None:
    env, right = DeepSeaGrid(10, seed=7, role=role), DeepSea(10, seed=7).right
    env.reset()
    for row in range(10):
        env.step(int(right[row, row]))
    assert env.raw_return == pytest.approx(1)
    assert env.value_range == (0, 1)


def test_evaluation_dives_in_the_same_sea() -> None:
    seas = [env.sea.right for env in make_eval_envs("DeepSea-5", seed=1, count=3)]  # type: ignore[attr-defined]
    assert all((right == DeepSea(5, seed=1).right).all() for right in seas)


def test_solved_once_fewer_than_nine_in_ten_were_bad() -> None:
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
