"""The combination lock: one action in A keeps a good state open, at every step, or all is lost.

The tabular form of BRIEE's lock (Zhang et al., 2022). Two good states and one dead latent, which is
shown as one of `n_dead` observations at random. Its kernel has rank 2: still in, or dead. In the
game, the one action is a joint one: two players have to do the right thing at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.games import TabularGame, action_counts
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP

BRIBE = 0.1  # paid with probability 1/2 for leaving the good states: it points the wrong way
SURRENDER = 0.5  # what a guard pays who does not let it come to the last step


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
        self.combination = stream(seed, "env").integers(n_actions, size=(horizon, 2))
        right = np.eye(n_actions)[self.combination]  # (H, 2, A)
        rewards, scale = _with_bribes(1 - right)
        _pay(right, rewards, scale)
        arrays = _lock_arrays(right, rewards, scale, n_dead)
        super().__init__(**arrays, name="lock", render_mode=render_mode)


class LockGame(TabularGame):
    """A vault, an intruder (row) with keys and a guard (column) with gates; states as in `Lock`.

    `combination` (H, 2, 2) holds, for every step, good state and player, the right key a* and the
    right gate b*. Only both together advance, to either good state with probability 1/2; any other
    joint action moves to the dead states for ever. In a good state, the row player receives

                     right gate                      wrong gate (the guard surrenders)
        right key    0; +1 at the last step          +.5
        wrong key    +.1 with probability 1/2        +.5

    Who has not seen the last step is bribed to turn away, and never surrenders: an intruder who
    knows the keys takes 1 from such a guard, and the guard gives .05 to such an intruder, so that
    together they lose up to .95. Between players who know the vault, the guard surrenders at the
    last step if not before, because the intruder would get in: the value is .5, whatever H is.
    Nobody goes to the last step in that equilibrium, and yet both have to know what is there.
    """

    reveals_reward = False
    suggested_alpha = 1.0  # everything is hidden behind the last step
    solved_gap = 0.05

    def __init__(
        self,
        horizon: int = 5,
        n_actions: int | Sequence[int] = 3,
        n_dead: int = 10,
        seed: int = 0,
        *,
        render_mode: str | None = None,
    ):
        check_size("horizon", horizon)
        check_size("n_dead", n_dead)
        counts = action_counts(n_actions, least=2)
        self.combination = stream(seed, "env").integers(counts, size=(horizon, 2, 2))
        key = np.eye(counts[0])[self.combination[..., 0]][..., :, None]  # (H, 2, A1, 1)
        gate = np.eye(counts[1])[self.combination[..., 1]][..., None, :]  # (H, 2, 1, A2)
        right = key * gate
        rewards, scale = _with_bribes((1 - key) * gate)
        for payoff in (rewards, scale):
            payoff += SURRENDER * (1 - gate)
        _pay(right, rewards, scale)
        arrays = _lock_arrays(right, rewards, scale, n_dead)
        super().__init__(**arrays, name="lock-game", render_mode=render_mode)


def _lock_arrays(right: Array, rewards: Array, scale: Array, n_dead: int) -> dict[str, Any]:
    """What a lock is made of, from arrays (H, 2, *A) over its good states."""
    return {
        "transitions": _lock_kernel(right, n_dead),
        "rewards": _with_dead(rewards, n_dead),
        "initial": _good(n_dead),
        "reward_scale": _with_dead(scale, n_dead),
    }


def _lock_kernel(right: Array, n_dead: int) -> Kernel:
    """The kernel in which only what is right stays among the good states.

    right  (H, 2, *A)  1 for the right (joint) action of each good state, else 0
    """
    horizon = len(right)
    stays = _with_dead(right, n_dead)
    features = np.stack([stays, 1 - stays], axis=-1).reshape(horizon, -1, 2)
    dead = np.repeat([0.0, 1 / n_dead], [2, n_dead])
    return Kernel(features, np.tile([_good(n_dead), dead], (horizon, 1, 1)))


def _with_bribes(bribed: Array) -> tuple[Array, Array]:
    """Mean rewards and their scale, where BRIBE is paid half of the time.   (H, 2, *A), 0 or 1"""
    return BRIBE / 2 * bribed, BRIBE * bribed


def _pay(right: Array, *payoffs: Array) -> None:
    """Add the prize: 1 for what is right at the last step."""
    for payoff in payoffs:
        payoff[-1] += right[-1]


def _good(n_dead: int) -> Array:
    """The uniform distribution (S,) over the two good states."""
    return np.repeat([0.5, 0.0], [2, n_dead])


def _with_dead(good: Array, n_dead: int) -> Array:
    """An array (H, 2, *A) over the good states, with zeros for the dead ones: (H, S, *A)."""
    return np.pad(good, [(0, 0), (0, n_dead), *((0, 0) for _ in good.shape[2:])])
