"""Algorithm 1, Contrastive UCB (l.128-154), for any number of seeds at once.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| pi^{k-1}           | `roll_in`                   | (B, H, S, A)    | 1, 4   |
| D_h^k              | `model` (counts)            |                 | 4      |
| D~_h^k             | `totals.rolled_in`          | (B, H, Z)       | 4      |
| phi^, psi^, P^     | `kernel`                    | (B, H, Z, d)    | 6-8    |
| Sigma^_h^k         | `covariance(...)`           | (B, H, d, d)    | 9      |
| beta_h^k           | `bonus`                     | (B, H, S, A)    | 10     |
| Q-bar, V-bar       | `q`, `values`               | (B, H, S, A)    | 11, 12 |
| pi^k               | `policies`                  | (B, H, S, A)    | 13     |

The paper updates h = H, ..., 1 one by one; lines 6 to 10 do not look at V, so all h go at once
here and only lines 11 to 13 run backwards. The peers are configurations of this class
(`peers.PRESETS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from contrastive_ucb.agents.config import AgentConfig
from contrastive_ucb.agents.parts import (
    Model,
    checked_negatives,
    make_model,
    make_schedule,
    resolve,
)
from contrastive_ucb.agents.peers import preset
from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.bonus.elliptical import bonus, cholesky, covariance, elliptical_width, log_det
from contrastive_ucb.checks import check_size
from contrastive_ucb.data.collect import collect, n_uniforms, steps_per_round
from contrastive_ucb.data.counts import PairTotals
from contrastive_ucb.envs.batch import MDPBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.planning.value_iteration import greedy, plan
from contrastive_ucb.training.streams import restore_stream, stream, stream_state
from contrastive_ucb.training.threads import one_thread

if TYPE_CHECKING:
    from contrastive_ucb.training.learn import Result
    from contrastive_ucb.training.loop import Session


class ContrastiveUCB:
    """Contrastive UCB on a finite MDP, or on several of one size, one a seed.

    env        a TabularMDP (or any of the built-in ones), or a list of them
    seed       of the random streams, at least 0; a list with a list of MDPs
    algo       "contrastive-ucb" or a peer: rep-ucb, lsvi-ucb, ucbvi, no-bonus, epsilon-greedy,
               uniform
    negative_distribution  P^- (S,), any distribution that touches zero nowhere; None follows `tilt`
    settings   changes to the configuration, see AgentConfig: rank=5, negatives="exact", ...
    """

    def __init__(
        self,
        env: TabularMDP | Sequence[TabularMDP],
        *,
        seed: int | Sequence[int] = 0,
        algo: str = "contrastive-ucb",
        negative_distribution: Array | None = None,
        **settings: Any,
    ):
        self.envs = _mdps(env)
        seeds = seed if isinstance(seed, (Sequence, np.ndarray)) else [seed]
        self.seeds = [check_seed(one) for one in seeds]
        if len(self.envs) != len(self.seeds) or not self.envs:
            raise ValueError(
                f"{len(self.envs)} MDPs and {len(self.seeds)} seeds; give one MDP for each seed, "
                "for example [env] * 3 with seed=[0, 1, 2]"
            )
        self.algo = algo
        self.config: AgentConfig = resolve(preset(algo, **settings), self.envs[0])
        self.batch = MDPBatch.of(self.envs)
        self.negatives = checked_negatives(negative_distribution, self.config, self.batch)
        streams = {
            name: [stream(s, name) for s in self.seeds] for name in ("walk", "label", "start")
        }
        self.walk, self.label = streams["walk"], streams["label"]
        self.model: Model = make_model(self.config, self.batch, self.negatives, streams["start"])
        self.schedule = make_schedule(self.config, self.batch, self.negatives, self.model)
        self.totals = PairTotals(self.batch.n_seeds, self.batch.horizon, self.batch.n_pairs)
        self.n_rounds = 0
        self.policies = np.full(self.batch.rewards.shape, 1 / self.batch.n_actions)  # line 1: pi^0
        self.values = np.zeros(self.batch.rewards.shape[:3])
        self.bonus = np.zeros(self.batch.rewards.shape)
        self.log_det = np.zeros(self.batch.n_seeds)  # of Sigma, summed over steps
        self.kernel: Kernel | None = None

    def round(self) -> None:
        """One iteration of Algorithm 1, which costs H trajectories."""
        k = self.n_rounds + 1
        walk, label = self._uniforms()
        tuples = collect(self.batch, self.roll_in, self.negatives, walk, label)  # line 4
        self.model.add(tuples)
        self.totals.add(tuples)
        self.kernel = self.model.fit()  # lines 6-8
        with one_thread():
            self.bonus = self._bonus(self.kernel, k)  # lines 9-10
        q, self.values = plan(self.kernel, self._rewards() + self.bonus, self._ceiling())  # 11-12
        if not np.isfinite(self.values).all():
            raise ArithmeticError(f"V-bar has a NaN or infinite entry in round {k}")
        self.policies = greedy(q)  # line 13
        self.n_rounds = k

    @property
    def roll_in(self) -> Array:
        """What the next round acts with, pi^{k-1}; epsilon-greedy and uniform mix it.

        returns (B, H, S, A)
        """
        epsilon = self.config.epsilon
        return np.asarray((1 - epsilon) * self.policies + epsilon / self.batch.n_actions)

    @property
    def trajectories(self) -> int:
        return self.n_rounds * self.batch.horizon

    @property
    def env_steps(self) -> int:
        return self.n_rounds * steps_per_round(self.batch.horizon)

    @property
    def policy(self) -> Array:
        """pi^k of the only seed, (H, S, A); `policies` has those of all seeds."""
        if len(self.seeds) > 1:
            raise ValueError(f"there are {len(self.seeds)} seeds; take one of agent.policies")
        return np.asarray(self.policies[0])

    def _bonus(self, kernel: Kernel, k: int) -> Array:
        """Lines 9 and 10: min{gamma_k ||phi^||, 2H}, plus the learnt reward's width.

        returns (B, H, S, A)
        """
        config, shape = self.config, self.batch.rewards.shape
        scale, ridge = self.schedule(k)
        divisor = k if config.covariance == "averaged" else 1  # erratum E1
        if config.features == "table":  # one-hot features: Sigma is diagonal
            diagonal = torch.from_numpy(self.totals.visits / divisor + ridge)
            width, growth = diagonal.rsqrt(), diagonal.log().sum(-1)
        else:
            phi = torch.from_numpy(kernel.features)
            known = config.features == "true"  # LSVI-UCB's own covariance has all its data
            visits = self.totals.visits if known else self.totals.rolled_in
            chol = cholesky(covariance(phi, torch.from_numpy(visits), ridge, divisor))
            width, growth = elliptical_width(phi, chol), log_det(chol)
        self.log_det = growth.sum(-1).numpy()
        beta = bonus(width, scale, 2.0 * self.batch.horizon).numpy().reshape(shape)
        if config.reward == "learnt":
            visits = self.totals.visits.reshape(shape)
            beta = beta + (config.alpha or 0.0) * config.reward_alpha / np.sqrt(visits + 1)
        return np.asarray(beta)

    def _rewards(self) -> Array:
        """r_h, known or estimated by ridge regression on the counts (remark, l.168)."""
        if self.config.reward == "known":
            return self.batch.rewards
        mean = self.totals.rewards / (self.totals.visits + 0.1)  # unvisited pairs: 0
        return mean.reshape(self.batch.rewards.shape)

    def _ceiling(self) -> Array | None:
        """H - h + 1, the most that can still be earned; None leaves Q as the paper has it."""
        return np.arange(self.batch.horizon, 0.0, -1.0) if self.config.clips else None

    def _uniforms(self) -> tuple[Array, Array]:
        n_walk, n_label = n_uniforms(self.batch.horizon)
        walk = np.stack([generator.random(n_walk) for generator in self.walk])
        return walk, np.stack([generator.random(n_label) for generator in self.label])

    # The three that follow are the user's doors; they reach right of this file in the arrow.

    @cached_property
    def session(self) -> Session:
        """The agent with its exact accounts of regret and model error."""
        from contrastive_ucb.training.loop import Session

        return Session(self)

    def learn(self, rounds: int, progress: bool = True) -> Result:
        """Play `rounds` more rounds; the result has regret, model error and a plot."""
        from contrastive_ucb.training.learn import learn

        return learn(self.session, rounds, progress)

    def save(self, folder: str | Path) -> Path:
        """Write the agent and its MDP into a folder, from where `contrastive_ucb.load` takes it."""
        from contrastive_ucb.training.save import save_agent

        return save_agent(self, folder)

    def predict(
        self,
        observation: IntArray,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """The actions for observations (step, state), (2,) or (n, 2), as Gymnasium gives them.

        The policy is deterministic. `state` and `episode_start` are there for tools that pass them.
        """
        at = np.asarray(observation)
        if at.shape[-1:] != (2,) or at.dtype.kind not in "iu":
            raise ValueError(f"an observation is (step, state), got {at.dtype} of shape {at.shape}")
        limits = np.array(self.policy.shape[:2])
        if (at < 0).any() or (at >= limits).any():
            raise ValueError(
                f"the observation {at.tolist()} has no action; steps are 0..{limits[0] - 1} and "
                f"states 0..{limits[1] - 1}"
            )
        return np.asarray(self.policy.argmax(-1)[at[..., 0], at[..., 1]]), state

    def state_of(self, seed: int) -> dict[str, Any]:
        """All that the run of one seed needs to go on, as arrays and JSON values."""
        return {
            "n_rounds": self.n_rounds,
            "policy": self.policies[seed],
            "values": self.values[seed],
            "bonus": self.bonus[seed],
            "model": self.model.state_of(seed),
            "totals": self.totals.state_of(seed),
            "walk": stream_state(self.walk[seed]),
            "label": stream_state(self.label[seed]),
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Go on from the states of all seeds, which must be of the same round."""
        rounds = {state["n_rounds"] for state in states}
        if len(rounds) != 1:
            raise ValueError(f"the seeds are at rounds {sorted(rounds)}; load those of one round")
        self.n_rounds = rounds.pop()
        self.policies = np.stack([state["policy"] for state in states])
        self.values = np.stack([state["values"] for state in states])
        self.bonus = np.stack([state["bonus"] for state in states])
        self.model.load_states([state["model"] for state in states])
        self.totals.load_states([state["totals"] for state in states])
        self.walk = [restore_stream(state["walk"]) for state in states]
        self.label = [restore_stream(state["label"]) for state in states]


def check_seed(seed: int) -> int:
    """A seed as a plain integer; numpy's are welcome too."""
    check_size("seed", seed, least=0)
    return int(seed)


def _mdps(env: TabularMDP | Sequence[TabularMDP]) -> list[TabularMDP]:
    """The MDPs without the wrappers that gymnasium.make puts around them."""
    given = env if isinstance(env, Sequence) else [env]
    inner = [getattr(one, "unwrapped", one) for one in given]
    for one in inner:
        if not isinstance(one, TabularMDP):
            raise ValueError(
                f"{type(one).__name__} is not a finite MDP; give its arrays to TabularMDP(P, r)"
            )
    return inner
