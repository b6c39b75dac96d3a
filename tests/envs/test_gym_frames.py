"""Any Gymnasium environment as frames: every kind of observation, and what is refused."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.envs.registry import make_deep_env


class Shows(gymnasium.Env[Any, Any]):
    """Shows samples of a space, pays 1 a step, and notes the actions."""

    def __init__(self, space: spaces.Space[Any], actions: spaces.Space[Any] | None = None):
        self.observation_space = space
        self.action_space = actions or spaces.Discrete(3)
        self.taken: list[int] = []
        self.reward = 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        self.shown = self.observation_space.sample()
        return self.shown, self.reward, False, False, {}

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
    ],
)
def test_images_have_channels_first(space: spaces.Box, axes: tuple[int, ...]) -> None:
    shows = Shows(space)
    env = GymFrames("own", shows, seed=0)
    for frame in (env.reset(), env.step(1).frame):
        assert frame.shape == env.frame_shape
        assert frame.dtype == np.uint8
        assert frame.flags["C_CONTIGUOUS"]
        assert not np.shares_memory(frame, shows.shown)
    np.testing.assert_array_equal(env.frame, shows.shown.transpose(axes))


def test_a_grey_image_has_one_channel() -> None:
    shows = Shows(image(20, 24))
    env = GymFrames("own", shows, seed=0)
    np.testing.assert_array_equal(env.reset(), shows.shown[None])
    assert env.frame_shape == (1, 20, 24)


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
def test_everything_else_is_a_vector(space: spaces.Space[Any], dim: int) -> None:
    shows = Shows(space)
    env = GymFrames("own", shows, seed=0)
    frame = env.reset()
    assert frame.shape == env.frame_shape == (dim,)
    assert frame.dtype == np.float32
    np.testing.assert_array_equal(frame, spaces.flatten(space, shows.shown).astype(np.float32))


def test_actions_are_counted_from_the_first() -> None:
    shows = Shows(image(4), spaces.Discrete(3, start=5))
    env = GymFrames("own", shows, seed=0)
    env.reset()
    env.step(0)
    env.step(2)
    assert shows.taken == [5, 7]
    assert env.n_actions == 3


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Shows(image(4), image(2)), r"actions Box.*TransformAction"),
        (Shows(image(4), spaces.MultiDiscrete([2, 2])), r"actions MultiDiscrete.*needs Discrete"),
        (Shows(spaces.Dict(a=image(4))), r"observations Dict.*FlattenObservation"),
        (Shows(spaces.Tuple([image(4)])), r"observations Tuple.*FlattenObservation"),
        (Shows(spaces.Box(0, 1, (8, 8, 3))), r"float32 observations of shape \(8, 8, 3\); images"),
        (Shows(image(2, 8, 8, 3)), r"uint8 observations of shape \(2, 8, 8, 3\); images"),
    ],
)
def test_what_the_learner_cannot_take(env: Shows, message: str) -> None:
    with pytest.raises(UserError, match=f"^own has {message}") as error:
        GymFrames("own", env, seed=0)
    assert "\n" not in str(error.value)


def test_a_nan_stops_with_its_place() -> None:
    shows = Shows(spaces.Box(-1, 1, (2,)))
    env = GymFrames("own", shows, seed=0)
    env.reset()
    shows.reward = np.nan
    with pytest.raises(ArithmeticError, match="own paid nan at step 1 of episode 0"):
        env.step(0)
    shows.reward, shows.observation_space = 1.0, spaces.Box(np.inf, np.inf, (2,))
    with pytest.raises(ArithmeticError, match=r"own showed \[inf inf\] at step 2 of episode 0"):
        env.step(0)


def test_an_environment_with_randomness_of_its_own_cannot_be_restored() -> None:
    env = GymFrames("own", Shows(spaces.Box(-1, 1, (2,))), seed=0)
    env.reset()
    env.step(0)
    state = env.state_dict()
    env.load_state_dict(state)  # the samples follow the seed, so this one repeats

    class Moody(Shows):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return super().reset(seed=None)

    moody = GymFrames("own", Moody(spaces.Box(-1, 1, (2,))), seed=0)
    moody.reset()
    with pytest.raises(UserError, match="own does not repeat"):
        moody.load_state_dict(moody.state_dict())


def test_time_limits_truncate() -> None:
    env = make_deep_env("MountainCar-v0", seed=0, training=True)
    env.reset()
    steps = [env.step(1) for _ in range(200)]
    assert [step.truncated for step in steps] == [False] * 199 + [True]
    assert not steps[-1].terminated
    assert steps[-1].episode_over
    assert env.raw_return == -200
    assert env.value_range == (-100, 0)


def test_the_name_of_a_module_before_an_id_changes_nothing() -> None:
    assert GymFrames("gymnasium:CartPole-v1", seed=0).value_range == (0, 100)


def test_environments_without_pictures_say_so() -> None:
    env = GymFrames("own", Shows(image(4)), seed=0)
    with pytest.raises(UserError, match="own draws no picture"):
        env.render()
