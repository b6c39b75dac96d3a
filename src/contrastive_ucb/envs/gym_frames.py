"""Any Gymnasium environment with discrete actions, as frames.

| observation                                  | frame                |
|----------------------------------------------|----------------------|
| image uint8 (H, W, C), (C, H, W) or (H, W)   | uint8 (C, H, W)      |
| other numbers with one or two axes           | float32, flattened   |
| Discrete, MultiDiscrete, MultiBinary         | float32, one-hot     |

Rewards are passed on as they are, and time limits truncate.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.frames import Frame, Picture, Step
from contrastive_ucb.envs.snapshot import ReplayedEnv

USUAL_RANGE = (-10.0, 10.0)  # suits rewards about as large and as rare as the signs of Atari's
VALUE_RANGES = {  # bounds at discount .99 where the usual range would cut off most returns
    "Acrobot-v1": (-100.0, 0.0),
    "CartPole-v0": (0.0, 100.0),
    "CartPole-v1": (0.0, 100.0),
    "LunarLander-v3": (-200.0, 200.0),
    "MountainCar-v0": (-100.0, 0.0),
    "contrastive_ucb/RichLock-v0": (0.0, 1.0),
}


class GymFrames(ReplayedEnv):
    """The environment that `gymnasium.make(name)` makes, or `env` under that name.

    value_range  smallest and largest return; None: what is known of the name, or else a guess
    """

    def __init__(
        self,
        name: str,
        env: gymnasium.Env[Any, Any] | None = None,
        *,
        seed: int,
        role: str = "train",
        value_range: tuple[float, float] | None = None,
    ):
        super().__init__(seed=seed, role=role)
        self.name = name
        self._env = _made(name) if env is None else env
        actions, self._space = self._env.action_space, self._env.observation_space
        if not isinstance(actions, spaces.Discrete):
            raise UserError(
                f"{name} has actions {actions}; the learner needs Discrete ones, so wrap it in "
                "gymnasium.wrappers.TransformAction with a list of actions and register that"
            )
        self.n_actions, self._first_action = int(actions.n), int(actions.start)
        self._image = _image_shape(name, self._space)
        if self._image is None:
            self.frame_shape = (spaces.flatdim(self._space),)
        else:
            self.frame_shape = _channels_first(np.empty(self._image)).shape
        known = value_range or VALUE_RANGES.get(name.rpartition(":")[2])
        self.guesses_range, self.value_range = known is None, known or USUAL_RANGE

    def render(self) -> Picture:
        try:
            picture = self._env.render()
        except NotImplementedError:
            picture = None
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"{self.name} cannot be drawn: {error}") from error
        if not isinstance(picture, np.ndarray):
            raise UserError(f"{self.name} draws no picture; it lacks the render mode 'rgb_array'")
        return picture

    def _begin(self, random: np.random.Generator) -> Frame:
        return self._framed(self._env.reset(seed=int(random.integers(2**31)))[0])

    def _advance(self, action: int) -> Step:
        seen, paid, terminated, truncated, _ = self._env.step(action + self._first_action)
        reward = float(paid)
        if not np.isfinite(reward):
            raise ArithmeticError(f"{self.name} paid {reward} {self._when()}; repair it there")
        over = bool(terminated or truncated)
        return Step(self._framed(seen), reward, reward, bool(terminated), bool(truncated), over)

    def _framed(self, seen: Any) -> Frame:
        """An observation as a frame that shares no memory with it."""
        if self._image is not None:
            return _channels_first(np.array(seen, dtype=np.uint8).reshape(self._image))
        frame = np.array(spaces.flatten(self._space, seen), dtype=np.float32)
        if not np.isfinite(frame).all():
            raise ArithmeticError(f"{self.name} showed {frame} {self._when()}; repair it there")
        return frame

    def _when(self) -> str:
        return f"at step {self.n_steps} of episode {self.episode}"


def _made(name: str) -> gymnasium.Env[Any, Any]:
    try:
        env = gymnasium.make(name, disable_env_checker=True)
        if "rgb_array" in env.metadata.get("render_modes", ()):  # known only once it is made
            env.close()
            env = gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True)
    except (gymnasium.error.Error, ImportError) as error:
        raise UserError(f"Gymnasium cannot make {name!r}: {error}") from error
    return env


def _image_shape(name: str, space: spaces.Space[Any]) -> tuple[int, int, int] | None:
    """The three axes of an image in the order they come in; None for vectors."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return None
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"{name} has observations {space}; the learner takes one array (Box), so wrap it in "
            "gymnasium.wrappers.FlattenObservation and register that"
        )
    shape, is_bytes = space.shape, space.dtype in (np.dtype(np.uint8), np.dtype(np.bool_))
    if is_bytes and len(shape) == 2:
        return (*shape, 1)
    if is_bytes and len(shape) == 3:
        return shape
    if len(shape) > 2:
        raise UserError(
            f"{name} has {space.dtype} observations of shape {shape}; images must be uint8 "
            "with 2 or 3 axes and vectors have 1 or 2, so wrap it in "
            "gymnasium.wrappers.TransformObservation and register that"
        )
    return None


def _channels_first(image: Frame) -> Frame:
    """(H, W, C) or (C, H, W) as (C, H, W); the channels are the shorter one of the outer axes."""
    axis = -1 if image.shape[-1] <= image.shape[0] else 0
    return np.ascontiguousarray(np.moveaxis(image, axis, 0))
