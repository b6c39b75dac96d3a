"""Gymnasium environments as frames: kinds of observations, and errors."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.envs.registry import make_deep_env


class Recorder(gymnasium.Env[Any, Any]):
    """Observations are samples of a space, rewards are 1; records the actions."""

    def __init__(self, space: spaces.Space[Any], actions: spaces.Space[Any] | None = None):
        self.observation_space = space
        self.action_space = actions or spaces.Discrete(3)
        self.taken: list[int] = []
        self.reward = 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        self.observation = self.observation_space.sample()
        return self.observation, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        self.observation = self.observation_space.sample()
        return self.observation, self.reward, False, False, {}

    def render(self) -> None:
        return None


def image(*shape: int, dtype: Any = np.uint8) -> spaces.Box:
    return spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype=dtype)


@pytest.mark.parametrize(
    ("space", "axes"),
    [
        (image(20, 24, 3), (2, 0, 1)),
        (image(3, 20, 24), (0, 1, 2)),
        (image(12, 12, 7), (2, 0, 1)),
        (image(20, 24, 4, dtype=bool), (2, 0, 1)),
        (image(20, 24), (0, 1)),
    ],
)
def test_images_have_channels_first(space: spaces.Box, axes: tuple[int, ...]) -> None:
    recorder = Recorder(space)
    env = GymFrames("own", lambda: recorder)
    for frame in (env.reset(), env.step(1).frame):
        assert frame.shape == env.frame_shape
        assert frame.dtype == np.uint8
        assert frame.flags["C_CONTIGUOUS"]
        assert not np.shares_memory(frame, recorder.observation)
    expected = recorder.observation.transpose(axes)
    np.testing.assert_array_equal(env.frame, expected.reshape(-1, *expected.shape[-2:]))


@pytest.mark.parametrize(
    ("space", "dim"),
    [
        (spaces.Box(-1, 1, (5,), dtype=np.float64), 5),
        (spaces.Box(-1, 1, (2, 3)), 6),
        (image(128), 128),
        (spaces.Discrete(7, start=2), 7),
        (spaces.MultiDiscrete([3, 4]), 7),
        (spaces.MultiBinary(4), 4),
    ],
)
def test_other_observations_are_vectors(space: spaces.Space[Any], dim: int) -> None:
    recorder = Recorder(space)
    env = GymFrames("own", lambda: recorder)
    frame = env.reset()
    assert frame.shape == env.frame_shape == (dim,)
    assert frame.dtype == np.float32
    np.testing.assert_array_equal(
        frame, spaces.flatten(space, recorder.observation).astype(np.float32)
    )


def test_actions_start_at_zero() -> None:
    recorder = Recorder(image(4), spaces.Discrete(3, start=5))
    env = GymFrames("own", lambda: recorder)
    env.reset()
    env.step(0)
    env.step(2)
    assert recorder.taken == [5, 7]
    assert env.n_actions == 3


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Recorder(image(4), image(2)), r"actions Box.*TransformAction"),
        (Recorder(image(4), spaces.MultiDiscrete([2, 2])), r"actions MultiDiscrete.*need Discrete"),
        (Recorder(spaces.Dict(a=image(4))), r"observations Dict.*FlattenObservation"),
        (Recorder(spaces.Tuple([image(4)])), r"observations Tuple.*FlattenObservation"),
        (
            Recorder(spaces.Box(0, 1, (8, 8, 3))),
            r"float32 observations of shape \(8, 8, 3\); images",
        ),
        (Recorder(image(2, 8, 8, 3)), r"uint8 observations of shape \(2, 8, 8, 3\); images"),
    ],
)
def test_unsupported_spaces(env: Recorder, message: str) -> None:
    with pytest.raises(UserError, match=f"^own has {message}") as error:
        GymFrames("own", lambda: env)
    assert "\n" not in str(error.value)


def test_time_limits_truncate() -> None:
    env = make_deep_env("MountainCar-v0", seed=0, training=True)
    env.reset()
    steps = [env.step(1) for _ in range(200)]
    assert [step.truncated for step in steps] == [False] * 199 + [True]
    assert not steps[-1].terminated
    assert steps[-1].episode_over
    assert env.raw_return == -200
    assert env.value_range == (-100, 0)
