"""DeepSea of bsuite (Osband et al., 2020), as a finite MDP and as frames for deep agents.

On an N x N grid the row is the step and the column is the state. Only N moves to the right reach
the treasure, and each of them has a small cost. The action that means "right" is drawn for every
cell. bsuite charges 0.01/N per move to the right; here every step earns an additional 0.01/N, so
that rewards lie in [0, 1] and values are those of bsuite plus 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.frames import Frame, FrameEnv, Picture, Step
from contrastive_ucb.envs.tabular import TabularMDP

MOVE_COST = 0.01  # total cost of N moves to the right
BAD_SHARE = 0.9  # bsuite: solved when fewer than this share of episodes miss the treasure
CELL = 16  # pixels per cell in rendered images


class DeepSea(TabularMDP):
    """DeepSea of bsuite as a finite MDP: N steps on N columns; V* = 1 (0.01 without the treasure).

    The row is the step and the column is the state. Only N moves to the right reach the treasure,
    which pays 1. Every step earns 0.01/N, except moves to the right, which pay 0.

    Args:
        size: N.
        seed: Seed of the action that moves right in each cell.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Attributes:
        right: The action that moves right in each cell (row, column), shape (N, N).

    Examples:
        >>> import contrastive_ucb as cu
        >>> env = cu.DeepSea(size=5)
        >>> env.n_states, env.horizon
        (5, 5)
        >>> round(cu.optimal_value(env), 6)
        1.0
    """

    reveals_reward = False
    suggested_alpha = 0.1  # the return is at most 1, not H
    solved_gap = 0.05

    def __init__(self, size: int = 10, seed: int = 0, *, render_mode: str | None = None):
        check_size("size", size)
        self.right = stream(seed, "env").integers(2, size=(size, size))
        goes_right = np.eye(2)[self.right][..., None]  # (N, N, 2, 1)
        columns = np.arange(size)
        to_left = np.eye(size)[np.maximum(columns - 1, 0)][:, None]  # (N, 1, N)
        to_right = np.eye(size)[np.minimum(columns + 1, size - 1)][:, None]
        rewards = MOVE_COST / size * (1 - goes_right[..., 0])
        rewards[-1, -1, self.right[-1, -1]] = 1.0
        super().__init__(
            goes_right * to_right + (1 - goes_right) * to_left,
            rewards,
            rank=size,
            name="deepsea",
            render_mode=render_mode,
        )


class DeepSeaGrid(FrameEnv):
    """`DeepSea` with one-hot frames (N * N,) of the cell; all zeros at the end of the episode.

    The seed determines the actions that move right, so training and evaluation share one task.
    """

    n_actions = 2
    value_range = (0.0, 1.0)

    def __init__(self, size: int, *, seed: int, role: str = "train"):
        super().__init__(seed=seed, role=role)
        self.size, self.name, self.frame_shape = size, f"DeepSea-{size}", (size * size,)
        self.right = stream(seed, "env").integers(2, size=(size, size))  # as in `DeepSea`
        self._column = 0

    def render(self) -> Picture:
        cells = np.zeros((self.size, self.size, 3), dtype=np.uint8)
        cells[-1, -1] = 255, 200, 0  # the treasure
        cells[self.frame.reshape(self.size, self.size) > 0] = 255
        return cells.repeat(CELL, 0).repeat(CELL, 1)

    def _begin(self, random: np.random.Generator) -> Frame:
        self._column = 0
        return self._one_hot(row=0)

    def _advance(self, action: int) -> Step:
        row, column, last = self.n_steps - 1, self._column, self.size - 1
        goes_right = action == self.right[row, column]
        finds_treasure = goes_right and row == column == last
        reward = float(finds_treasure) if goes_right else MOVE_COST / self.size
        self._column = min(column + 1, last) if goes_right else max(column - 1, 0)
        over = row == last
        return Step(self._one_hot(row + 1), reward, reward, over, False, over)

    def _one_hot(self, row: int) -> Frame:
        cells = np.zeros((self.size + 1, self.size), dtype=np.float32)  # the last row is the end
        cells[row, self._column] = 1
        return cells[:-1].reshape(-1)


def solved_at(raw_returns: Sequence[float]) -> int | None:
    """The number of episodes after which the task counts as solved; None if it is not solved.

    raw_returns  of all training episodes in order; at most 0.01 without the treasure
    """
    bad = np.cumsum(np.asarray(raw_returns) < 0.5)
    solved = bad < BAD_SHARE * np.arange(1, len(bad) + 1)
    return int(solved.argmax()) + 1 if solved.any() else None
