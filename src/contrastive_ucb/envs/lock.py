"""The combination lock: one action in A keeps a good state open, at every step, or all is lost.

The tabular form of BRIEE's lock (Zhang et al., 2022). Two good states and one dead latent, which is
shown as one of `n_dead` observations at random. Its kernel has rank 2: still in, or dead.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.checks import check_size
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.training.streams import stream

BRIBE = (
    0.1  # paid with probability 1/2 for leaving the good states: the shaping points the wrong way
)


class Lock(TabularMDP):
    """States 0 and 1 are good, 2 .. 1 + n_dead are dead; an episode starts in a good one; V* = 1.

    The right action, `combination` (H, 2), is drawn for every step and good state. It moves to
    either good state with probability 1/2; any other action moves to the dead states for ever.
    The right action at the last step pays 1; a move from good to dead pays .1 with probability 1/2.
    """

    reveals_reward = False
    suggested_alpha = 1.0  # everything is hidden behind the last step
    solved_gap = 0.05

    def __init__(
        self,
        horizon: int = 6,
        n_actions: int = 10,
        n_dead: int = 1,
        seed: int = 0,
        *,
        render_mode: str | None = None,
    ):
        check_size("horizon", horizon)
        check_size("n_actions", n_actions)
        check_size("n_dead", n_dead)
        n_states = 2 + n_dead
        self.combination = stream(seed, "env").integers(n_actions, size=(horizon, 2))
        right = np.zeros((horizon, n_states, n_actions))
        right[:, :2] = np.eye(n_actions)[self.combination]
        features = np.stack([right, 1 - right], axis=-1).reshape(horizon, n_states * n_actions, 2)
        good = np.repeat([0.5, 0.0], [2, n_dead])
        dead = np.repeat([0.0, 1 / n_dead], [2, n_dead])
        scale = np.zeros_like(right)
        scale[:, :2] = BRIBE * (1 - right[:, :2])
        rewards = scale / 2
        rewards[-1] += right[-1]
        scale[-1] += right[-1]
        super().__init__(
            Kernel(features, np.tile([good, dead], (horizon, 1, 1))),
            rewards,
            good,
            reward_scale=scale,
            name="lock",
            render_mode=render_mode,
        )
