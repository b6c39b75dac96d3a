"""Combination locks: at every step only one of A actions stays in the good states.

The tabular form of the lock of BRIEE (Zhang et al., 2022). There are two good states and one dead
latent, which is observed as one of `n_dead` states at random. The kernel has rank 2 (good, dead).
In the game the correct action is a joint action: both players have to choose correctly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP, action_counts

BRIBE = 0.1  # distractor reward, paid with probability 1/2 for leaving the good states
SURRENDER = 0.5  # paid by the guard for a wrong gate, which ends the game early


class Lock(TabularMDP):
    """A combination lock: at every step only one action stays in the good states; V* = 1.

    States 0 and 1 are good, 2 .. 1 + n_dead are dead. Episodes start in a good state. The correct
    action is drawn for every step and good state. It moves to either good state with probability
    1/2; any other action moves to the dead states, which are absorbing. The correct action pays 1
    at the last step; a move from good to dead pays 0.1 with probability 1/2, a distractor. This is
    the tabular form of the lock of BRIEE (Zhang et al., 2022).

    Args:
        horizon: H, the length of the combination.
        n_actions: A.
        n_dead: Number of dead states; one of them is observed at random.
        seed: Seed of the combination.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Attributes:
        combination: The correct action for each step and good state, shape (H, 2).

    Examples:
        >>> import contrastive_ucb as cu
        >>> env = cu.Lock(horizon=6, n_actions=5, n_dead=20)
        >>> env.combination.shape
        (6, 2)
        >>> round(cu.optimal_value(env), 6)
        1.0
    """

    reveals_reward = False
    suggested_alpha = 1.0  # the reward is paid at the last step only
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
        arrays = _lock_arrays(right, n_dead, bribed=1 - right)
        super().__init__(**arrays, name="lock", render_mode=render_mode)


class LockGame(TabularGame):
    """A combination lock for two players: an intruder (row) chooses keys, a guard (column) gates.

    The states are those of `Lock`. The correct key and the correct gate together move to either
    good state with probability 1/2; any other joint action moves to the dead states, which are
    absorbing. In a good state the row player gets

    | | correct gate | wrong gate (the guard surrenders) |
    |---|---|---|
    | correct key | 0; +1 at the last step | +0.5 |
    | wrong key | +0.1 with probability 1/2 | +0.5 |

    Players that have not explored the last step prefer the distractor reward and never surrender.
    A best response to such a guard earns 1, and a best response to such an intruder pays 0.05, so
    the exploitability of the pair is up to 0.95. In equilibrium the guard surrenders at the last
    step or before, since the intruder would otherwise earn 1: the value is 0.5 for every H. Play in
    equilibrium need not reach the last step, but both players have to know its rewards.

    Args:
        horizon: H.
        n_actions: (A1, A2), at least 2 each, or one number for both players.
        n_dead: Number of dead states; one of them is observed at random.
        seed: Seed of the correct keys and gates.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Attributes:
        combination: The correct key and gate for each step and good state, shape (H, 2, 2).

    Examples:
        >>> import contrastive_ucb as cu
        >>> game = cu.LockGame(horizon=3, n_actions=2)
        >>> round(cu.nash_value(game), 6)
        0.5
    """

    reveals_reward = False
    suggested_alpha = 1.0  # the reward is paid at the last step only
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
        arrays = _lock_arrays(
            key * gate, n_dead, bribed=(1 - key) * gate, surrendered=SURRENDER * (1 - gate)
        )
        super().__init__(**arrays, name="lock-game", render_mode=render_mode)


def _lock_arrays(
    right: Array, n_dead: int, bribed: Array, surrendered: Array | float = 0.0
) -> dict[str, Any]:
    """The arguments of TabularMDP or TabularGame, from arrays (H, 2, *A) over the good states.

    right        1 for the correct (joint) action of each good state, else 0
    bribed       1 where BRIBE is paid half of the time
    surrendered  the other rewards
    """
    horizon = len(right)
    dead_states = [(0, 0), (0, n_dead), *((0, 0) for _ in right.shape[2:])]
    payoffs = []
    for bribe in (BRIBE / 2, BRIBE):  # the mean and the scale
        payoff = bribe * bribed + surrendered
        payoff[-1] += right[-1]
        payoffs.append(np.pad(payoff, dead_states))
    stays = np.pad(right, dead_states)  # only the correct action stays in the good states
    features = np.stack([stays, 1 - stays], axis=-1).reshape(horizon, -1, 2)
    good, dead = np.repeat([0.5, 0.0], [2, n_dead]), np.repeat([0.0, 1 / n_dead], [2, n_dead])
    return {
        "transitions": Kernel(features, np.tile([good, dead], (horizon, 1, 1))),
        "rewards": payoffs[0],
        "initial": good,
        "reward_scale": payoffs[1],
    }
