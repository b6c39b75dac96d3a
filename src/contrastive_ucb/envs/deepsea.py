"""The deep sea: N moves to the right in a row find the treasure, every single one costs a little.

bsuite's DeepSea (Osband et al., 2020) on an N x N grid: the row is the step, the column the state.
Which of the two actions means right is drawn for every cell. bsuite charges .01/N for going right;
here every step earns .01/N on top, so that rewards lie in [0, 1] and values are bsuite's plus .01.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.checks import check_size
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.training.streams import stream

MOVE_COST = 0.01  # of N moves to the right


class DeepSea(TabularMDP):
    """N steps on N columns; going right in the last cell pays 1; V* = 1, and .01 without treasure.

    `right` (N, N) is the action that goes right in the cell of that row and column.
    """

    reveals_reward = False
    suggested_alpha = 0.1  # its return is at most 1, not H
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
