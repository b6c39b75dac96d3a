"""Gymnasium environments that are not part of this package: each call and its results are checked.

| found in a step                                          | consequence                        |
|----------------------------------------------------------|------------------------------------|
| exception in `reset` or `step`, wrong tuple              | `EnvironmentFault`                 |
| observation with a wrong shape, not numbers, NaN, inf    | `EnvironmentFault`                 |
| value that an integer space (such as an image) cannot    | `EnvironmentFault`, instead of a   |
| represent: 300, -1, 0.5 or NaN in uint8                  | silent cast                        |
| discrete observation outside of its space                | `EnvironmentFault`                 |
| other number outside of its Box                          | a warning, since several released  |
|                                                          | environments leave their bounds    |
| reward of NaN, inf or above `LARGEST_REWARD`             | `EnvironmentFault`                 |

Every message names the environment, the step and the episode. Images of the right data type are not
searched: all of their values can be represented.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from contrastive_ucb.core.arrays import Array, BoolArray
from contrastive_ucb.core.errors import EnvironmentFault, UserError

GymEnv = gymnasium.Env[Any, Any]
# Networks compute in float32, whose largest number is 3.4e38. The squared return of the longest
# episode, 27,000 steps, stays below it for rewards of up to 6.8e14.
LARGEST_REWARD = 1e14
LARGEST = float(np.finfo(np.float32).max)


class ForeignEnv:
    """Checked calls of an environment.

    name   in messages
    place  the step and the episode, for messages
    """

    def __init__(self, env: GymEnv, name: str, place: Callable[[], str]):
        self.env, self.name, self.place = env, name, place
        self.space = space = env.observation_space
        self._low: Array | None = None  # None: values are not compared with the bounds
        if isinstance(space, spaces.Box) and not _is_image(space):
            self._low = np.maximum(space.low.astype(np.float64), -LARGEST)
            self._high = np.minimum(space.high.astype(np.float64), LARGEST)
        self._has_left_bounds = False

    def reset(self, seed: int) -> Any:
        """Start an episode; returns the first observation."""
        returned = self.call("reset", self.env.reset, seed=seed)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise self._fault("did not return a pair (observation, info) from reset()")
        return self._observation(returned[0])

    def step(self, action: int) -> tuple[Any, float, bool, bool]:
        """Take an action; returns observation, reward, terminated and truncated."""
        returned = self.call("step", self.env.step, action)
        if not isinstance(returned, tuple) or len(returned) != 5:
            expected = "(observation, reward, terminated, truncated, info)"
            raise self._fault(f"did not return a tuple {expected} from step()")
        observation, paid, *ends, _ = returned
        try:
            reward = float(paid)
            terminated, truncated = map(bool, ends)
        except (TypeError, ValueError) as error:
            raise self._fault(
                f"returned the reward {_short(paid)} and the ends {_short(ends)}",
                "they must be a number and two truth values",
            ) from error
        if not abs(reward) <= LARGEST_REWARD:  # also NaN
            limit = f"it must be finite and at most {LARGEST_REWARD:g}, so rescale it"
            raise self._fault(f"returned reward {reward:g}", limit)
        return self._observation(observation), reward, terminated, truncated

    def call(self, what: str, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of the environment; an exception becomes an `EnvironmentFault`."""
        try:
            return method(*args, **options)
        except Exception as error:
            raise self._fault(f"raised {_of(error)} in {what}()") from error

    def _observation(self, given: Any) -> Any:
        """The observation, if it is in its space; numbers are returned as an array."""
        space = self.space
        if not isinstance(space, spaces.Box):
            if not space.contains(given):
                raise self._fault(f"returned observation {_short(given)}, which is not in {space}")
            return given
        try:
            raw = np.asarray(given)
        except ValueError:  # lists of different lengths
            raw = np.array(None)
        if raw.dtype.kind not in "biuf":
            raise self._fault(f"returned the observation {_short(given)}", "it must be numbers")
        if raw.shape != space.shape:
            raise self._fault(
                f"returned an observation of shape {raw.shape}",
                f"its space has the shape {space.shape}",
            )
        values = raw
        if raw.dtype != space.dtype:
            with np.errstate(all="ignore"):
                values = raw.astype(space.dtype)
            if values.dtype.kind != "f" and not np.array_equal(values, raw):
                bad = _first(raw, values != raw)
                remedy = f"its space has {space.dtype}, which cannot represent it"
                raise self._fault(f"returned observation {bad}", remedy)
        if self._low is not None:
            inside = (values >= self._low) & (values <= self._high)
            if not inside.all():
                self._outside(raw, ~inside)
        return raw

    def _outside(self, raw: Array, outside: BoolArray) -> None:
        """Raise if a value is not finite in float32; otherwise warn, for the first one only."""
        infinite = ~(np.abs(raw) <= LARGEST)
        if infinite.any():
            bad = _first(raw, infinite)
            raise self._fault(f"returned observation {bad}", "it must be finite in float32")
        if not self._has_left_bounds:
            self._has_left_bounds = True
            bad = _first(raw, outside)
            warnings.warn(
                f"{self.name} returned observation {bad} {self.place()}, which is outside of its"
                " observation space; correct the bounds of the space or the value",
                stacklevel=4,
            )

    def _fault(self, found: str, remedy: str = "correct the environment") -> EnvironmentFault:
        return EnvironmentFault(f"{self.name} {found} {self.place()}; {remedy}")


def find_modules_here(name: str) -> None:
    """Let `module:name` be found in the current directory, as with `python -m`."""
    if ":" in name and (folder := os.getcwd()) not in sys.path:
        sys.path.append(folder)  # the command line does not include it


def made(name: str, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A new environment; an exception of its constructor is an `EnvironmentFault`."""
    try:
        return make(*args, **options)
    except (UserError, gymnasium.error.Error, ImportError):  # these explain themselves
        raise
    except Exception as error:
        raise EnvironmentFault(
            f"{name} raised {_of(error)} when it was made; correct the environment or its arguments"
        ) from error


def _is_image(space: spaces.Box) -> bool:
    """Whether every value of the data type is a possible pixel."""
    return len(space.shape) > 1 and space.dtype in (np.dtype(np.uint8), np.dtype(np.bool_))


def _of(error: Exception) -> str:
    """Type and message of an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")


def _short(value: Any) -> str:
    """A value in one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _first(values: Array, wrong: BoolArray) -> str:
    """The first wrong value with its index."""
    index = tuple(int(at) for at in np.argwhere(wrong)[0])
    return f"{values[index]:g} at index {list(index)}" if index else f"{values:g}"
