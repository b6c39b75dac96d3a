"""Several finite MDPs or games of one size side by side, one a seed: a leading seed axis B.

The two actions of a game are one joint action here, a * A2 + b, so that whatever does not choose
actions (sampling, fitting, bonuses) is the same for MDPs and games. `action_shape` splits it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.games import TabularGame
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP

Env = TabularMDP | TabularGame


@dataclass(frozen=True)
class EnvBatch:
    """B finite MDPs, or B games, that differ in their numbers only.

    kernel        features (B, H, Z, d), measures (B, H, d, S) or none
    rewards       (B, H, S, A)   mean rewards
    reward_scale  (B, H, S, A)   the reward seen is this with probability rewards / reward_scale
    initial       (B, S)
    action_shape  (A,) for MDPs, (A1, A2) for games; A above is their product
    """

    kernel: Kernel
    rewards: Array
    reward_scale: Array
    initial: Array
    action_shape: tuple[int, ...]

    @staticmethod
    def of(envs: Sequence[Env]) -> EnvBatch:
        """Stack MDPs or games; they must agree in H, S, A and in the size of their factors."""
        sizes = {(*env.rewards.shape, env.kernel.features.shape[-1]) for env in envs}
        if len(sizes) != 1:
            raise ValueError(
                f"a batch needs environments of one size, got (H, S, A, d) = {sorted(sizes)}; "
                "run the sizes one after another"
            )
        kinds = {_kind(env) for env in envs}
        if len(kinds) != 1:
            names = ", ".join(sorted({env.name for env in envs}))
            raise ValueError(f"a batch needs environments of one kind, got {names}; run them apart")
        measures = [env.kernel.measures for env in envs]
        known = [table for table in measures if table is not None]
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

    @property
    def n_seeds(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        return int(self.rewards.shape[1])

    @property
    def n_states(self) -> int:
        return int(self.rewards.shape[2])

    @property
    def n_actions(self) -> int:
        return int(self.rewards.shape[3])

    @property
    def n_pairs(self) -> int:
        return self.n_states * self.n_actions


def draw(probs: Array, uniform: Array) -> IntArray:
    """Indices drawn by inverting the cumulated probabilities.

    probs    (..., n)  distributions
    uniform  (...)     numbers in [0, 1); returns (...)
    """
    below = probs.cumsum(-1)[..., :-1]  # the last is 1 and never below, whatever the rounding
    return np.asarray((below <= uniform[..., None]).sum(-1))


def _kind(env: Env) -> tuple[object, ...]:
    """What decides how an agent treats an MDP or a game; in a batch it is the same for all."""
    table = env.kernel.measures is None
    return table, env.rank, env.reveals_reward, env.suggested_alpha, env.solved_gap


def _stack(arrays: list[Array]) -> Array:
    """One array a seed on a leading axis; a single seed is a view, since it may be large."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)
