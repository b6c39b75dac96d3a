"""Combination locks with rich observations: the states of `Lock` in rotated noise.

The lock of BRIEE (Zhang et al., 2022). In latent s (0 and 1 good, 2 dead) at step h = 0..H,

    v = e_s + e_{3+h} + noise,  noise N(0, .1^2) on the first H + 3 of D coordinates,
    o = Hadamard(D) v,          D = 2^ceil(log2(H + 4)), Sylvester's +-1 matrix, not scaled.

No two observations are equal, so methods that count states cannot solve it. The reward is learned,
since a known reward reveals the combination (erratum E15).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.finite_twin import EmissionEnv
from contrastive_ucb.envs.lock import Lock, LockGame
from contrastive_ucb.envs.observed import ObservedMDP, Random

NOISE = 0.1
LATENTS = 3


class RichLockEnv(EmissionEnv):
    """The observations shared by the lock for one player and the lock for two."""

    def __init__(self, base: Lock | LockGame):
        from scipy.linalg import hadamard  # not imported by commands that only list runs

        self.rotation: Array = hadamard(observation_size(base.horizon), dtype=np.float64)
        unbounded = np.full(len(self.rotation), np.inf)
        super().__init__(base, -unbounded, unbounded)
        self.stops_when_solved = True
        # gamma = 1, since the return is at most 1, not H. With H = 24, gamma = 2 reached the last
        # step earlier, but one of two seeds had not converged 100 rounds later.
        self.suggested_alpha = 1 / base.horizon
        self.name = f"rich-{base.name}"

    def emit(self, step: int, states: IntArray, random: Random) -> Array:
        count, n_noisy = len(states), self.horizon + LATENTS
        v = np.zeros((count, len(self.rotation)))
        v[:, :n_noisy] = NOISE * random.standard_normal((count, n_noisy))
        v[np.arange(count), states] += 1
        v[:, LATENTS + step] += 1
        return np.asarray(v @ self.rotation)


class RichLock(RichLockEnv, ObservedMDP):
    """`Lock` with rich observations: no two observations are equal, so states cannot be counted.

    The one-hot vectors of the latent state and of the step, plus Gaussian noise, are rotated by a
    Hadamard matrix (Zhang et al., 2022). An agent has solved it when five evaluations in a row of
    20 episodes each all return 1.

    Args:
        horizon: H, the length of the combination.
        n_actions: A.
        seed: Seed of the combination.

    Examples:
        >>> import contrastive_ucb as cu
        >>> env = cu.RichLock(horizon=6)
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape
        (16,)
    """

    solved_return = 1.0
    # Of 0, 0.5, 1.5 and 2 (H = 24, seed 0), 0.5 was fastest: two to three rounds per step, where 0
    # needed four or more. With 1.5 and 2 many rounds failed at step 1.
    suggested = MappingProxyType({"weight_decay": 0.5})

    def __init__(self, horizon: int = 6, n_actions: int = 10, seed: int = 0):
        super().__init__(Lock(horizon, n_actions, n_dead=1, seed=seed))
        self.n_actions, self.seed = n_actions, seed
        self.solved_gap = None  # `solved_return` is the criterion
        self._set_spaces()


class RichLockGame(RichLockEnv):
    """`LockGame` with rich observations that both players see.

    A wrong key and a wrong gate lead to the same dead state with different rewards, so the reward
    is not a function of the next state and has to be predicted, too.

    Args:
        horizon: H.
        n_actions: (A1, A2), or one number for both players.
        seed: Seed of the correct keys and gates.

    Examples:
        >>> import contrastive_ucb as cu
        >>> cu.RichLockGame(horizon=4, n_actions=3)
        RichLockGame(size=8, n_actions=(3, 3), H=4)
    """

    suggested = MappingProxyType({"foresee_reward": "on"})

    def __init__(self, horizon: int = 4, n_actions: int | Sequence[int] = 3, seed: int = 0):
        super().__init__(LockGame(horizon, n_actions, n_dead=1, seed=seed))
        self.n_actions, self.seed = list(self.action_shape), seed


def observation_size(horizon: int) -> int:
    """D, the smallest power of 2 that holds the latents and the steps 0..H."""
    return 1 << (horizon + LATENTS).bit_length()
