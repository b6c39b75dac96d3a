"""What Algorithms 1 and 2 share: construction, policies at observations, saving and loading.

| paper                     | here        | shape         | line  |
|---------------------------|-------------|---------------|-------|
| pi^{k-1}                  | `roll_in`   | (B, H, S, A)  | 1, 4  |
| Algorithms 3 and 4        | `sampler`   |               | 4     |
| D, D~, phi^, psi^, Sigma^ | `model`     |               | 4-9   |
| P^                        | `kernel`    | (B, H, Z, d)  | 8     |
| beta_h^k                  | `bonus`     | (B, H, S, A)  | 10    |

The paper updates h = H, ..., 1 one at a time. Lines 6 to 10 do not depend on V, so they are
computed for all h at once; only planning runs backwards. In a game A counts joint actions and
z = (s, a, b).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from contrastive_ucb.agents.finite.config import (
    AgentConfig,
    check_tabular,
    resolve,
    resolve_neural,
)
from contrastive_ucb.agents.finite.tabular_model import TabularModel
from contrastive_ucb.bonus.schedule import Coefficients
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.counts import PairTotals
from contrastive_ucb.data.sampler import ObservedSampler, Streams, TabularSampler
from contrastive_ucb.envs.batch import Env, EnvBatch
from contrastive_ucb.envs.finite_twin import one_hot
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, check_observed

if TYPE_CHECKING:
    from contrastive_ucb.runs.result import Result
    from contrastive_ucb.runs.session import Session

C = TypeVar("C", bound=AgentConfig)


class Sampler(Protocol):
    """`TabularSampler` or `ObservedSampler`: collects the data of one round (line 4)."""

    trajectories_per_round: int
    steps_per_round: int

    def collect(self, policy: Any) -> Any: ...


class Model(Protocol):
    """`TabularModel` or `NeuralModel`: data, representation and bonus, lines 4 to 10.

    A model has finitely many states to plan on, all S states or M draws of P^-, so that planning is
    the same for both. The methods are documented in `NeuralModel`.
    """

    shape: tuple[int, int, int, int]
    action_shape: tuple[int, ...]
    initial: Array
    log_det: Array

    @property
    def metrics(self) -> dict[str, Array]: ...
    def schedule(self, k: int, /) -> Coefficients: ...
    def transaction(self) -> AbstractContextManager[None]: ...
    def add(self, data: Any, /) -> None: ...
    def fit(self) -> Kernel: ...
    def bonus(self, kernel: Kernel, k: int) -> Array: ...
    def rewards(self) -> Array: ...
    def keep(self, names: Sequence[str], values: Sequence[Array], limits: Any) -> None: ...
    def q_bounds(self, name: str, step: int, observations: Array) -> list[Array] | None: ...
    def state_of(self, seed: int) -> dict[str, Any]: ...
    def load_states(self, states: list[dict[str, Any]]) -> None: ...


class Learner(ABC, Generic[C]):
    """An agent with a model of its environment; a subclass implements the rounds."""

    kind: str  # identifies the class of a saved agent
    smallest_return: float  # relative to the largest return
    _streams: tuple[str, ...] = ()  # random streams in addition to those of the model

    def __init__(
        self,
        envs: Sequence[Env | ObservedEnv],
        seed: int | Sequence[int],
        algo: str,
        config: C,
        negative_distribution: Array | None = None,
    ):
        seeds = seed if isinstance(seed, (Sequence, np.ndarray)) else [seed]
        for value in seeds:
            check_size("seed", value, least=0)
        self.seeds = [int(value) for value in seeds]
        if len(envs) != len(self.seeds) or not envs:
            raise ValueError(
                f"got {len(envs)} environments and {len(self.seeds)} seeds; pass one environment"
                " per seed, for example [env] * 3 with seed=[0, 1, 2]"
            )
        self.envs, self.algo = _represented(envs, config), algo
        self.streams: Streams = {}
        self.config: C
        self.model: Model
        self.sampler: Sampler
        self.is_tabular = not isinstance(self.envs[0], ObservedEnv)
        if self.is_tabular:
            self._make_tabular(config, negative_distribution)
        else:
            self._make_neural(config, negative_distribution)
        self.n_rounds = 0
        self.kernel: Kernel | None = None
        self.bonus = np.zeros(self.model.shape)
        horizon = self.model.shape[1]
        # H - h + 1, the largest return from step h on; None leaves Q unclipped as in the paper
        self.ceiling = np.arange(horizon, 0.0, -1.0) if self.config.clips else None

    def _make_tabular(self, config: C, negative_distribution: Array | None) -> None:
        check_tabular(vars(config))
        envs: list[Any] = self.envs
        self.config = resolve(config, envs[0])
        self._make_streams(TabularModel.streams)
        model = TabularModel(envs, self.seeds, self.config, negative_distribution)
        self.model, self.sampler = model, TabularSampler(model.batch, model.negatives, self.streams)

    def _make_neural(self, config: C, negative_distribution: Array | None) -> None:
        from contrastive_ucb.agents.finite.neural_model import NeuralModel  # imports torch

        if len(self.envs) > 1:
            raise ValueError(
                f"networks are trained one seed at a time, got {len(self.envs)} seeds; create one"
                " agent per seed"
            )
        if negative_distribution is not None:
            raise ValueError("negative_distribution is for tables; for observations use density")
        env: Any = self.envs[0]
        self.config = resolve_neural(config, env)
        self._make_streams(NeuralModel.streams)
        model = NeuralModel(env, self.config, self.streams)
        self.model, self.sampler = model, ObservedSampler(env, model.trajectories, self.streams)

    def _make_streams(self, names: tuple[str, ...]) -> None:
        for name in (*names, *self._streams):
            self.streams[name] = [stream(seed, name) for seed in self.seeds]

    def __repr__(self) -> str:
        name, env = type(self).__name__, self.envs[0].name
        rounds = f"{self.n_rounds} round" + "s" * (self.n_rounds != 1)
        return f"{name}({env!r}, algo={self.algo!r}, seeds={self.seeds}, {rounds})"

    @abstractmethod
    def round(self) -> None:
        """One iteration of the algorithm."""

    @property
    @abstractmethod
    def _planned(self) -> Array:
        """The policy at the states planned on, joint in a game   (B, H, S, A)"""

    @property
    @abstractmethod
    def _planned_values(self) -> list[Array]:
        """V-upper of the last plan, and in a game V-lower, each (B, H, S)"""

    @abstractmethod
    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """The (joint) policy of a stored round, given its Q-upper and in a game Q-lower.

        bounds  each (n, A); returns (n, A)
        """

    @property
    def limits(self) -> tuple[Array, Array] | None:
        """The smallest and the largest Q_h, each (H,); None: not clipped."""
        return None if self.ceiling is None else (self.smallest_return * self.ceiling, self.ceiling)

    @property
    def roll_in(self) -> Any:
        """pi^{k-1}, with uniform actions mixed in for epsilon-greedy and uniform exploration.

        A table (B, H, S, A), or for observations the function `acts`.
        """
        return self.mixed(self._planned) if self.is_tabular else self.acts

    def acts(self, step: int, observations: Array) -> Array:
        """The roll-in policy at observations   (n, D) -> (n, A)"""
        when = f"step {step} of round {self.n_rounds + 1}"
        check_observed(self.envs[0].name, "observation", observations, when)
        return self.mixed(self.policy_at(step, observations))

    def mixed(self, policy: Array) -> Array:
        """A policy with a share epsilon of uniform actions."""
        epsilon = self.config.epsilon
        return np.asarray((1 - epsilon) * policy + epsilon / policy.shape[-1])

    def policy_at(self, step: int, observations: Array, kept: str = "last") -> Array:
        """The planned policy at observations, joint in a game   (n, D) -> (n, A)"""
        return self.judge(step, observations, kept)[0]

    def judge(
        self, step: int, observations: Array, kept: str = "last"
    ) -> tuple[Array, list[Array]]:
        """The policy (n, A) and its V-upper (n,), and in a game V-lower, at observations (n, D).

        Before the first round the policy is uniform and the values are 0.
        """
        bounds = self.model.q_bounds(kept, step, observations)
        if bounds is None:
            n_joint = self.model.shape[-1]
            policy = np.full((len(observations), n_joint), 1 / n_joint)
            return policy, [np.zeros(len(policy)) for _ in self._planned_values]
        policy = self._choose(step, bounds, kept)
        return policy, [np.asarray((policy * q).sum(-1)) for q in bounds]

    def _policies_at(
        self, observation: Any, state: Any, tables: Sequence[Array], kept: str
    ) -> tuple[list[Array], Any]:
        """The policy of each player for `predict`, and the next `state`.

        Tables (H, S, A) are indexed by (step, state). For other observations `state` is the step,
        and None is the first step.
        """
        if self.is_tabular:
            index = _checked_index(observation, tables[0].shape[:2])
            return [table[index[..., 0], index[..., 1]] for table in tables], state
        env: Any = self.envs[0]
        vectors, step = _checked_vectors(observation, state, env)
        joint = self.policy_at(step, np.atleast_2d(vectors), kept)
        joint = joint.reshape(-1, *self.model.action_shape)
        players = range(1, joint.ndim)
        others = [tuple(other for other in players if other != player) for player in players]
        return [joint.sum(axis).reshape(*vectors.shape[:-1], -1) for axis in others], step + 1

    @property
    def trajectories(self) -> int:
        """Trajectories sampled so far."""
        return self.n_rounds * self.sampler.trajectories_per_round

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self.n_rounds * self.sampler.steps_per_round

    @property
    def log_det(self) -> Array:
        """log det Sigma^ of the last round, summed over steps   (B,)"""
        return self.model.log_det

    def schedule(self, k: int) -> Coefficients:
        """gamma_k and lambda_k."""
        return self.model.schedule(k)

    @property
    def tables(self) -> TabularModel:
        """The model of a finite environment; an error for observations."""
        if not isinstance(self.model, TabularModel):
            raise ValueError("this agent learns from observations; it has no tables")
        return self.model

    @property
    def batch(self) -> EnvBatch:
        return self.tables.batch

    @property
    def totals(self) -> PairTotals:
        return self.tables.totals

    @property
    def negatives(self) -> Array:
        """P^- (S,)"""
        return self.tables.negatives

    @cached_property
    def session(self) -> Session:
        """The agent with its trackers of regret and model error."""
        from contrastive_ucb.runs.session import Session

        return Session(self)

    def learn(
        self,
        rounds: int,
        progress: bool = True,
        callback: Callable[[Any], object] | None = None,
    ) -> Result:
        """Run `rounds` more rounds; the result has curves, a summary and a plot.

        callback  called with every round (`event.step`, `event.values`); returning False stops
        """
        from contrastive_ucb.runs.result import learn

        return learn(self.session, rounds, progress, callback)

    def evaluate(self, episodes: int = 20) -> dict[str, Any]:
        """Returns of episodes of the planned policy: mean, median, number and scores."""
        from contrastive_ucb.runs.result import evaluate_finite

        return evaluate_finite(self, episodes)

    def save(self, folder: str | Path) -> Path:
        """Save agent and environment in a folder; `contrastive_ucb.load` loads them."""
        from contrastive_ucb.runs.save import save_agent

        return save_agent(self, folder)

    def state_of(self, seed: int) -> dict[str, Any]:
        """The state of one seed, from which its run can be continued, as arrays and JSON values."""
        streams = {name: stream_state(row[seed]) for name, row in self.streams.items()}
        return {
            "n_rounds": self.n_rounds,
            "bonus": self.bonus[seed],
            **self.model.state_of(seed),
            **streams,
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Load the states of all seeds, which must be of the same round."""
        rounds = {state["n_rounds"] for state in states}
        if len(rounds) != 1:
            raise ValueError(
                f"the states are of rounds {sorted(rounds)}; load states of the same round"
            )
        self.n_rounds = rounds.pop()
        self.bonus = np.stack([state["bonus"] for state in states])
        self.model.load_states(states)
        # The dictionary is updated in place because model and sampler refer to it.
        self.streams |= {name: [restore_stream(s[name]) for s in states] for name in self.streams}

    def _check_table(self, name: str) -> None:
        """Raise an error if the policy is a function of observations and has no table."""
        if not self.is_tabular:
            raise ValueError(
                f"agent.{name} has no table because this agent learns from observations; use"
                " agent.predict, or agent.policy_at(step, observations) for probabilities"
            )

    def _check_single_seed(self, alternative: str) -> None:
        """Raise an error if there are several seeds."""
        if len(self.seeds) > 1:
            raise ValueError(f"the agent has {len(self.seeds)} seeds; use {alternative} instead")


