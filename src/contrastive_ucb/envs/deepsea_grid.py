"""The deep sea for networks: envs/deepsea.py with the diver's cell as a one-hot vector.

It is solved at the first episode by which fewer than 90% of the episodes so far were bad, that is,
ended without the treasure; bsuite counts the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrastive_ucb.envs.deepsea import DeepSea
from contrastive_ucb.envs.frames import Frame, Picture, Step
from contrastive_ucb.envs.snapshot import ReplayedEnv

BAD_SHARE = 0.9
CELL = 16  # pixels of a cell in pictures


class DeepSeaGrid(ReplayedEnv):
    """N x N cells, N steps; the frame is the cell (N * N,), all zeros once the bottom is reached.

    The seed draws which action goes right in which cell, so all roles of a seed dive in one sea.
    """

    n_actions = 2
    value_range = (0.0, 1.0)

    def __init__(self, size: int, *, seed: int, role: str = "train"):
        super().__init__(seed=seed, role=role)
        self.sea = DeepSea(size, seed)
        self.name = f"DeepSea-{size}"
        self.frame_shape = (size * size,)

    def render(self) -> Picture:
        size = self.sea.horizon
        cells = np.zeros((size, size, 3), dtype=np.uint8)
        cells[-1, -1] = 255, 200, 0  # the treasure
        cells[self.frame.reshape(size, size) > 0] = 255
        return cells.repeat(CELL, 0).repeat(CELL, 1)

    def _begin(self, random: np.random.Generator) -> Frame:
        return self._one_hot(self.sea.reset(seed=int(random.integers(2**32)))[0])

    def _advance(self, action: int) -> Step:
        place, reward, terminated, truncated, _ = self.sea.step(action)
        over = terminated or truncated
        return Step(self._one_hot(place), reward, reward, terminated, truncated, over)

    def _one_hot(self, place: Sequence[int] | np.ndarray) -> Frame:
        row, column = place
        size = self.sea.horizon
        cells = np.zeros((size + 1, size), dtype=np.float32)  # the last row is no cell
        cells[row, column] = 1
        return cells[:size].reshape(-1)


def solved_at(raw_returns: Sequence[float]) -> int | None:
    """The number of episodes after which the sea counted as solved; None: not yet.

    raw_returns  of all training episodes in their order; without treasure at most .01
    """
    bad = np.cumsum(np.asarray(raw_returns) < 0.5)
    solved = bad < BAD_SHARE * np.arange(1, len(bad) + 1)
    return int(solved.argmax()) + 1 if solved.any() else None
