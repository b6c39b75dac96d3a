"""Finite MDPs or games of equal size stacked along a leading seed axis B.

The two actions of a game are one joint action here, a * A2 + b, so that sampling, fitting and
bonuses use the same code for MDPs and games. `action_shape` recovers the individual actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP

Env = TabularMDP | TabularGame


class SeedState:
    """Arrays with a leading seed axis B, which are saved and loaded one seed at a time.

    saved  names of attributes: arrays, numbers shared by all seeds, or objects like this one
    """

    saved: tuple[str, ...]

    def state_of(self, seed: int) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for name in self.saved:
            value = getattr(self, name)
            if hasattr(value, "state_of"):
                state[name] = value.state_of(seed)
            else:
                state[name] = value[seed : seed + 1] if isinstance(value, np.ndarray) else value
        return state

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Load the states of all seeds."""
        for name in self.saved:
            value, parts = getattr(self, name), [state[name] for state in states]
            if hasattr(value, "load_states"):
                value.load_states(parts)
            else:
                is_array = isinstance(value, np.ndarray)
                setattr(self, name, np.concatenate(parts) if is_array else parts[0])


class EnvBatch:
    """B finite MDPs or games with the same H, S, A and rank of the factors, one per seed.

    kernel        features (B, H, Z, d), measures (B, H, d, S) or None
    rewards       (B, H, S, A)   mean rewards
    reward_scale  (B, H, S, A)   observed with probability rewards / reward_scale, else 0
    initial       (B, S)
    action_shape  (A,) for MDPs, (A1, A2) for games, where A = A1 A2
    seed          (B, 1)         0 .. B - 1, an index of the first axis
    """

    def __init__(self, envs: Sequence[Env]):
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
        measures = [env.kernel.measures for env in envs if env.kernel.measures is not None]
        scales = [env.rewards if env.reward_scale is None else env.reward_scale for env in envs]
        horizon, n_states, *actions = envs[0].rewards.shape
        self.action_shape = tuple(actions)
        joint = (len(envs), horizon, n_states, -1)
        features = _stack([env.kernel.features for env in envs])
        self.kernel = Kernel(features, _stack(measures) if measures else None)
        self.rewards = _stack([env.rewards for env in envs]).reshape(joint)
        self.reward_scale = _stack(scales).reshape(joint)
        self.initial = _stack([env.initial for env in envs])
        self.n_seeds, self.horizon, self.n_states, self.n_actions = self.rewards.shape
        self.n_pairs = self.n_states * self.n_actions
        self.seed = np.arange(self.n_seeds)[:, None]

    def move(
        self, step: int, states: IntArray, actions: IntArray, uniform: Array
    ) -> tuple[IntArray, Array]:
        """One step of m trajectories per seed: the next states and the observed rewards, (B, m).

        states, actions  (B, m)
        uniform          (B, m, 3)  numbers in [0, 1), one for each draw
        """
        pair = states * self.n_actions + actions
        arrived = draw(self.kernel.features[self.seed, step, pair], uniform[..., 0])
        if self.kernel.measures is not None:  # `arrived` is the latent; its measure gives the state
            arrived = draw(self.kernel.measures[self.seed, step, arrived], uniform[..., 1])
        mean = self.rewards[self.seed, step, states, actions]
        scale = self.reward_scale[self.seed, step, states, actions]
        return arrived, np.where(uniform[..., 2] * abs(scale) < abs(mean), scale, 0.0)


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
