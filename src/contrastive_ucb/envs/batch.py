"""Several finite MDPs of one size side by side, one a seed: arrays with a leading seed axis B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP


@dataclass(frozen=True)
class MDPBatch:
    """B finite MDPs that differ in their numbers only.

    kernel        features (B, H, Z, d), measures (B, H, d, S) or none
    rewards       (B, H, S, A)   mean rewards
    reward_scale  (B, H, S, A)   the reward seen is this with probability rewards / reward_scale
    initial       (B, S)
    """

    kernel: Kernel
    rewards: Array
    reward_scale: Array
    initial: Array

    @staticmethod
    def of(mdps: Sequence[TabularMDP]) -> MDPBatch:
        """Stack MDPs; they must agree in H, S, A and in the size of their factors."""
        sizes = {(*mdp.rewards.shape, mdp.kernel.features.shape[-1]) for mdp in mdps}
        if len(sizes) != 1:
            raise ValueError(
                f"a batch needs MDPs of one size, got (H, S, A, d) = {sorted(sizes)}; "
                "run the sizes one after another"
            )
        kinds = {_kind(mdp) for mdp in mdps}
        if len(kinds) != 1:
            names = ", ".join(sorted({mdp.name for mdp in mdps}))
            raise ValueError(f"a batch needs MDPs of one kind, got {names}; run them apart")
        measures = [mdp.kernel.measures for mdp in mdps]
        known = [table for table in measures if table is not None]
        scales = [m.rewards if m.reward_scale is None else m.reward_scale for m in mdps]
        return MDPBatch(
            Kernel(_stack([m.kernel.features for m in mdps]), _stack(known) if known else None),
            _stack([m.rewards for m in mdps]),
            _stack(scales),
            _stack([m.initial for m in mdps]),
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


def _kind(mdp: TabularMDP) -> tuple[object, ...]:
    """What decides how an agent treats an MDP; in a batch it is the same for all."""
    table = mdp.kernel.measures is None
    return table, mdp.rank, mdp.reveals_reward, mdp.suggested_alpha, mdp.solved_gap


def _stack(arrays: list[Array]) -> Array:
    """One array a seed on a leading axis; a single seed is a view, since it may be large."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)
