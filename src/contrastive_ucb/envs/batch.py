"""Finite MDPs or games of equal size stacked along a leading seed axis B.

The two actions of a game are one joint action here, a * A2 + b, so that sampling, fitting and
bonuses use the same code for MDPs and games. `action_shape` recovers the individual actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP

Env = TabularMDP | TabularGame


@dataclass
class EnvBatch:
    """B finite MDPs or games of one class and size, one per seed.

    kernel        features (B, H, Z, d), measures (B, H, d, S) or None
    rewards       (B, H, S, A)   mean rewards
    reward_scale  (B, H, S, A)   observed with probability rewards / reward_scale, else 0
    initial       (B, S)
    action_shape  (A,) for MDPs, (A1, A2) for games, where A = A1 A2
    """

    kernel: Kernel
    rewards: Array
    reward_scale: Array
    initial: Array
    action_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self.n_seeds, self.horizon, self.n_states, self.n_actions = self.rewards.shape
        self.n_pairs = self.n_states * self.n_actions

    @staticmethod
    def of(envs: Sequence[Env]) -> EnvBatch:
        """Stack MDPs or games that have the same H, S, A and rank of the factors."""
        sizes = {(*env.rewards.shape, env.kernel.features.shape[-1]) for env in envs}
        if len(sizes) != 1:
            raise ValueError(
                f"a batch needs environments of one size, got (H, S, A, d) = {sorted(sizes)}; "
                "run each size separately"
            )
        kinds = {  # agents depend on these properties
            (e.kernel.measures is None, e.rank, e.reveals_reward, e.suggested_alpha, e.solved_gap)
            for e in envs
        }
        if len(kinds) != 1:
            names = ", ".join(sorted({env.name for env in envs}))
            raise ValueError(
                f"a batch needs environments of one kind, got {names}; run each kind separately"
            )
        known = [env.kernel.measures for env in envs if env.kernel.measures is not None]
        scales = [env.rewards if env.reward_scale is None else env.reward_scale for env in envs]
        horizon, n_states, *actions = envs[0].rewards.shape
        joint = (len(envs), horizon, n_states, -1)
        return EnvBatch(
            Kernel(_stack([env.kernel.features for env in envs]), _stack(known) if known else None),
            _stack([env.rewards for env in envs]).reshape(joint),
            _stack(scales).reshape(joint),
            _stack([env.initial for env in envs]),
            tuple(actions),
        )


def draw(probs: Array, uniform: Array) -> IntArray:
    """Indices drawn by inversion of the cumulative probabilities.

    probs    (..., n)  distributions
    uniform  (...)     numbers in [0, 1); returns (...)
    """
    below = probs.cumsum(-1)[..., :-1]  # without the last, which rounding could put below 1
    return np.asarray((below <= uniform[..., None]).sum(-1))


def _stack(arrays: list[Array]) -> Array:
    """Arrays stacked on a leading axis; a single one is a view, since it may be large."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)
