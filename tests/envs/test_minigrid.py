"""MiniGrid as frames, and its tasks with distractors."""

import gymnasium
import numpy as np
import pytest

from contrastive_ucb.envs.registry import frame_shape_of, make_deep_env

pytest.importorskip("minigrid")
from contrastive_ucb.envs.minigrid import EMPTY, FLOOR, symbolic, with_distractors

TASK = "MiniGrid-MultiRoom-N4-S5-v1"
IDS = ["contrastive_ucb/MultiRoom-N4-S5-Distractors-v0"]
IDS += ["contrastive_ucb/KeyCorridorS3R1-Distractors-v0"]


def views(env, steps=60, seed=3):
    """The views of an episode with fixed actions."""
    actions = np.random.default_rng(0).integers(0, 6, steps)
    return np.array([env.reset(seed=seed)[0], *(env.step(action)[0] for action in actions)])


def test_only_empty_cells_change_and_they_are_random():
    plain, noisy = views(symbolic(TASK)), views(with_distractors(TASK))
    empty = plain[..., 0] == EMPTY
    np.testing.assert_array_equal(plain[~empty], noisy[~empty])
    assert (noisy[empty][:, 0] == FLOOR).all()
    assert (noisy[empty][:, 2] == 0).all()
    shares = np.bincount(noisy[empty][:, 1], minlength=6) / empty.sum()
    assert len(shares) == 6
    np.testing.assert_allclose(shares, 1 / 6, atol=5 * np.sqrt(5 / 36 / empty.sum()))
    seen = empty[0] & empty[1]  # cells that are empty in two views have other colors in the second
    assert (noisy[0][seen][:, 1] != noisy[1][seen][:, 1]).any()


def test_distractors_are_determined_by_the_seed():
    env = with_distractors(TASK)
    first, other = views(env), views(env, seed=4)
    np.testing.assert_array_equal(first, views(env))
    assert (first != other).any()


@pytest.mark.parametrize("name", [TASK, *IDS])
def test_a_restored_episode_goes_on_in_the_same_way(name):
    assert frame_shape_of(name) == (3, 7, 7)
    env = make_deep_env(name, seed=1, training=True)
    env.reset()
    for action in (2, 1, 2, 0):
        env.step(action)
    copy = make_deep_env(name, seed=1, training=True)
    copy.load_state_dict(env.state_dict())
    for action in (2, 2, 5, 1, 2):
        one, other = env.step(action), copy.step(action)
        np.testing.assert_array_equal(one.frame, other.frame)
        assert one[1:] == other[1:]


@pytest.mark.parametrize("name", IDS)
def test_registered_ids_are_made_by_gymnasium(name):
    env = gymnasium.make(name)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert not (observation[..., 0] == EMPTY).any()
