"""What Algorithms 1 and 2 share: data, features and bonus, lines 1 to 10, for all seeds at once.

| paper              | here                        | shape           | line   |
|--------------------|-----------------------------|-----------------|--------|
| pi^{k-1}           | `roll_in`, `acts`           | (B, H, S, A)    | 1, 4   |
| D_h^k, D~_h^k      | `world`                     |                 | 4      |
| phi^, psi^, P^     | `kernel`                    | (B, H, Z, d)    | 6-8    |
| beta_h^k           | `bonus`                     | (B, H, S, A)    | 10     |

The paper updates h = H, ..., 1 one by one; lines 6 to 10 do not look at V, so all h go at once
here and only what follows runs backwards. In a game A counts joint actions and z is (s, a, b).

A `world` does lines 4 to 10: `TabularWorld` with every pair in tables, or `ObservedWorld` with
networks, where S counts the draws of P^- that stand for infinitely many states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.agents.finite.neural_parts import resolve_neural
from contrastive_ucb.agents.finite.observation import checked_observation, checked_vectors
from contrastive_ucb.agents.finite.observed_world import ObservedWorld
from contrastive_ucb.agents.finite.parts import resolve
from contrastive_ucb.agents.finite.tables import HasTables
from contrastive_ucb.agents.finite.tabular_world import TabularWorld
from contrastive_ucb.agents.finite.world import Limits, World
from contrastive_ucb.bonus.schedule import Coefficients
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.finite_twin import one_hot
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv

if TYPE_CHECKING:
    from contrastive_ucb.runs.result import Result
    from contrastive_ucb.runs.session import Session


C = TypeVar("C", bound=AgentConfig)


class Learner(HasTables, ABC, Generic[C]):
    """Rounds of data, features, bonus and planning; a subclass says what planning is."""

    kind: str  # what a saved agent is recognised by

    def __init__(
        self,
        envs: Sequence[Env | ObservedEnv],
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
        self.envs, self.algo = _as_represented(envs, config), algo
        kind = ObservedWorld if isinstance(self.envs[0], ObservedEnv) else TabularWorld
        names = (*kind.streams, *self._streams)
        self.streams = {name: [stream(s, name) for s in self.seeds] for name in names}
        self.config, self.world = self._made(config, negative_distribution)
        self.n_rounds = 0
        self.bonus = np.zeros(self.world.shape)
        self.log_det = np.zeros(len(self.seeds))  # of Sigma, summed over steps
        self.kernel: Kernel | None = None

    _streams: tuple[str, ...] = ()  # random streams of the algorithm, beside those of the world

    def round(self) -> None:
        """One iteration of the algorithm, which costs H trajectories, or a multiple of that."""
        k = self.n_rounds + 1
        self.world.collect(self, k)  # line 4
        self.kernel = self.world.fit(k)  # lines 6-8
        with one_thread():
            self.bonus, self.log_det = self.world.bonus(self.kernel, k)  # lines 9-10
        self._plan(self.kernel, k)
        self.world.settle(self._kept(k), self._planned_values, self._limits())
        self.n_rounds = k

    @abstractmethod
    def _plan(self, kernel: Kernel, k: int) -> None:
        """The lines after the bonus: values and policies of round k."""

    @property
    @abstractmethod
    def _planned(self) -> Array:
        """What was planned last, joint in a game   (B, H, S, A)"""

    @property
    @abstractmethod
    def _planned_values(self) -> list[Array]:
        """V-upper of the last plan, and in a game V-lower, each (B, H, S)"""

    @abstractmethod
    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """The (joint) policy where Q-upper, and in a game Q-lower, of the kept plan are these.

        bounds  each (n, A); returns (n, A)
        """

    def _kept(self, k: int) -> list[str]:
        """The names under which the policy of round k stays."""
        return ["last"]

    @property
    def roll_in(self) -> Array:
        """What the next round acts with, pi^{k-1}; epsilon-greedy and uniform mix it.

        returns (B, H, S, A)
        """
        return self.mixed(self._planned)

    def acts(self, step: int, observations: Array) -> Array:
        """The same at any observation   (n, D) -> (n, A)"""
        return self.mixed(self.policy_at(step, observations))

    def policy_at(self, step: int, observations: Array, kept: str = "last") -> Array:
        """The planned policy at observations, joint in a game   (n, D) -> (n, A)"""
        return self.judge(step, observations, kept)[0]

    def judge(
        self, step: int, observations: Array, kept: str = "last"
    ) -> tuple[Array, list[Array]]:
        """The policy (n, A) and its V-upper (n,), and in a game V-lower, at observations (n, D).

        Before the first round the policy is uniform and the values are 0.
        """
        bounds = self.world.bounds(kept, step, observations)
        if bounds is None:
            n_joint = self.world.shape[-1]
            policy = np.full((len(observations), n_joint), 1 / n_joint)
            return policy, [np.zeros(len(policy)) for _ in self._planned_values]
        policy = self._choose(step, bounds, kept)
        return policy, [np.asarray((policy * q).sum(-1)) for q in bounds]

    @property
    def trajectories(self) -> int:
        return self.n_rounds * self.world.round_trajectories

    @property
    def env_steps(self) -> int:
        return self.n_rounds * self.world.round_steps

    def schedule(self, round_number: int) -> Coefficients:
        """gamma_k and lambda_k."""
        return self.world.schedule(round_number)

    def _rewards(self) -> Array:
        """r_h, known or learnt   (B, H, S, A)"""
        return self.world.rewards()

    def mixed(self, policy: Array) -> Array:
        """A policy with the uniform actions that the roll-in has."""
        epsilon = self.config.epsilon
        return np.asarray((1 - epsilon) * policy + epsilon / policy.shape[-1])

    def _ceiling(self) -> Array | None:
        """H - h + 1, the most that can still be earned; None leaves Q as the paper has it."""
        return np.arange(self.world.shape[1], 0.0, -1.0) if self.config.clips else None

    def _limits(self) -> Limits | None:
        """What the planning of the algorithm clips Q to."""
        ceiling = self._ceiling()
        return None if ceiling is None else Limits(self._least * ceiling, ceiling)

    _least: float = 0.0  # smallest return, in parts of the largest

    def _uniforms(self, name: str, count: int) -> Array:
        """Numbers in [0, 1) of one stream   (B, count)"""
        return np.stack([generator.random(count) for generator in self.streams[name]])

    def _made(self, config: C, negative_distribution: Array | None) -> tuple[C, World]:
        """The configuration with everything filled in, and the world that follows it."""
        env = self.envs[0]
        if not isinstance(env, ObservedEnv):
            resolved = resolve(config, env)
            finite = [one for one in self.envs if not isinstance(one, ObservedEnv)]
            return resolved, TabularWorld(
                finite, self.seeds, resolved, negative_distribution, self.streams
            )
        if len(self.envs) > 1:
            raise ValueError("networks are trained for one seed at a time; make an agent a seed")
        if negative_distribution is not None:
            raise ValueError("negative_distribution is for tables; observations have density=...")
        resolved = resolve_neural(config, env)
        return resolved, ObservedWorld(env, resolved, self.streams)

    def _seen(
        self, observation: Any, state: Any, tables: Sequence[Array], kept: str
    ) -> tuple[list[Array], Any]:
        """The policies of all players where `predict` is asked, and the state after it.

        Tables (H, S, A) are looked up at (step, state). Policies of observations count their steps
        themselves: the state of `predict` is the step, and None is the first.
        """
        if isinstance(self.world, TabularWorld):
            at = checked_observation(observation, tables[0].shape[:2])
            return [table[at[..., 0], at[..., 1]] for table in tables], state
        env = self.envs[0]
        assert isinstance(env, ObservedEnv)
        seen, step = checked_vectors(observation, state, env)
        joint = self.policy_at(step, np.atleast_2d(seen), kept)
        players = range(1, len(self.world.action_shape) + 1)
        split = joint.reshape(-1, *self.world.action_shape)
        others = [tuple(p for p in players if p != own) for own in players]
        marginals = [split.sum(axis).reshape(*seen.shape[:-1], -1) for axis in others]
        return marginals, step + 1

    # The three that follow are the user's doors; they reach right of this file in the arrow.

    @cached_property
    def session(self) -> Session:
        """The agent with its exact accounts of regret and model error."""
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
        """Write agent and environment into a folder, from where `contrastive_ucb.load` takes it."""
        from contrastive_ucb.runs.save import save_agent

        return save_agent(self, folder)

    def state_of(self, seed: int) -> dict[str, Any]:
        """All that the run of one seed needs to go on, as arrays and JSON values."""
        streams = {name: stream_state(kept[seed]) for name, kept in self.streams.items()}
        return {
            "n_rounds": self.n_rounds,
            "bonus": self.bonus[seed],
            **self.world.state_of(seed),
            **streams,
        }

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Go on from the states of all seeds, which must be of the same round."""
        rounds = {state["n_rounds"] for state in states}
        if len(rounds) != 1:
            raise ValueError(f"the seeds are at rounds {sorted(rounds)}; load those of one round")
        self.n_rounds = rounds.pop()
        self.bonus = np.stack([state["bonus"] for state in states])
        self.world.load_states(states)
        # The world draws from the same dictionary, so it is filled and not replaced.
        self.streams |= {name: [restore_stream(s[name]) for s in states] for name in self.streams}

    def _only(self, what: str) -> None:
        """Stop where a single seed is asked for and there are several."""
        if len(self.seeds) > 1:
            raise ValueError(f"there are {len(self.seeds)} seeds; take one of {what}")


def check_seed(seed: int) -> int:
    """A seed as a plain integer; numpy's are welcome too."""
    check_size("seed", seed, least=0)
    return int(seed)


def _as_represented(
    envs: Sequence[Env | ObservedEnv], config: AgentConfig
) -> list[Env | ObservedEnv]:
    """The environments as the representation wants them: a finite one can be shown as vectors."""
    if config.representation == "tabular":
        for env in envs:
            if isinstance(env, ObservedEnv):
                raise ValueError(
                    f"{env.name} is seen through observations, which no table holds; use"
                    " representation='neural'"
                )
    if config.representation != "neural":
        return list(envs)
    return [env if isinstance(env, ObservedEnv) else one_hot(env) for env in envs]
