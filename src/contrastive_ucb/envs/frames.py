"""The interface between the deep agents and environments: one frame and reward per step.

Frames are not stacked here: the replay memory stores every frame once and stacks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[Any]  # (C, H, W) uint8 or (dim,) float32
Picture = NDArray[np.uint8]  # (height, width, 3)


class Step(NamedTuple):
    """The outcome of one action.

    reward        for the learner; in Atari training the sign of raw_reward
    raw_reward    of the environment; scores are sums of it
    terminated    terminal state: do not bootstrap
    truncated     time limit: bootstrap, then reset
    episode_over  the next reset() starts a new episode; False if only a life was lost
    """

    frame: Frame
    reward: float
    raw_reward: float
    terminated: bool
    truncated: bool
    episode_over: bool


class FrameEnv(Protocol):
    """An environment with discrete actions 0..n_actions - 1 and one frame per step.

    name         canonical id
    frame_shape  (C, H, W) of uint8, or (dim,) of float32
    stack        frames per observation, oldest first
    value_range  smallest and largest return of the learner's rewards at discount .99, for the
                 support of C51; without a bonus
    frame        the newest frame
    episode      number of this episode from 0; -1 before the first reset()
    n_steps      actions in this episode, over all lives
    raw_return   score: sum of the raw rewards of this episode
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
        """Start an episode, or continue the game after a lost life; returns the first frame."""
        ...

    def step(self, action: int) -> Step:
        """Take an action; after `terminated` or `truncated` call reset() first."""
        ...

    def render(self) -> Picture:
        """An RGB image of the current state."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The state of the episode: arrays and JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; raises an error if it cannot be reproduced."""
        ...
