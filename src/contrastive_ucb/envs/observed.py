"""Environments with vector observations, for the neural function class.

There may be infinitely many observations, so nothing here is a table. Trajectories advance in
parallel, as in Algorithms 3 and 4. If values can be computed, an environment has a finite twin on
which the exact evaluation of the tabular agents is carried out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from math import prod
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP, checked_action

Random = np.random.Generator


class Walk(ABC):
    """Parallel trajectories, all at the same step.

    observations    (n, D)
    per_trajectory  names of the attributes with one entry per trajectory
    """

    observations: Array
    per_trajectory: tuple[str, ...] = ("observations",)

    @abstractmethod
    def move(self, actions: IntArray, random: Random) -> Array:
        """Take one (joint) action per trajectory; returns the rewards (n,)."""

    def keep(self, kept: slice) -> None:
        """Continue with these trajectories only."""
        for name in self.per_trajectory:
            setattr(self, name, getattr(self, name)[kept])


@dataclass(frozen=True)
class Twin:
    """A finite environment that approximates the values of policies in an observed one.

    The values are equal if every state is a state of the twin (one-hot observations). Otherwise
    they are estimates: on 16 fixed observations per state of RichLock, on a grid of [0, 1].

    observations  (H, S, D)  the observation of each state of the twin at each step
    is_even                  whether the observations are equally likely under the uniform
                             distribution, so that a density is comparable with the kernel
    """

    env: TabularMDP | TabularGame
    observations: Array
    is_even: bool = False


class ObservedEnv(ABC):
    """H steps, observations (D,), and discrete actions.

    low, high     (D,)  bounds of the observations, infinite if there are none
    action_shape  (A,) for an MDP, (A1, A2) for a zero-sum game; a joint action is one number
    """

    name: str
    horizon: int
    action_shape: tuple[int, ...]
    first_action: int = 0  # what the environment calls its first action
    low: Array
    high: Array
    rank: int = 8  # suggested d; 8 solved RichLock in a pilot

    reveals_reward: bool = False  # True: `rewards` is known, as in the paper
    suggested_alpha: float = 0.3  # suggested scale of the practical bonus, gamma = alpha H
    solved_gap: float | None = None  # as in FiniteEnv, measured on the twin
    solved_return: float | None = None  # least return of 5 evaluations in a row of 20 episodes each
    stops_when_solved: bool = False
    suggested: Mapping[str, Any] = MappingProxyType({})  # suggested settings of the neural class

    @property
    def size(self) -> int:
        """D, the dimension of the observations."""
        return len(self.low)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments from which `load` rebuilds a saved environment, as JSON values.

        A subclass keeps each of them as an attribute.
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    @property
    def n_joint(self) -> int:
        """A, the number of joint actions."""
        return prod(self.action_shape)

    def vectors(self, observation: Any) -> Array:
        """An observation (D,), or several (n, D), as finite numbers."""
        vectors = np.asarray(observation, dtype=np.float64)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != self.size:
            raise UserError(
                f"an observation of {self.name} has {self.size} numbers, got shape {vectors.shape};"
                " pass it as the environment returns it, or several along a first axis"
            )
        if not np.isfinite(vectors).all():
            raise UserError(
                f"the observation of {self.name} has a NaN or infinite entry; correct it"
            )
        return vectors

    def raw_returns(self, returns: Array) -> Array:
        """Sums of H rewards in the units of the environment itself."""
        return returns

    @abstractmethod
    def begin(self, count: int, random: Random) -> Walk:
        """Begin `count` trajectories."""

    def rewards(self, step: int, observations: Array) -> Array:
        """The mean rewards (n, A), if they are known."""
        raise ValueError(f"the rewards of {self.name} are not known; use reward='learned'")

    def twin(self) -> Twin | None:
        """The finite twin, or None."""
        return None

    def uniform(self, count: int, random: Random) -> Array:
        """Draws from the uniform distribution on the observations   (count, D)"""
        self.check_bounded("the uniform distribution")
        return np.asarray(random.uniform(self.low, self.high, (count, self.size)))

    def check_bounded(self, what: str) -> None:
        """Raise if the observations have no bounds, which `what` requires."""
        if not np.isfinite(self.high - self.low).all():
            raise ValueError(
                f"{what} needs bounds, but the observations of {self.name} are unbounded; use"
                " density='seen' or 'gaussian', and harmonics=0"
            )

    def uniform_nodes(self, count: int) -> Array | None:
        """Quadrature nodes of the uniform distribution (count, D), or None.

        In one dimension they are the midpoints of `count` equal intervals.
        """
        if self.size > 1 or not np.isfinite(self.high - self.low).all():
            return None
        return self.low + (self.high - self.low) * (np.arange(count)[:, None] + 0.5) / count

    def __repr__(self) -> str:
        actions = self.action_shape[0] if len(self.action_shape) == 1 else self.action_shape
        return f"{type(self).__name__}(size={self.size}, n_actions={actions}, H={self.horizon})"

    __str__ = __repr__


def check_observed(name: str, what: str, values: Array, when: str) -> None:
    """Raise if an environment returned values that are not finite in float32."""
    with np.errstate(over="ignore"):  # values that are too large become infinite
        finite = np.isfinite(values.astype(np.float32)).all()
    if not finite:
        raise ArithmeticError(
            f"{name} returned a NaN or infinity as {what!r} at {when}; it must be finite in"
            " float32, below 3.4e38, so rescale it in the environment"
        )


class ObservedMDP(ObservedEnv, gymnasium.Env[Array, np.int64]):
    """An ObservedEnv with one player that is also a Gymnasium environment."""

    def _set_spaces(self) -> None:
        """Set the spaces of Gymnasium; a subclass calls it at the end of its __init__."""
        check_size("horizon", self.horizon)
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        self.observation_space = spaces.Box(low, high, dtype=np.float64)
        self.action_space = spaces.Discrete(self.action_shape[0], start=self.first_action)
        self._walk: Walk | None = None
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._walk, self._step = self.begin(1, self.np_random), 0
        return self._walk.observations[0].copy(), {}

    def step(self, action: int | np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self._walk is None or self._step == self.horizon:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")
        index = checked_action("action", action, self.action_shape[0], self.first_action)
        reward = float(self._walk.move(np.array([index]), self.np_random)[0])
        self._step += 1
        over = self._step == self.horizon
        return self._walk.observations[0].copy(), reward, over, False, {}
