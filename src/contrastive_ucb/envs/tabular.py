"""Any finite episodic MDP given by arrays, as exact arrays and as a Gymnasium environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.envs.finite import FiniteEnv, checked_action, factored, read_npz


class TabularMDP(FiniteEnv, gymnasium.Env[IntArray, np.int64]):
    """A finite MDP with H steps; it observes (step, state) and terminates after H steps.

    transitions   (H, S, A, S)  P_h(s'|s,a), rows sum to 1; or a Kernel over z = s * A + a
    rewards       (H, S, A)     mean reward r_h(s,a) in [0, 1]
    initial       (S,)          distribution of the first state, or that state; None means state 0
    reward_scale  (H, S, A)     the reward seen is this with probability rewards / reward_scale,
                                else 0; None means that the mean itself is seen
    rank                        d of the factorisation to look for, where somebody knows it
    """

    axes = ("H", "S", "A")
    least_reward = 0

    def _open(self) -> None:
        self.n_actions: int = self.rewards.shape[2]
        self.observation_space = self._observations()
        self.action_space = spaces.Discrete(self.n_actions)

    @staticmethod
    def from_factors(
        features: ArrayLike,
        measures: ArrayLike,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        *,
        reward_scale: ArrayLike | None = None,
        name: str = "file",
        render_mode: str | None = None,
    ) -> TabularMDP:
        """The MDP with P_h(s'|s,a) = psi_h(s')' phi_h(s,a); both factors must be non-negative.

        features  phi  (H, S, A, d)
        measures  psi  (H, d, S)     the rest as for the class
        """
        kernel = factored(features, measures, rewards, TabularMDP.axes)
        return TabularMDP(
            kernel, rewards, initial, reward_scale=reward_scale, name=name, render_mode=render_mode
        )

    @staticmethod
    def load(path: str | Path, *, rank: int | None = None) -> TabularMDP:
        """The MDP in an .npz file: `transitions`, `rewards`, perhaps `initial`, `reward_scale`."""
        return TabularMDP(**read_npz(path), rank=rank)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[IntArray, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin()
        return self._observation(), {}

    def step(self, action: int | np.int64) -> tuple[IntArray, float, bool, bool, dict[str, Any]]:
        self._check_running()
        reward = self._move([checked_action("action", action, self.n_actions)])
        return self._observation(), reward, self._is_over(), False, {}
