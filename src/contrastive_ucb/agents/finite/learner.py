"""What Algorithms 1 and 2 share: construction, policies at observations, saving and loading.

| paper                     | here        | shape         | line  |
|---------------------------|-------------|---------------|-------|
| pi^{k-1}                  | `planned`   | (B, H, S, A)  | 1, 4  |
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
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from contrastive_ucb.agents.finite.config import (
    AgentConfig,
    RepresentationKind,
    resolve,
)
from contrastive_ucb.agents.finite.tabular_model import TabularModel
from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.data.sampler import Streams, TabularSampler, steps_per_round, uniforms
from contrastive_ucb.envs.batch import SeedState
from contrastive_ucb.envs.finite_twin import one_hot
from contrastive_ucb.envs.gym_observed import as_env
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, check_observed

if TYPE_CHECKING:
    from contrastive_ucb.runs.result import Result
    from contrastive_ucb.runs.session import Session

C = TypeVar("C", bound=AgentConfig)
# Random streams, by name, that continue from round to round
TABULAR_STREAMS = ("walk", "label", "round")
NEURAL_STREAMS = (*TABULAR_STREAMS, "weights", "batch", "draws", "evaluate")


class Learner(SeedState, ABC, Generic[C]):
    """An agent with a model of its environment; a subclass implements the rounds.

    Both models have finitely many states to plan on, all S states or M draws of P^-, so that
    planning is the same for both.
    """

    kind: str  # identifies the class of a saved agent
    n_players: int
    saved: tuple[str, ...] = ("n_rounds", "bonus", "model")
    _streams: tuple[str, ...] = ()  # random streams of the subclass

    def __init__(
        self,
        env: Any,
        seed: int | Sequence[int],
        algo: str,
        config: C,
        negative_distribution: Array | None = None,
        env_options: Mapping[str, Any] | None = None,
    ):
        seeds = seed if isinstance(seed, (Sequence, np.ndarray)) else [seed]
        for value in seeds:
            check_size("seed", value, least=0)
        self.seeds, self.algo = [int(value) for value in seeds], algo
        self.envs = _checked_envs(env, env_options or {}, self.n_players, config.representation)
        if len(self.envs) != len(self.seeds) or not self.envs:
            raise ValueError(
                f"got {len(self.envs)} environments and {len(self.seeds)} seeds; pass one"
                " environment per seed, for example [env] * 3 with seed=[0, 1, 2]"
            )
        self.is_tabular = not isinstance(self.envs[0], ObservedEnv)
        if not self.is_tabular and len(self.envs) > 1:
            raise ValueError(
                f"networks are trained one seed at a time, got {len(self.envs)} seeds; create one"
                " agent per seed"
            )
        if not self.is_tabular and negative_distribution is not None:
            raise ValueError("negative_distribution is for tables; for observations use density")
        self.config = resolve(config, self.envs[0])
        names = (*(TABULAR_STREAMS if self.is_tabular else NEURAL_STREAMS), *self._streams)
        self.streams: Streams = {name: [stream(s, name) for s in self.seeds] for name in names}
        self.model: Any  # TabularModel or NeuralModel: data, representation and bonus
        self.sampler: Any  # TabularSampler or ObservedSampler
        if self.is_tabular:
            self.model = TabularModel(self.envs, self.seeds, self.config, negative_distribution)
            self.batch, self.negatives = self.model.batch, self.model.negatives
            self.sampler = TabularSampler(self.batch, self.negatives, self.streams)
        else:
            from contrastive_ucb.agents.finite.neural_model import NeuralModel  # imports torch
            from contrastive_ucb.data.observations import ObservedSampler

            self.model = NeuralModel(self.envs[0], self.config, self.streams)
            self.sampler = ObservedSampler(self.envs[0], self.model.trajectories, self.streams)
        shape = self.model.shape
        self.n_rounds = 0
        self.kernel: Kernel | None = None
        self.planned = np.full(shape, 1 / shape[-1])  # line 1: uniform; joint in a game
        self.bonus = np.zeros(shape)
        clip, schedule = self.config.clip, self.config.schedule
        clips = clip == "on" or (clip == "auto" and schedule == "practical")
        # H - h + 1, the largest return from step h on; None leaves Q unclipped as in the paper
        self.ceiling = np.arange(shape[1], 0.0, -1.0) if clips else None

    def __repr__(self) -> str:
        name, env = type(self).__name__, self.envs[0].name
        rounds = f"{self.n_rounds} round" + "s" * (self.n_rounds != 1)
        return f"{name}({env!r}, algo={self.algo!r}, seeds={self.seeds}, {rounds})"

    @abstractmethod
    def round(self) -> None:
        """One iteration of the algorithm."""

    @abstractmethod
    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """The (joint) policy of a stored round, given its Q-upper and in a game Q-lower.

        bounds  each (n, A); returns (n, A)
        """

    @property
    def roll_in(self) -> Any:
        """pi^{k-1}, with uniform actions mixed in for epsilon-greedy and uniform exploration.

        A table (B, H, S, A), or for observations the function `acts`.
        """
        return self.mixed(self.planned) if self.is_tabular else self.acts

    def _draws(self, k: int) -> BoolArray:
        """Whether round k replaces the drawn round, for each seed (B,): with probability 1 / k.

        After K rounds, each of them is the drawn one with probability 1 / K (l.227).
        """
        return np.asarray(uniforms(self.streams["round"], 1)[:, 0] * k < 1)

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
        if self.is_tabular:
            raise ValueError(
                "a finite environment has states, not observations; pass representation='neural'"
                " to represent states as vectors"
            )
        if kept not in self.model.kept:
            n_joint = self.model.shape[-1]
            policy = np.full((len(observations), n_joint), 1 / n_joint)
            return policy, [np.zeros(len(policy)) for _ in self.model.action_shape]
        with one_thread():
            bounds = self.model.kept[kept].bounds(step, observations, self.envs[0].rewards)
        policy = self._choose(step, bounds, kept)
        return policy, [np.asarray((policy * q).sum(-1)) for q in bounds]

    def _policies_at(
        self,
        observation: Any,
        state: Any,
        episode_start: Any,
        tables: Sequence[Array],
        kept: str,
    ) -> tuple[list[Array], Any]:
        """The policy of each player for `predict`, and the next `state`.

        Tables (H, S, A) are indexed by (step, state). For other observations `state` is the step,
        or the step of each observation; None is the first step, as is an `episode_start`.
        """
        if self.is_tabular:
            index = _checked_index(observation, tables[0].shape[:2])
            return [table[index[..., 0], index[..., 1]] for table in tables], state
        vectors = self.envs[0].vectors(observation)
        rows, steps = np.atleast_2d(vectors), _checked_steps(state, episode_start, self.envs[0])
        if steps.ndim and steps.shape != rows.shape[:1]:
            raise UserError(
                f"state and episode_start have shape {steps.shape} for {len(rows)} observations;"
                " pass one number, or one per observation"
            )
        at, joint = np.broadcast_to(steps, len(rows)), np.empty((len(rows), self.model.shape[-1]))
        for step in np.unique(at):
            joint[at == step] = self.policy_at(int(step), rows[at == step], kept)
        joint = joint.reshape(-1, *self.model.action_shape)
        players = range(1, joint.ndim)
        others = [tuple(other for other in players if other != player) for player in players]
        following = steps + 1 if steps.ndim else int(steps) + 1
        return [joint.sum(axis).reshape(*vectors.shape[:-1], -1) for axis in others], following

    @property
    def trajectories(self) -> int:
        """Trajectories sampled so far: one per step and round, or several with networks."""
        return self.n_rounds * int(self.envs[0].horizon) * (self.config.trajectories or 1)

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        per_round = steps_per_round(self.envs[0].horizon) * (self.config.trajectories or 1)
        return self.n_rounds * per_round

    @cached_property
    def session(self) -> Session:
        """The agent with its trackers of regret and model error."""
        from contrastive_ucb.runs.session import Session

        return Session(self)

    def learn(
        self,
        rounds: int | None = None,
        progress: bool = True,
        callback: Callable[[Any], object] | None = None,
        **unknown: Any,
    ) -> Result:
        """Run more rounds and measure them.

        Args:
            rounds: Number of rounds.
            progress: Show a progress bar.
            callback: Called with every round (`event.step`, `event.values`); returning False stops.
            **unknown: Not accepted; an error explains the correct arguments.

        Returns:
            Curves and summaries of these rounds.
        """
        from contrastive_ucb.runs.result import learn

        if unknown:
            arguments = "use learn(rounds=..., progress=..., callback=...)"
            raise UserError(
                f"learn() of {type(self).__name__} has no {min(unknown)!r}; {arguments}"
            )
        if rounds is None:
            raise UserError("learn() of this agent needs the number of rounds: learn(rounds=...)")
        return learn(self.session, rounds, progress, callback)

    def evaluate(self, episodes: int = 20) -> dict[str, Any]:
        """Play episodes with `predict`; in a game both players use their policies.

        Args:
            episodes: Number of episodes, which are the same in every call.

        Returns:
            A dictionary with the `mean` and `median` return, the number of `episodes` and all
            `scores`; in a game those of the row player.
        """
        from contrastive_ucb.runs.result import evaluate_finite

        return evaluate_finite(self, episodes)

    def save(self, folder: str | Path) -> Path:
        """Save agent and environment; `contrastive_ucb.load` loads them.

        Args:
            folder: Created if needed; an agent that was saved there is replaced atomically.

        Returns:
            The path of the saved state in the folder.
        """
        from contrastive_ucb.runs.save import save_agent

        return save_agent(self, folder)

    def state_of(self, seed: int) -> dict[str, Any]:
        """The state of one seed, from which its run can be continued, as arrays and JSON values."""
        streams = {name: stream_state(row[seed]) for name, row in self.streams.items()}
        return {**super().state_of(seed), **streams}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Load the states of all seeds, which must be of the same round."""
        rounds = {state["n_rounds"] for state in states}
        if len(rounds) != 1:
            raise ValueError(
                f"the states are of rounds {sorted(rounds)}; load states of the same round"
            )
        super().load_states(states)
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


