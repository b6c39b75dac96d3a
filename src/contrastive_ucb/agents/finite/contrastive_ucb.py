"""Algorithm 1, Contrastive UCB (l.128-154).

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| Q-bar, V-bar       | `q`, `values`               | (B, H, S[, A])  | 11, 12 |
| pi^k               | `planned`, `policies`       | (B, H, S, A)    | 13     |
| pi^, drawn         | `drawn`                     | (B, H, S, A)    | l.227  |

The baselines are configurations of this class (`presets.PRESETS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.presets import preset
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.envs.batch import SeedState
from contrastive_ucb.envs.foreign import GymEnv
from contrastive_ucb.envs.gym_observed import OPTIONS
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.planning.value_iteration import greedy, plan

Source = TabularMDP | ObservedEnv | str | GymEnv | Callable[..., GymEnv]


@dataclass
class Drawn(SeedState):
    """The policy of a uniformly drawn round, per seed: the one of the PAC bound (l.227).

    policy  pi^  (B, H, S, A)
    number  k    (B,)  the round, 0 before the first
    """

    saved = ("policy", "number")

    policy: Array
    number: IntArray


class ContrastiveUCB(Learner[AgentConfig]):
    """Contrastive UCB (Algorithm 1) on a finite MDP, or on an environment with observations.

    Several seeds can be trained in one agent; their results equal those of single agents.

    Args:
        env: A `TabularMDP` (or a subclass such as `Lock`), or a list with one MDP per seed; or a
            `ContinuousMDP`, `RichLock` or `GymObserved`, for which networks are trained; or a
            Gymnasium id, environment or function that makes environments, which becomes a
            `GymObserved`.
        seed: Seed of the random streams, at least 0; a list if `env` is a list.
        algo: "contrastive-ucb" or a baseline: rep-ucb, lsvi-ucb, ucbvi, no-bonus, epsilon-greedy,
            uniform.
        negative_distribution: P^- as positive probabilities (S,); None: given by the setting
            `tilt`.
        **settings: Changes to the configuration, such as rank=5 or negatives="exact"; the fields of
            `AgentConfig`. With a Gymnasium environment also the arguments of `GymObserved`, such as
            horizon=20 or solved_return=0.9.

    Attributes:
        config: The `AgentConfig` in use.
        n_rounds: k, the number of rounds so far.
        values: V-bar at all steps and states, shape (B, H, S) for B seeds.
        drawn: The `policy` (B, H, S, A) of a uniformly drawn round and its `number` (B,). Its
            expected suboptimality is the average regret, which the theorem bounds.

    Raises:
        ValueError: The environment, the algorithm or a setting is not valid.

    Examples:
        >>> import contrastive_ucb as cu
        >>> env = cu.LowRankMDP(n_states=6, n_actions=2, rank=2, horizon=3)
        >>> agent = cu.ContrastiveUCB(env, seed=0)
        >>> result = agent.learn(rounds=20, progress=False)
        >>> agent.policy.shape
        (3, 6, 2)
        >>> action, state = agent.predict([0, 0])  # at step 0 in state 0

        Two seeds in one agent:

        >>> agent = cu.ContrastiveUCB([env, env], seed=[0, 1])
        >>> agent.learn(rounds=20, progress=False).regret.shape[1]
        2

        A Gymnasium environment:

        >>> agent = cu.ContrastiveUCB("CartPole-v1", horizon=10, reward_high=1)
        >>> action, state = agent.predict([0.0, 0.1, 0.0, -0.1])  # the first step
        >>> action, state = agent.predict([0.0, 0.2, 0.0, -0.3], state)
    """

    kind, n_players = "contrastive-ucb", 1
    saved = (*Learner.saved, "planned", "values", "drawn")

    def __init__(
        self,
        env: Source | Sequence[Source],
        *,
        seed: int | Sequence[int] = 0,
        algo: str = "contrastive-ucb",
        negative_distribution: Array | None = None,
        **settings: Any,
    ):
        options = {name: settings.pop(name) for name in OPTIONS if name in settings}
        config = preset(algo, **settings)
        super().__init__(env, seed, algo, config, negative_distribution, options)
        self.values = np.zeros(self.model.shape[:-1])
        n_stored = self.model.shape[2] if self.is_tabular else 0  # the states of networks change
        first = np.zeros(len(self.seeds), dtype=np.int64)
        self.drawn = Drawn(self.planned[:, :, :n_stored].copy(), first)

    def round(self) -> None:
        """Run one iteration of Algorithm 1, without measurements.

        It costs H trajectories, or a multiple with networks.
        """
        k, model = self.n_rounds + 1, self.model
        with model.transaction(), one_thread():
            model.add(self.sampler.collect(self.roll_in))  # line 4, Algorithm 3
            self.kernel = model.fit()  # lines 6-8
            self.bonus = model.bonus(self.kernel, k)  # lines 9-10
            q, self.values = plan(self.kernel, model.rewards() + self.bonus, self.ceiling)  # 11-12
            self.planned = greedy(q)  # line 13
            is_drawn = self._draws(k)
            self.drawn.number[is_drawn] = k
            if self.is_tabular:
                self.drawn.policy[is_drawn] = self.planned[is_drawn]
            else:
                names = ["last", *(["drawn"] if is_drawn[0] else [])]
                model.keep(names, [self.values], self.ceiling)  # pi^k as a function
        self.n_rounds = k

    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """Line 13 at other observations."""
        return greedy(bounds[0])

    @property
    def policies(self) -> Array:
        """pi^k of all B seeds, shape (B, H, S, A)."""
        self._check_table("policies")
        return self.planned

    @property
    def policy(self) -> Array:
        """pi^k of the only seed, shape (H, S, A); see `policies` for several seeds."""
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
        """Choose actions for one observation or a batch of observations.

        The interface is that of Stable-Baselines3.

        Args:
            observation: As returned by the environment: (step, state) of a finite MDP, otherwise a
                vector or the Box observation of a Gymnasium environment; with a leading axis for a
                batch.
            state: Counts the steps of environments without (step, state): None at the first step,
                then the returned value. A batch may be at different steps, with one number each.
            episode_start: Whether an episode starts, for one observation or each of them; its step
                is 0 whatever `state` says, as for recurrent policies in Stable-Baselines3.
            deterministic: Ignored, since the policy is deterministic.

        Returns:
            The actions as the environment numbers them, and the next `state`.
        """
        self._check_single_seed("agent.policies")
        tables = [self.planned[0]]
        (probs,), state = self._policies_at(observation, state, episode_start, tables, "last")
        first = 0 if self.is_tabular else self.envs[0].first_action
        return np.asarray(first + probs.argmax(-1)), state
