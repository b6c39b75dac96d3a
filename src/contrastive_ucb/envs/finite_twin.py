"""A finite MDP or game with sampled observations, and its finite twin.

    s ~ P_h(.|z),  o ~ q_h(.|s)

With one-hot emissions q the observations are the states: the tabular problem for the neural class.
The finite twin has `copies` sampled observations per state, all equally likely; with one-hot
observations one copy suffices, and the twin is the finite environment itself.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.batch import Env, EnvBatch, draw
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv, ObservedMDP, Random, Twin, Walk
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP

LEAST_NODES = 512  # the default number of draws if P^- has no nodes
COPIES = 16  # observations per state of the twin


class EmissionEnv(ObservedEnv):
    """The finite environment `base`, observed through `emit`, which a subclass defines."""

    def __init__(self, base: Env, low: Array, high: Array, copies: int = COPIES):
        self.base, self.copies, self.low, self.high = base, copies, low, high
        self.batch = EnvBatch([base])
        self.name, self.horizon = base.name, base.horizon
        self.action_shape = self.batch.action_shape
        self.suggested_alpha, self.solved_gap = base.suggested_alpha, base.solved_gap

    def emit(self, step: int, states: IntArray, random: Random) -> Array:
        """Observations of the states (n,) at step 0..H   (n, D)"""
        raise NotImplementedError

    def begin(self, count: int, random: Random) -> EmissionWalk:
        states = draw(self.batch.initial[0][None], random.random(count))
        return EmissionWalk(self, states, self.emit(0, states, random))

    def twin(self) -> Twin:
        random = stream(0, "twin")  # the same noise in every run, so that runs are comparable
        states = np.repeat(np.arange(self.base.n_states), self.copies)
        observations = [self.emit(step, states, random) for step in range(self.horizon)]
        env = duplicate_states(self.base, self.copies)
        return Twin(env, np.stack(observations), is_even=self.copies == 1)


class EmissionWalk(Walk):
    """Parallel trajectories of an EmissionEnv."""

    per_trajectory = ("observations", "states")

    def __init__(self, env: EmissionEnv, states: IntArray, observations: Array):
        self.env, self.states, self.observations, self.step = env, states, observations, 0

    def move(self, actions: IntArray, random: Random) -> Array:
        uniform = random.random((3, len(actions))).T
        arrived, rewards = self.env.batch.move(
            self.step, self.states[None], actions[None], uniform[None]
        )
        self.states, self.step = arrived[0], self.step + 1
        self.observations = self.env.emit(self.step, self.states, random)
        return np.asarray(rewards[0])


class OneHot(EmissionEnv):
    """States as unit vectors: the tabular problem for the neural class.

    The uniform distribution is that over states, as for tables, not a density between the unit
    vectors. It is fixed and bounded away from 0, as the paper requires, and zeta can be measured
    under it. Its nodes are the states, each equally often.
    """

    def __init__(self, base: Env):
        n_states = base.n_states
        super().__init__(base, np.zeros(n_states), np.ones(n_states), copies=1)
        self.rank = base.rank or self.rank
        self.reveals_reward = base.reveals_reward
        self.suggested = {"density": "uniform", "n_draws": n_states * -(-LEAST_NODES // n_states)}

    def emit(self, step: int, states: IntArray, random: Random) -> Array:
        return np.asarray(np.eye(self.base.n_states)[states])

    def rewards(self, step: int, observations: Array) -> Array:
        return np.asarray(observations @ self.batch.rewards[0, step])

    def uniform(self, count: int, random: Random) -> Array:
        return self.emit(0, random.integers(self.base.n_states, size=count), random)

    def uniform_nodes(self, count: int) -> Array | None:
        """Every state equally often, if `count` is a multiple of their number."""
        times, rest = divmod(count, self.base.n_states)
        return None if rest else np.tile(np.eye(self.base.n_states), (times, 1))


class OneHotMDP(OneHot, ObservedMDP):
    """OneHot for MDPs, as a Gymnasium environment."""

    def __init__(self, base: TabularMDP):
        super().__init__(base)
        self._set_spaces()


def one_hot(env: Env) -> OneHot:
    """A finite MDP or game with states observed as unit vectors."""
    return OneHotMDP(env) if isinstance(env, TabularMDP) else OneHot(env)


def duplicate_states(base: Env, copies: int) -> Env:
    """The environment in which every state is replaced by `copies` equally likely states."""
    if copies == 1:
        return base
    kernel, horizon, n_states = base.kernel, base.horizon, base.n_states
    rank = kernel.features.shape[-1]
    rows = kernel.features.reshape(horizon, n_states, -1, rank)
    measures = np.broadcast_to(np.eye(n_states), (horizon, n_states, n_states))
    if kernel.measures is not None:
        measures = kernel.measures
    duplicated = Kernel(
        rows.repeat(copies, axis=1).reshape(horizon, -1, rank),
        measures.repeat(copies, axis=-1) / copies,
    )
    kind = TabularGame if isinstance(base, TabularGame) else TabularMDP
    scale = base.reward_scale
    return kind(
        duplicated,
        base.rewards.repeat(copies, axis=1),
        base.initial.repeat(copies) / copies,
        reward_scale=None if scale is None else scale.repeat(copies, axis=1),
        rank=base.rank,
        name=base.name,
    )
