"""Algorithm 1, Contrastive UCB (l.128-154).

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| Q-bar, V-bar       | `q`, `values`               | (B, H, S[, A])  | 11, 12 |
| pi^k               | `planned`, `policies`       | (B, H, S, A)    | 13     |

The baselines are configurations of this class (`presets.PRESETS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.presets import preset
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.planning.value_iteration import greedy, plan

MDP = TabularMDP | ObservedEnv


class ContrastiveUCB(Learner[AgentConfig]):
    """Contrastive UCB on a finite MDP, on several of the same size, or on observations.

    env        a TabularMDP (or a built-in subclass), or a list with one MDP per seed; or a
               ContinuousMDP, RichLock or GymObserved
    seed       of the random streams, at least 0; a list if `env` is a list
    algo       "contrastive-ucb" or a baseline: rep-ucb, lsvi-ucb, ucbvi, no-bonus, epsilon-greedy,
               uniform
    negative_distribution  P^- (S,) with positive probabilities; None: given by the setting `tilt`
    settings   changes to the configuration, see AgentConfig: rank=5, negatives="exact", ...
    """

    kind, n_players = "contrastive-ucb", 1
    saved = (*Learner.saved, "planned", "values")

    def __init__(
        self,
        env: MDP | Sequence[MDP],
        *,
        seed: int | Sequence[int] = 0,
        algo: str = "contrastive-ucb",
        negative_distribution: Array | None = None,
        **settings: Any,
    ):
        super().__init__(env, seed, algo, preset(algo, **settings), negative_distribution)
        self.values = np.zeros(self.model.shape[:-1])

    def round(self) -> None:
        """One iteration of Algorithm 1. It costs H trajectories, or a multiple with networks."""
        k, model = self.n_rounds + 1, self.model
        with model.transaction(), one_thread():
            model.add(self.sampler.collect(self.roll_in))  # line 4, Algorithm 3
            self.kernel = model.fit()  # lines 6-8
            self.bonus = model.bonus(self.kernel, k)  # lines 9-10
            q, self.values = plan(self.kernel, model.rewards() + self.bonus, self.ceiling)  # 11-12
            self.planned = greedy(q)  # line 13
            if not self.is_tabular:
                model.keep(["last"], [self.values], self.ceiling)  # pi^k as a function
        self.n_rounds = k

    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """Line 13 at other observations."""
        return greedy(bounds[0])

    @property
    def policies(self) -> Array:
        """pi^k of all seeds, (B, H, S, A)."""
        self._check_table("policies")
        return self.planned

    @property
    def policy(self) -> Array:
        """pi^k of the only seed, (H, S, A); see `policies` for several seeds."""
        self._check_table("policy")
        self._check_single_seed("agent.policies")
        return np.asarray(self.planned[0])

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """Actions for one observation or a batch, as returned by Gymnasium, and the next state.

        An observation of a finite MDP is (step, state). For other environments `state` counts the
        steps: pass None at the first step and then the returned value. The policy is deterministic;
        `episode_start` is accepted for compatibility with Stable-Baselines3.
        """
        self._check_single_seed("agent.policies")
        (probs,), state = self._policies_at(observation, state, [self.planned[0]], "last")
        return np.asarray(probs.argmax(-1)), state
