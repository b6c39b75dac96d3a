"""Any Gymnasium environment with Box observations and discrete actions, with a finite horizon.

An episode that ends before H continues in an absorbing state: its last observation, with a last
coordinate of 1 that marks the end (0 before), and rewards of 0. All rewards, including these zeros,
are mapped to [0, 1] by one affine map, which preserves the ranking of policies.

A time limit is not an end of the task, because what would follow is not observed; a time limit
below H is therefore an error. If an environment truncates an episode for other reasons, the episode
is treated as ended.

Trajectories are collected in parallel, so several copies of the environment are needed. An id and a
factory make them; an instance is copied with `copy.deepcopy` and is itself never reset or stepped.
An instance or a factory cannot be stored, so `load` needs it again: cu.load(folder, env=...).

The only randomness of the environment is that of `reset(seed=...)`. Every episode gets a seed from
the stream of the agent, so the seed of the run determines all episodes.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from math import inf
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_number, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.foreign import ForeignEnv, GymEnv, find_modules_here, made
from contrastive_ucb.envs.observed import ObservedEnv, ObservedMDP, Random, Walk
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP

PACKAGE_IDS = "contrastive_ucb/"  # namespace of the environments that this package registers


class GymObserved(ObservedMDP):
    """A Gymnasium environment with Box observations and Discrete actions, for H steps.

    Each trajectory runs in a copy of the environment with its own seed. If an episode ends before
    H, the last observation is repeated with rewards of 0; one more coordinate marks the end.

    Args:
        env_id: An id, an environment instance, or a function that makes environments. Only an id
            can be stored; to load an agent, pass an instance or a function again.
        horizon: H; at most the time limit of the environment.
        reward_low: The reward that is mapped to 0; at most 0.
        reward_high: The reward that is mapped to 1. Rewards outside of the two bounds are clipped,
            with a warning.
        solved_return: The environment is solved, and learning ends, when five evaluations in a row
            of 20 episodes each all have at least this return, in rewards of the environment. None:
            learning ends after the given rounds.
        env_kwargs: Keyword arguments of `gymnasium.make`, or of the function.

    Raises:
        ValueError: The environment cannot be made or copied, has other spaces, or a time limit
            below `horizon`.

    Examples:
        >>> import contrastive_ucb as cu
        >>> cu.GymObserved("CartPole-v1", horizon=20)
        GymObserved(size=5, n_actions=2, H=20)
    """

    suggested_alpha = 0.002  # the best of 0.01 and 0.002, with hidden 0 and 32, on CartPole, H = 50
    suggested = MappingProxyType({"trajectories": 10, "hidden": 32, "standardise": "on"})

    def __init__(
        self,
        env_id: str | GymEnv | Callable[[], GymEnv] = "CartPole-v1",
        horizon: int = 50,
        reward_low: float = 0.0,
        reward_high: float = 1.0,
        solved_return: float | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
    ):
        check_size("horizon", horizon)
        check_number("reward_low", reward_low)
        check_number("reward_high", reward_high)
        if not (-inf < reward_low <= 0 <= reward_high < inf and reward_low < reward_high):
            raise ValueError(
                "reward_low must be at most 0 and reward_high at least 0, since ended episodes have"
                f" reward 0, both finite and not equal; got {reward_low} and {reward_high}"
            )
        if solved_return is not None:
            check_number("solved_return", solved_return, finite=True)
        if not isinstance(env_kwargs or {}, Mapping):
            raise UserError(
                f"env_kwargs must be a dictionary such as {{'size': 5}}, got {env_kwargs!r}"
            )
        if env_kwargs and isinstance(env_id, gymnasium.Env):
            raise UserError(
                f"env_kwargs = {dict(env_kwargs)} has no effect on an instance, which is made"
                " already; pass them to its constructor, or pass its class instead"
            )
        self._source, self.env_kwargs = env_id, dict(env_kwargs or {})
        self.solved_return, self.stops_when_solved = solved_return, solved_return is not None
        self.env_id = env_id if isinstance(env_id, str) else _name_of(env_id)
        self.horizon, self.reward_low, self.reward_high = horizon, reward_low, reward_high
        self._pool: list[GymCopy] = []
        self._has_clipped = False
        first = self._copy(0).env
        box, actions, spec = first.observation_space, first.action_space, first.spec
        if not isinstance(box, spaces.Box) or not isinstance(actions, spaces.Discrete):
            raise ValueError(
                f"{self.env_id} has {type(box).__name__} observations and {type(actions).__name__}"
                " actions; use an environment with Box observations and Discrete actions"
            )
        limit = None if spec is None else spec.max_episode_steps
        if limit is not None and limit < horizon:
            raise ValueError(
                f"{self.env_id} has a time limit of {limit} steps, got horizon {horizon}; give a"
                f" horizon of at most {limit}"
            )
        self._shape, self.first_action = box.shape, int(actions.start)
        self.action_shape = (int(actions.n),)
        self.low = np.append(box.low.astype(np.float64).ravel(), 0.0)
        self.high = np.append(box.high.astype(np.float64).ravel(), 1.0)
        self.name = f"gym/{self.env_id}"
        self._set_spaces()

    @property
    def arguments(self) -> Mapping[str, Any]:
        if not isinstance(self._source, str):
            return {**super().arguments, "env_id": None}  # `load` needs it again
        return super().arguments

    def vectors(self, observation: Any) -> Array:
        """Observations of the environment itself, or vectors with the coordinate of the end."""
        raw, shape = np.asarray(observation), self._shape
        if raw.dtype.kind in "biuf" and raw.shape[-len(shape) or raw.ndim :] == shape:
            if raw.ndim == len(shape):
                return super().vectors(np.append(raw.ravel(), 0.0))
            if raw.ndim == len(shape) + 1:
                rows = raw.reshape(len(raw), -1).astype(np.float64)
                return super().vectors(np.pad(rows, ((0, 0), (0, 1))))
        if raw.shape[-1:] != (self.size,):
            raise UserError(
                f"an observation of {self.name} has shape {shape}, got {raw.dtype} of shape"
                f" {raw.shape}; pass it as the environment returns it, or several along a first"
                " axis"
            )
        return super().vectors(observation)

    def raw_returns(self, returns: Array) -> Array:
        """The inverse of the map of rewards to [0, 1], summed over H steps."""
        return returns * (self.reward_high - self.reward_low) + self.horizon * self.reward_low

    def begin(self, count: int, random: Random) -> GymWalk:
        seeds = random.integers(2**31, size=count)
        first = [self._copy(at).begin(int(seed)) for at, seed in enumerate(seeds)]
        return GymWalk(self, self._pool[:count], np.stack(first))

    def scaled(self, rewards: Array) -> Array:
        """Rewards (n,) mapped to [0, 1], with a warning for the first one outside the bounds."""
        low, high = self.reward_low, self.reward_high
        outside = rewards[(rewards < low) | (rewards > high)]
        if len(outside) and not self._has_clipped:
            self._has_clipped = True
            value = float(outside[0])
            bound, option = (low, "reward-low") if value < low else (high, "reward-high")
            warnings.warn(
                f"{self.env_id} pays {value:g}, which is clipped to {bound:g}: use"
                f" --{option} {value:g} (in Python {option.replace('-', '_')}={value:g})",
                stacklevel=3,
            )
        return np.clip((rewards - low) / (high - low), 0.0, 1.0)

    def _copy(self, number: int) -> GymCopy:
        """The copy of this number; copies are made when they are first needed."""
        while len(self._pool) <= number:
            env = self._make()
            if not isinstance(self._source, str):
                self.env_id = _name_of(env)  # of its class; a factory may be a lambda
            self._pool.append(GymCopy(env, f"gym/{self.env_id}", len(self._pool)))
        return self._pool[number]

    def _make(self) -> GymEnv:
        source = self._source
        if isinstance(source, str):
            return _made_by_id(source, self.env_kwargs)
        if isinstance(source, gymnasium.Env):
            try:
                return deepcopy(source)
            except Exception as error:
                raise ValueError(
                    f"{self.env_id} cannot be copied ({type(error).__name__}: {error}); pass a"
                    " function that makes the environment instead of an instance"
                ) from error
        if not callable(source):
            raise ValueError(
                f"env_id is {source!r}; it must be an id such as 'CartPole-v1', a Gymnasium"
                " environment, or a function that makes environments"
            )
        env = made(f"the factory {self.env_id}", source, **self.env_kwargs)
        if not isinstance(env, gymnasium.Env) or any(env is copy.env for copy in self._pool):
            raise ValueError(
                f"the factory {self.env_id} returned {env!r}; it must return a new Gymnasium"
                " environment at every call"
            )
        return env

    def close(self) -> None:
        for copy in self._pool:
            copy.env.close()


class GymCopy:
    """A copy of the environment, with checks and the place for their messages.

    number   of the copy; trajectories of one round with the same number run in the same copy
    """

    def __init__(self, env: GymEnv, name: str, number: int):
        self.env, self.number = env, number
        self.episode, self.n_steps = -1, 0
        self._checked = ForeignEnv(env, name, self._place)

    def begin(self, seed: int) -> Array:
        """Start an episode; returns the observation (D,)."""
        self.episode, self.n_steps = self.episode + 1, 0
        return np.asarray(self._checked.reset(seed), dtype=np.float64).ravel()

    def step(self, action: int) -> tuple[Array, float, bool]:
        """Take an action; returns the observation (D,), the reward, and whether it has ended."""
        self.n_steps += 1
        observation, reward, terminated, truncated = self._checked.step(action)
        return observation.astype(np.float64).ravel(), reward, terminated or truncated

    def _place(self) -> str:
        return f"at step {self.n_steps} of episode {self.episode} (copy {self.number})"


class GymWalk(Walk):
    """Trajectories, each in a copy of the environment that draws its own random numbers."""

    per_trajectory = ("observations", "copies")

    def __init__(self, env: GymObserved, copies: list[GymCopy], first: Array):
        self.env, self.copies = env, copies
        self.observations = np.pad(first, ((0, 0), (0, 1)))

    def move(self, actions: IntArray, random: Random) -> Array:
        env, rewards = self.env, np.zeros(len(actions))  # on the scale of the environment
        self.observations = self.observations.copy()
        for at in np.flatnonzero(self.observations[:, -1] == 0):
            action = int(actions[at]) + env.first_action
            row, rewards[at], self.observations[at, -1] = self.copies[at].step(action)
            self.observations[at, :-1] = row
        return env.scaled(rewards)


OPTIONS = tuple(inspect.signature(GymObserved).parameters)[1:]  # all except the environment


def as_env(env: Any, options: Mapping[str, Any]) -> Any:
    """What an agent learns in: an environment of this package without wrappers, or GymObserved.

    options  arguments of GymObserved; an environment of this package has none of them
    """
    is_factory = callable(env) and not isinstance(env, gymnasium.Env)
    inner = env
    if isinstance(env, str) and env.startswith(PACKAGE_IDS):
        inner = _made_by_id(env, options.get("env_kwargs") or {}).unwrapped
        options = {name: value for name, value in options.items() if name != "env_kwargs"}
    elif not is_factory:
        inner = getattr(env, "unwrapped", env)
    if isinstance(inner, TabularMDP | TabularGame | ObservedEnv):
        for name, value in options.items():
            raise UserError(
                f"{name} = {value!r} is for other Gymnasium environments and has no effect on"
                f" {inner.name}; pass it to {type(inner).__name__}"
            )
        return inner
    if is_factory or isinstance(env, str | gymnasium.Env):
        return GymObserved(env, **options)
    raise UserError(
        f"{type(env).__name__} is not an environment; pass a Gymnasium id or environment, a"
        " function that makes environments, or the arrays of a finite MDP as TabularMDP(P, r) or"
        " of a two-player zero-sum game as TabularGame(P, r)"
    )


def _made_by_id(name: str, options: Mapping[str, Any]) -> GymEnv:
    """The environment that gymnasium.make makes."""
    find_modules_here(name)
    try:
        env: GymEnv = made(name, gymnasium.make, name, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(
            f"Gymnasium cannot make {name!r} ({' '.join(str(error).split())})"
        ) from error
    return env


def _name_of(source: Any) -> str:
    """A name for messages: the id of an instance, or the name of its class or of a factory."""
    if isinstance(source, gymnasium.Env):
        return source.spec.id if source.spec is not None else type(source.unwrapped).__name__
    return getattr(source, "__name__", type(source).__name__)
