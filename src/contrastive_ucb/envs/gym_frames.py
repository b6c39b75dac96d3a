"""Any Gymnasium environment with discrete actions, as frames.

| observation                                  | frame                |
|----------------------------------------------|----------------------|
| image uint8 (H, W, C), (C, H, W) or (H, W)   | uint8 (C, H, W)      |
| other numbers with one or two axes           | float32, flattened   |
| Discrete, MultiDiscrete, MultiBinary         | float32, one-hot     |

Rewards are not changed, and time limits truncate. `envs/foreign.py` checks what it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from contrastive_ucb.core.errors import EnvironmentFault, UserError
from contrastive_ucb.envs.foreign import ForeignEnv, GymEnv, find_modules_here, made
from contrastive_ucb.envs.frames import Frame, FrameEnv, Picture, Step

DEFAULT_RANGE = (-10.0, 10.0)  # for rewards of about the size and frequency of Atari's
VALUE_RANGES = {  # smallest and largest return at discount .99, where the default is too small
    "Acrobot-v1": (-100.0, 0.0),
    "CartPole-v0": (0.0, 100.0),
    "CartPole-v1": (0.0, 100.0),
    "LunarLander-v3": (-200.0, 200.0),
    "MountainCar-v0": (-100.0, 0.0),
    "contrastive_ucb/RichLock-v0": (0.0, 1.0),
}


class GymFrames(FrameEnv):
    """A Gymnasium environment as a `FrameEnv`.

    name         id; `module:Env-v0` also imports modules of the current directory
    make         function that returns a new environment; None: `gymnasium.make` of the id
    value_range  smallest and largest return; None: `VALUE_RANGES` or the default range
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], GymEnv] | None = None,
        *,
        seed: int = 0,
        role: str = "train",
        value_range: tuple[float, float] | None = None,
    ):
        super().__init__(seed=seed, role=role)
        self.name, self._env = name, _make_by_id(name) if make is None else made(name, make)
        actions, self._space = self._env.action_space, self._env.observation_space
        if not isinstance(actions, spaces.Discrete):
            raise UserError(
                f"{name} has actions {actions}; the agents need Discrete actions, so wrap it in "
                "gymnasium.wrappers.TransformAction with a list of actions"
            )
        self.n_actions, self._first_action = int(actions.n), int(actions.start)
        self._checked = ForeignEnv(self._env, name, self._place)
        spec = self._env.spec
        # MiniGrid truncates episodes by itself, after `max_steps`.
        self.has_time_limit = hasattr(self._env.unwrapped, "max_steps") or (
            spec is not None and spec.max_episode_steps is not None
        )
        self._image = _image_shape(name, self._space)
        if self._image is None:
            self.frame_shape = (spaces.flatdim(self._space),)
        else:
            self.frame_shape = _channels_first(np.empty(self._image)).shape
        known = value_range or VALUE_RANGES.get(name.rpartition(":")[2])
        self.guesses_range, self.value_range = known is None, known or DEFAULT_RANGE

    def render(self) -> Picture:
        try:
            picture = self._checked.call("render", self._env.render)
        except EnvironmentFault as error:
            if isinstance(error.__cause__, NotImplementedError):
                picture = None
            elif isinstance(error.__cause__, gymnasium.error.DependencyNotInstalled):
                raise UserError(f"{self.name} cannot be rendered: {error.__cause__}") from error
            else:
                raise
        if not isinstance(picture, np.ndarray):
            raise UserError(f"{self.name} cannot be rendered: it needs render_mode='rgb_array'")
        return picture

    def _begin(self, random: np.random.Generator) -> Frame:
        return self.to_frame(self._checked.reset(int(random.integers(2**31))))

    def _advance(self, action: int) -> Step:
        returned = self._checked.step(action + self._first_action)
        observation, reward, terminated, truncated = returned
        over = terminated or truncated
        return Step(self.to_frame(observation), reward, reward, terminated, truncated, over)

    def to_frame(self, observation: Any) -> Frame:
        """An observation of the environment as a frame, which is a copy."""
        if self._image is not None:
            return _channels_first(np.array(observation, dtype=np.uint8).reshape(self._image))
        return np.array(spaces.flatten(self._space, observation), dtype=np.float32)

    def to_frames(self, observations: NDArray[Any]) -> NDArray[Any]:
        """One observation or an array (n, ...) of them as frames; others are returned unchanged."""
        shape = self._space.shape
        if observations.shape == shape:
            return self.to_frame(observations)
        if observations.ndim and observations.shape[1:] == shape:
            return np.stack([self.to_frame(each) for each in observations])
        return observations

    def _place(self) -> str:
        role = "" if self.role == "train" else f" ({self.role})"
        return f"at step {self.n_steps} of episode {self.episode}{role}"


def _make_by_id(name: str) -> GymEnv:
    find_modules_here(name)
    try:
        env: GymEnv = made(name, gymnasium.make, name, disable_env_checker=True)
        if "rgb_array" in env.metadata.get("render_modes", ()):  # known only once it is made
            env.close()
            options: Any = {"render_mode": "rgb_array", "disable_env_checker": True}
            env = made(name, gymnasium.make, name, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise UserError(f"Gymnasium cannot make {name!r}: {error}") from error
    return env


def _image_shape(name: str, space: spaces.Space[Any]) -> tuple[int, int, int] | None:
    """The three axes of an image in their given order; None for vectors."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return None
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"{name} has observations {space}; the agents need one array (Box), so wrap it in "
            "gymnasium.wrappers.FlattenObservation, or BabyAI in minigrid.wrappers.ImgObsWrapper"
        )
    shape, is_bytes = space.shape, space.dtype in (np.dtype(np.uint8), np.dtype(np.bool_))
    if is_bytes and len(shape) == 2:
        return (*shape, 1)
    if is_bytes and len(shape) == 3:
        return shape
    if len(shape) > 2:
        raise UserError(
            f"{name} has {space.dtype} observations of shape {shape}; images must be uint8 with 2 "
            "or 3 axes and vectors have 1 or 2, so wrap it in "
            "gymnasium.wrappers.TransformObservation"
        )
    return None


def _channels_first(image: Frame) -> Frame:
    """(H, W, C) or (C, H, W) as (C, H, W); the channels are the shorter of the outer axes."""
    axis = -1 if image.shape[-1] <= image.shape[0] else 0
    return np.ascontiguousarray(np.moveaxis(image, axis, 0))