def _checked_envs(
    given: Any, options: Mapping[str, Any], n_players: int, representation: RepresentationKind
) -> list[Any]:
    """The environments without wrappers; those of other packages as GymObserved.

    Networks get the states of a finite environment as vectors.
    """
    several = isinstance(given, Sequence) and not isinstance(given, str)
    envs = [as_env(env, options) for env in (given if several else [given])]
    for at, env in enumerate(envs):
        shape = env.action_shape if isinstance(env, ObservedEnv) else env.rewards.shape[2:]
        if len(shape) != n_players:
            kind, agent = ("an MDP", "UCB") if len(shape) == 1 else ("a two-player game", "ULCB")
            raise ValueError(f"{env.name} is {kind}; use Contrastive{agent}")
        if representation == "tabular" and isinstance(env, ObservedEnv):
            raise ValueError(
                f"representation = 'tabular' needs a finite environment, and {env.name} has"
                " vector observations; use representation='neural'"
            )
        if representation == "neural" and not isinstance(env, ObservedEnv):
            envs[at] = one_hot(env)
    return envs


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


def _checked_steps(state: Any, episode_start: Any, env: ObservedEnv) -> IntArray:
    """The step of an observation (), or of each one (n,): 0 where an episode starts, else `state`.

    None is 0.
    """
    steps = np.asarray(0 if state is None else state)
    if steps.dtype.kind not in "iu" or steps.ndim > 1:
        raise UserError(
            f"state counts the steps, got {state!r}; pass None at the start of an episode and then"
            " the state that predict() returned"
        )
    if episode_start is not None:
        steps = np.where(np.asarray(episode_start, dtype=np.bool_), 0, steps)
    if (steps < 0).any() or (steps >= env.horizon).any():
        raise UserError(
            f"step {steps.tolist()} is out of range; the policy has the steps 0 to"
            f" {env.horizon - 1}, so end episodes after horizon = {env.horizon} steps and pass"
            " state=None at the start of an episode"
        )
    return steps