def _represented(envs: Sequence[Env | ObservedEnv], config: AgentConfig) -> list[Env | ObservedEnv]:
    """The environments for the chosen representation: networks get finite states as vectors."""
    if config.representation == "tabular":
        for env in envs:
            if isinstance(env, ObservedEnv):
                raise ValueError(
                    f"representation = 'tabular' needs a finite environment, and {env.name} has"
                    " vector observations; use representation='neural'"
                )
    if config.representation != "neural":
        return list(envs)
    return [env if isinstance(env, ObservedEnv) else one_hot(env) for env in envs]


def _checked_index(observation: Any, limits: tuple[int, ...]) -> IntArray:
    """Observations (2,) or (n, 2) of a finite environment as integers within the limits (H, S)."""
    index = np.asarray(observation)
    if index.shape[-1:] != (2,) or index.dtype.kind not in "iu":
        raise ValueError(
            f"an observation must be (step, state), got {index.dtype} of shape {index.shape}"
        )
    if (index < 0).any() or (index >= np.array(limits)).any():
        raise ValueError(
            f"the observation {index.tolist()} is out of range; steps are 0..{limits[0] - 1} and"
            f" states 0..{limits[1] - 1}"
        )
    return index


def _checked_vectors(observation: Any, state: Any, env: ObservedEnv) -> tuple[Array, int]:
    """Observations (D,) or (n, D) as finite numbers, and their step."""
    vectors = np.asarray(observation, dtype=np.float64)
    if vectors.ndim not in (1, 2) or vectors.shape[-1] != env.size:
        raise ValueError(
            f"an observation of {env.name} has {env.size} numbers, got shape {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise ValueError("the observation has a NaN or infinite entry")
    step = 0 if state is None else int(state)
    if not 0 <= step < env.horizon:
        raise ValueError(
            f"step {step} is out of range; steps are 0..{env.horizon - 1}, and state=None starts an"
            " episode"
        )
    return vectors, step
