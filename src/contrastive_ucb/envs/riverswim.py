"""RiverSwim: a chain in which the action against the current leads to the larger reward.

Strehl and Littman (2008), with the probabilities of Osband et al. (2013).
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.tabular import TabularMDP

LEFT_BANK, RIGHT_BANK = 0.005, 1.0  # rewards at the two banks
DRIFT, STAY, AHEAD = 0.05, 0.6, 0.35  # swimming right in the middle of the river


class RiverSwim(TabularMDP):
    """A chain of states; action 0 moves left with certainty, action 1 swims right, upstream.

    Episodes start at the left bank. Action 0 pays 0.005 there; action 1 pays 1 at the right bank.
    From Strehl and Littman (2008), with the probabilities of Osband et al. (2013).

    Args:
        n_states: S, at least 2.
        horizon: H.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Examples:
        >>> import numpy as np
        >>> import contrastive_ucb as cu
        >>> env = cu.RiverSwim(n_states=6, horizon=20)
        >>> always_right = np.ones((20, 6), dtype=int)
        >>> cu.suboptimality(env, always_right) < 0.01
        True
    """

    suggested_alpha = 0.1  # rewards are frequent, so a bonus proportional to H is too large

    def __init__(self, n_states: int = 6, horizon: int = 20, *, render_mode: str | None = None):
        check_size("n_states", n_states, least=2)
        check_size("horizon", horizon)
        step = np.zeros((n_states, 2, n_states))  # the same at every step
        step[:, 0] = np.eye(n_states)[np.maximum(np.arange(n_states) - 1, 0)]
        step[:, 1] = (
            DRIFT * np.eye(n_states, k=-1) + STAY * np.eye(n_states) + AHEAD * np.eye(n_states, k=1)
        )
        step[0, 1, :2] = 0.4, 0.6
        step[-1, 1, -2:] = 0.4, 0.6
        rewards = np.zeros((horizon, n_states, 2))
        rewards[:, 0, 0] = LEFT_BANK
        rewards[:, -1, 1] = RIGHT_BANK
        super().__init__(
            np.tile(step, (horizon, 1, 1, 1)),
            rewards,
            rank=n_states,
            name="riverswim",
            render_mode=render_mode,
        )
