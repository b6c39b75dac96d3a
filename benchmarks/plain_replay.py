"""The memory of the yardstick: whole windows, put together observation by observation."""

from dataclasses import dataclass

import numpy as np

STACK, SIZE = 4, 84  # frames an observation, pixels of their sides
N_STEP, JUMPS = 10, 5
WINDOW = N_STEP + JUMPS + 1  # observations of a drawn window


@dataclass(frozen=True)
class Windows:
    """What the replay gives: B windows of T = 16 steps, whatever episodes they belong to.

    observations  (B, T, 4, 84, 84) uint8; after an end at a step e <= K that of e repeats
    actions, previous  (B, T)  the action taken at each step, and at the one before
    rewards       (B, T)
    ends          (B, T)  whether the episode ended with this step
    weights       (B,)    importance weights
    index         (B,)    for the priorities
    """

    observations: np.ndarray
    actions: np.ndarray
    previous: np.ndarray
    rewards: np.ndarray
    ends: np.ndarray
    weights: np.ndarray
    index: np.ndarray


class PlainReplay:
    """Frames in one array, an entry a step; windows are put together observation by observation.

    frames   (n, 84, 84) uint8
    actions, rewards, ends  (n,)
    """

    def __init__(
        self,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        ends: np.ndarray,
        seed: int = 0,
    ):
        self.frames, self.actions, self.rewards, self.ends = frames, actions, rewards, ends
        self.start = np.zeros(len(frames), dtype=int)  # first entry of the episode
        for t in range(1, len(frames)):
            self.start[t] = t if ends[t - 1] else self.start[t - 1]
        self.drawable = np.arange(STACK - 1, len(frames) - WINDOW)
        self.priority = np.ones(len(frames))
        self.rng = np.random.default_rng(seed)

    def sample(self, size: int = 32) -> Windows:
        mass = np.sqrt(self.priority[self.drawable])
        mass /= mass.sum()
        drawn = self.rng.choice(len(mass), size, p=mass)
        index = self.drawable[drawn]
        weights = (mass[drawn].min() / mass[drawn]) ** 0.4
        observations = np.empty((size, WINDOW, STACK, SIZE, SIZE), np.uint8)
        for i, first in enumerate(index):
            end = self.ends[first : first + JUMPS + 1].argmax()
            last = first + end if self.ends[first + end] else first + WINDOW
            for step in range(WINDOW):
                observations[i, step] = self.observation(min(first + step, last))
        times = index[:, None] + np.arange(WINDOW)
        return Windows(
            observations,
            self.actions[times],
            self.actions[times - 1],
            self.rewards[times],
            self.ends[times],
            weights,
            index,
        )

    def observation(self, t: int) -> np.ndarray:
        """The last four frames (4, 84, 84), blank before the episode began."""
        oldest = t + 1 - STACK
        stack = self.frames[oldest : t + 1].copy()
        stack[: max(0, self.start[t] - oldest)] = 0
        return stack

    def update_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        self.priority[index] = np.maximum(priority, 1e-6)
