"""Algorithm 1, Contrastive UCB (l.128-154): lines 1 to 10 are in `learner`, 11 to 13 here.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| Q-bar, V-bar       | `q`, `values`               | (B, H, S[, A])  | 11, 12 |
| pi^k               | `policies`                  | (B, H, S, A)    | 13     |

The peers are configurations of this class (`peers.PRESETS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig, check_tabular
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.neural_parts import check_table
from contrastive_ucb.agents.finite.presets import preset
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP
from contrastive_ucb.planning.value_iteration import greedy, plan

MDP = TabularMDP | ObservedEnv


class ContrastiveUCB(Learner[AgentConfig]):
    """Contrastive UCB on a finite MDP, or on several of one size, one a seed; or on observations.

    env        a TabularMDP (or any of the built-in ones), or a list of them; or a ContinuousMDP, a
               RichLock, a GymObserved
    seed       of the random streams, at least 0; a list with a list of MDPs
    algo       "contrastive-ucb" or a peer: rep-ucb, lsvi-ucb, ucbvi, no-bonus, epsilon-greedy,
               uniform
    negative_distribution  P^- (S,), any distribution that touches zero nowhere; None follows `tilt`
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
        envs, config = _mdps(env), preset(algo, **settings)
        super().__init__(envs, seed, algo, config, negative_distribution)
        if self.world.n_listed:
            check_tabular(vars(config))
        shape = self.world.shape
        self._policies = np.full(shape, 1 / shape[-1])  # line 1: pi^0
        self.values = np.zeros(shape[:-1])

    def _plan(self, kernel: Kernel, k: int) -> None:
        q, self.values = plan(kernel, self._rewards() + self.bonus, self._ceiling())  # 11-12
        if not np.isfinite(self.values).all():
            raise ArithmeticError(f"V-bar has a NaN or infinite entry in round {k}")
        self._policies = greedy(q)  # line 13

    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        if not np.isfinite(bounds[0]).all():
            raise ArithmeticError(
                f"Q-bar has a NaN or infinite entry at step {step} of round {self.n_rounds}"
            )
        return greedy(bounds[0])  # line 13 at other states

    @property
    def _planned(self) -> Array:
        return self._policies

    @property
    def _planned_values(self) -> list[Array]:
        return [self.values]

    @property
    def policies(self) -> Array:
        """pi^k of all seeds, (B, H, S, A)."""
        check_table("policies", self.world)
        return self._policies

    @policies.setter
    def policies(self, policies: Array) -> None:
        self._policies = policies

    @property
    def policy(self) -> Array:
        """pi^k of the only seed, (H, S, A); `policies` has those of all seeds."""
        check_table("policy", self.world)
        self._only("agent.policies")
        return np.asarray(self._policies[0])

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """The actions for observations as Gymnasium gives them, one or a row of them.

        A finite MDP shows (step, state). Elsewhere the step is the `state` of this method: None at
        the first, then what came back. The policy is deterministic; `episode_start` is there for
        tools that pass it.
        """
        self._only("agent.policies")
        (probs,), state = self._seen(observation, state, [self._policies[0]], "last")
        return np.asarray(probs.argmax(-1)), state

    def state_of(self, seed: int) -> dict[str, Any]:
        planned = {"policy": self._policies[seed], "values": self.values[seed]}
        return {**super().state_of(seed), **planned}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        super().load_states(states)
        self._policies = np.stack([state["policy"] for state in states])
        self.values = np.stack([state["values"] for state in states])


def _mdps(env: MDP | Sequence[MDP]) -> list[MDP]:
    """The MDPs without the wrappers that gymnasium.make puts around them."""
    given = env if isinstance(env, Sequence) else [env]
    inner = [getattr(one, "unwrapped", one) for one in given]
    for one in inner:
        players = len(one.action_shape) if isinstance(one, ObservedEnv) else 1
        if isinstance(one, TabularGame) or players > 1:
            raise ValueError(f"{one.name} is a game of two players; give it to ContrastiveULCB")
        if not isinstance(one, (TabularMDP, ObservedEnv)):
            raise ValueError(
                f"{type(one).__name__} is not a finite MDP; give its arrays to TabularMDP(P, r), or"
                " an environment with Box observations by its id to GymObserved"
            )
    return inner
