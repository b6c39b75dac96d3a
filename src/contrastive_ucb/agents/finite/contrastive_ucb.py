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
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP
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

    kind = "contrastive-ucb"

    def __init__(
        self,
        env: MDP | Sequence[MDP],
        *,
        seed: int | Sequence[int] = 0,
        algo: str = "contrastive-ucb",
        negative_distribution: Array | None = None,
        **settings: Any,
    ):
        envs, config = _checked_mdps(env), preset(algo, **settings)
        super().__init__(envs, seed, algo, config, negative_distribution)
        self.values = np.zeros(self.model.shape[:-1])

    def round(self) -> None:
        """One iteration of Algorithm 1. It costs H trajectories, or a multiple with networks."""
        k, model = self.n_rounds + 1, self.model
        with model.transaction(), one_thread():
            model.add(self.sampler.collect(self.roll_in))  # line 4, Algorithm 3
            self.kernel = model.fit()  # lines 6-8
            self.bonus = model.bonus(self.kernel, k)  # lines 9-10
            q, self.values = plan(self.kernel, model.rewards() + self.bonus, self.ceiling)  # 11-12
            self.planned = greedy(_finite(q, f"round {k}"))  # line 13
            model.keep(["last"], [self.values], self.ceiling)  # pi^k at other observations
        self.n_rounds = k

    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """Line 13 at other observations."""
        return greedy(_finite(bounds[0], f"step {step} of round {self.n_rounds}"))

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

    def state_of(self, seed: int) -> dict[str, Any]:
        plan = {"policy": self.planned[seed], "values": self.values[seed]}
        return {**super().state_of(seed), **plan}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        super().load_states(states)
        self.planned = np.stack([state["policy"] for state in states])
        self.values = np.stack([state["values"] for state in states])


def _finite(q: Array, when: str) -> Array:
    if not np.isfinite(q).all():
        raise ArithmeticError(f"Q-bar has a NaN or infinite entry in {when}")
    return q


def _checked_mdps(env: MDP | Sequence[MDP]) -> list[MDP]:
    """The MDPs without the wrappers of gymnasium.make."""
    envs = env if isinstance(env, Sequence) else [env]
    mdps = [getattr(wrapped, "unwrapped", wrapped) for wrapped in envs]
    for mdp in mdps:
        players = len(mdp.action_shape) if isinstance(mdp, ObservedEnv) else 1
        if isinstance(mdp, TabularGame) or players > 1:
            raise ValueError(f"{mdp.name} is a two-player game; use ContrastiveULCB")
        if not isinstance(mdp, (TabularMDP, ObservedEnv)):
            raise ValueError(
                f"{type(mdp).__name__} is not a finite MDP; pass its arrays as TabularMDP(P, r), or"
                " an environment with Box observations as GymObserved(id)"
            )
    return mdps
