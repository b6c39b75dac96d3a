"""What Algorithms 1 and 2 share: data, features and bonus, lines 1 to 10, for all seeds at once.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| pi^{k-1}           | `roll_in`                   | (B, H, S, A)    | 1, 4   |
| D_h^k              | `model` (counts)            |                 | 4      |
| D~_h^k             | `totals.rolled_in`          | (B, H, Z)       | 4      |
| phi^, psi^, P^     | `kernel`                    | (B, H, Z, d)    | 6-8    |
| Sigma^_h^k         | `covariance(...)`           | (B, H, d, d)    | 9      |
| beta_h^k           | `bonus`                     | (B, H, S, A)    | 10     |

The paper updates h = H, ..., 1 one by one; lines 6 to 10 do not look at V, so all h go at once
here and only what follows runs backwards. In a game A counts joint actions and z is (s, a, b).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
from contrastive_ucb.arrays import Array
from contrastive_ucb.bonus.elliptical import bonus, cholesky, covariance, elliptical_width, log_det
from contrastive_ucb.checks import check_size
from contrastive_ucb.data.collect import collect, n_uniforms, steps_per_round
from contrastive_ucb.data.counts import PairTotals
from contrastive_ucb.envs.batch import Env, EnvBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.training.streams import restore_stream, stream, stream_state
from contrastive_ucb.training.threads import one_thread

if TYPE_CHECKING:
    from contrastive_ucb.training.learn import Result
    from contrastive_ucb.training.loop import Session

C = TypeVar("C", bound=AgentConfig)


class Learner(ABC, Generic[C]):
    """Rounds of data, features, bonus and planning; a subclass says what planning is."""

    kind: str  # what a saved agent is recognised by

    def __init__(
        self,
        envs: Sequence[Env],
        seed: int | Sequence[int],
        algo: str,
        config: C,
        negative_distribution: Array | None = None,
    ):
        seeds = seed if isinstance(seed, (Sequence, np.ndarray)) else [seed]
        self.seeds = [check_seed(one) for one in seeds]
        if len(envs) != len(self.seeds) or not envs:
            raise ValueError(
                f"{len(envs)} environments and {len(self.seeds)} seeds; give one environment for "
                "each seed, for example [env] * 3 with seed=[0, 1, 2]"
            )
        self.envs, self.algo = list(envs), algo
        self.config: C = resolve(config, envs[0])
        self.batch = EnvBatch.of(envs)
        self.negatives = checked_negatives(negative_distribution, self.config, self.batch)
        self.streams = {name: [stream(s, name) for s in self.seeds] for name in self._streams}
        start = [stream(s, "start") for s in self.seeds]
        self.model: Model = make_model(self.config, self.batch, self.negatives, start)
        self.schedule = make_schedule(self.config, self.batch, self.negatives, self.model)
        self.totals = PairTotals(self.batch.n_seeds, self.batch.horizon, self.batch.n_pairs)
        self.n_rounds = 0
        self.bonus = np.zeros(self.batch.rewards.shape)
        self.log_det = np.zeros(self.batch.n_seeds)  # of Sigma, summed over steps
        self.kernel: Kernel | None = None

    _streams: tuple[str, ...] = ("walk", "label")  # the random streams that go on round by round

    def round(self) -> None:
        """One iteration of the algorithm, which costs H trajectories."""
        k = self.n_rounds + 1
        n_walk, n_label = n_uniforms(self.batch.horizon)
        walk, label = self._uniforms("walk", n_walk), self._uniforms("label", n_label)
        tuples = collect(self.batch, self.roll_in, self.negatives, walk, label)  # line 4
        self.model.add(tuples)
        self.totals.add(tuples)
        self.kernel = self.model.fit()  # lines 6-8
        with one_thread():
            self.bonus = self._bonus(self.kernel, k)  # lines 9-10
        self._plan(self.kernel, k)
        self.n_rounds = k

    @abstractmethod
    def _plan(self, kernel: Kernel, k: int) -> None:
        """The lines after the bonus: values and policies of round k."""

    @property
    @abstractmethod
    def _planned(self) -> Array:
        """What was planned last, joint in a game   (B, H, S, A)"""

    @property
    def roll_in(self) -> Array:
        """What the next round acts with, pi^{k-1}; epsilon-greedy and uniform mix it.

        returns (B, H, S, A)
        """
        epsilon = self.config.epsilon
        return np.asarray((1 - epsilon) * self._planned + epsilon / self.batch.n_actions)

    @property
    def trajectories(self) -> int:
        return self.n_rounds * self.batch.horizon

    @property
    def env_steps(self) -> int:
        return self.n_rounds * steps_per_round(self.batch.horizon)

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

    def _uniforms(self, name: str, count: int) -> Array:
        """Numbers in [0, 1) of one stream   (B, count)"""
        return np.stack([generator.random(count) for generator in self.streams[name]])

    # The three that follow are the user's doors; they reach right of this file in the arrow.

    @cached_property
    def session(self) -> Session:
        """The agent with its exact accounts of regret and model error."""
        from contrastive_ucb.training.loop import Session

        return Session(self)

    def learn(self, rounds: int, progress: bool = True) -> Result:
        """Play `rounds` more rounds; the result has the gap, the model error and a plot."""
        from contrastive_ucb.training.learn import learn

        return learn(self.session, rounds, progress)

    def save(self, folder: str | Path) -> Path:
        """Write agent and environment into a folder, from where `contrastive_ucb.load` takes it."""
        from contrastive_ucb.training.save import save_agent

        return save_agent(self, folder)

    def state_of(self, seed: int) -> dict[str, Any]:
        """All that the run of one seed needs to go on, as arrays and JSON values."""
        streams = {name: stream_state(kept[seed]) for name, kept in self.streams.items()}
        return {
            "n_rounds": self.n_rounds,
            "bonus": self.bonus[seed],
            "model": self.model.state_of(seed),
            "totals": self.totals.state_of(seed),
            **streams,
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Go on from the states of all seeds, which must be of the same round."""
        rounds = {state["n_rounds"] for state in states}
        if len(rounds) != 1:
            raise ValueError(f"the seeds are at rounds {sorted(rounds)}; load those of one round")
        self.n_rounds = rounds.pop()
        self.bonus = np.stack([state["bonus"] for state in states])
        self.model.load_states([state["model"] for state in states])
        self.totals.load_states([state["totals"] for state in states])
        self.streams = {name: [restore_stream(s[name]) for s in states] for name in self.streams}

    def _only(self, what: str) -> None:
        """Stop where a single seed is asked for and there are several."""
        if len(self.seeds) > 1:
            raise ValueError(f"there are {len(self.seeds)} seeds; take one of {what}")


def check_seed(seed: int) -> int:
    """A seed as a plain integer; numpy's are welcome too."""
    check_size("seed", seed, least=0)
    return int(seed)
