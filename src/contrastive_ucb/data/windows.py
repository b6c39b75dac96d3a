"""What a world model learns from: a few steps in a row with the frames around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.arrays import BoolArray, IntArray
from contrastive_ucb.data.history import Frames, History
from contrastive_ucb.data.nstep import first_end, jump_mask


@dataclass(frozen=True)
class Windows:
    """T steps from each of B times on; those after the end of the episode do not count.

    frames      (B, stack + T, C, ...)  those of the first observation, then one a step
    actions     (B, T)
    rewards     (B, T)
    terminated  (B, T)
    alive       (B, T)  whether the step belongs to the episode of the first one
    shown       (B, T)  whether the frame after it does, and there is anything to see in it
    """

    frames: Frames
    actions: IntArray
    rewards: NDArray[np.float64]
    terminated: BoolArray
    alive: BoolArray
    shown: BoolArray


def read_windows(history: History, times: IntArray, length: int) -> Windows:
    """The windows of `length` steps from `times` (B,) on.

    All steps up to `length`, or to the end of the episode, must be stored.
    """
    steps = history.following(times, length)
    terminated, truncated = history.at("terminated", steps), history.at("truncated", steps)
    last = first_end(terminated, truncated)[:, None]
    # Entries of an episode lie side by side; behind its closing entry that one repeats.
    around = np.arange(1 - history.stack, length + 1)
    frames = history.frames(
        times[:, None] + np.minimum(around, last + 1), history.at("start", times)[:, None]
    )
    return Windows(
        frames=frames,
        actions=history.at("action", steps),
        rewards=history.at("reward", steps),
        terminated=terminated,
        alive=np.arange(length) <= last,
        shown=jump_mask(terminated, truncated, length),
    )
