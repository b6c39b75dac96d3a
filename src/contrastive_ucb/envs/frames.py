"""What the deep learner asks of an environment: one new frame a step, and what it earned.

Frames are not stacked here: replay stores every frame once and puts `stack` of them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[Any]  # (C, H, W) uint8 or (dim,) float32
Picture = NDArray[np.uint8]  # (height, width, 3)


class Step(NamedTuple):
    """What one action led to.

    reward        what the learner is paid; in Atari training the sign of raw_reward
    raw_reward    what the environment paid; scores are sums of it
    terminated    nothing follows that the learner could earn: do not bootstrap
    truncated     only the time is up: bootstrap, then reset
    episode_over  the next reset() starts anew; when a life is lost the game goes on instead
    """

    frame: Frame
    reward: float
    raw_reward: float
    terminated: bool
    truncated: bool
    episode_over: bool


class FrameEnv(Protocol):
    """An environment with discrete actions 0..n_actions - 1 that gives one frame a step.

    name         the one name of this environment, whichever spelling it was asked by
    frame_shape  (C, H, W) of uint8, or (dim,) of float32
    stack        frames that make up an observation, oldest first
    value_range  smallest and largest discounted return at discount .99 of the learner's rewards,
                 for the support of C51; a bonus comes on top
    frame        the newest frame: what the learner sees now
    episode      how many episodes began before this one; -1 before the first reset()
    n_steps      actions since this episode began, over all its lives
    raw_return   sum of the raw rewards of this episode so far: its score
    """

    name: str
    frame_shape: tuple[int, ...]
    stack: int
    n_actions: int
    value_range: tuple[float, float]

    @property
    def frame(self) -> Frame: ...
    @property
    def episode(self) -> int: ...
    @property
    def n_steps(self) -> int: ...
    @property
    def raw_return(self) -> float: ...

    def reset(self) -> Frame:
        """Begin an episode, or go on with the game in which a life was lost; the first frame."""
        ...

    def step(self, action: int) -> Step:
        """Take an action; after `terminated` or `truncated` call reset() first."""
        ...

    def render(self) -> Picture:
        """A picture of the present moment for people."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where the episode stands: arrays and JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to where `state_dict` was taken; an error if that place cannot be reached."""
        ...
