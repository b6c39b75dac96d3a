"""Environments that are seen through observations, a vector at a time: what the neural class needs.

There may be infinitely many observations, so nothing here is a table. Many trajectories walk side
by side, which is how Algorithms 3 and 4 collect. Where values can be computed all the same, an
environment has a finite twin on which the accounts of the finite tier go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.finite import checked_action
from contrastive_ucb.envs.games import TabularGame
from contrastive_ucb.envs.tabular import TabularMDP

Random = np.random.Generator


class Walk(Protocol):
    """Trajectories that are all at the same step.   observations (n, D)"""

    observations: Array

    def move(self, actions: IntArray, random: Random) -> Array:
        """Take one (joint) action a trajectory; returns the rewards (n,)."""
        ...

    def keep(self, kept: slice) -> None:
        """Go on with these trajectories only."""
        ...


@dataclass(frozen=True)
class Twin:
    """A finite environment in which a policy is worth nearly what it is worth in this one.

    Equal it is where all states are in the twin (one-hot observations). Elsewhere the twin's values
    are an estimate: on 16 fixed draws for each state of a rich lock, on even nodes of [0, 1].

    observations  (H, S, D)  what its states look like at each step
    is_even                  whether they are equal shares of the uniform distribution, so that a
                             density can be compared with the twin's kernel
    """

    env: TabularMDP | TabularGame
    observations: Array
    is_even: bool = False


class ObservedEnv(ABC):
    """H steps, observations (D,), and one action number a player.

    low, high     (D,)  bounds of the observations, infinite where there are none
    action_shape  (A,) of an MDP, (A1, A2) of a zero-sum game; joint actions are one number
    """

    name: str
    arguments: Mapping[str, Any] = MappingProxyType({})  # what a built-in one was made with
    horizon: int
    action_shape: tuple[int, ...]
    low: Array
    high: Array
    rank: int = 8  # d that suits it; 8 opened the rich lock in a pilot

    reveals_reward: bool = False  # True: `rewards` is known, as in the paper
    suggested_alpha: float = 0.3  # size of the practical bonus, gamma = alpha H, that suits it
    solved_gap: float | None = None  # as in FiniteEnv, on the twin
    solved_return: float | None = None  # what 20 episodes, five times in a row, must all return
    stops_when_solved: bool = False
    suggested: Mapping[str, Any] = MappingProxyType({})  # settings of the neural class that suit it

    @property
    def size(self) -> int:
        """D."""
        return len(self.low)

    @property
    def n_joint(self) -> int:
        """A, the number of joint actions."""
        return prod(self.action_shape)

    @abstractmethod
    def begin(self, count: int, random: Random) -> Walk:
        """So many trajectories at their first step."""

    def rewards(self, step: int, observations: Array) -> Array:
        """The mean rewards (n, A), where they are known."""
        raise ValueError(f"{self.name} does not tell its rewards; use reward='learnt'")

    def twin(self) -> Twin | None:
        """The finite twin; None where nobody knows one."""
        return None

    def uniform(self, count: int, random: Random) -> Array:
        """Draws of the uniform distribution on the observations   (count, D)"""
        self.check_bounded("the uniform distribution")
        return np.asarray(random.uniform(self.low, self.high, (count, self.size)))

    def check_bounded(self, what: str) -> None:
        """Stop where bounds are needed and there are none."""
        if not np.isfinite(self.high - self.low).all():
            raise ValueError(
                f"{what} needs bounds, and observations of {self.name} have none; use"
                " density='seen' or 'gaussian', and harmonics=0"
            )

    def uniform_nodes(self, count: int) -> Array | None:
        """Points that stand for the uniform distribution better than draws; None: there are none.

        One coordinate: the middles of `count` equal parts.   returns (count, D)
        """
        if self.size > 1 or not np.isfinite(self.high - self.low).all():
            return None
        return self.low + (self.high - self.low) * (np.arange(count)[:, None] + 0.5) / count

    def __repr__(self) -> str:
        actions = self.action_shape[0] if len(self.action_shape) == 1 else self.action_shape
        return f"{type(self).__name__}(size={self.size}, n_actions={actions}, H={self.horizon})"

    __str__ = __repr__


def check_shown(name: str, what: str, values: Array, when: str) -> None:
    """Stop where an environment gave something that is no number, or too large for the networks."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is found
        finite = np.isfinite(values.astype(np.float32)).all()
    if not finite:
        raise ArithmeticError(
            f"{name} gave a NaN or infinity as {what!r} at {when}; it must be finite in float32,"
            " below 3.4e38"
        )


class ObservedMDP(ObservedEnv, gymnasium.Env[Array, np.int64]):
    """The same with one player, as a Gymnasium environment too; it terminates after H steps."""

    def _open(self) -> None:
        """Gymnasium's spaces; a subclass calls it once its sizes are known."""
        check_size("horizon", self.horizon)
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        self.observation_space = spaces.Box(low, high, dtype=np.float64)
        self.action_space = spaces.Discrete(self.action_shape[0])
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
        chosen = np.array([checked_action("action", action, self.action_shape[0])])
        reward = float(self._walk.move(chosen, self.np_random)[0])
        self._step += 1
        over = self._step == self.horizon
        return self._walk.observations[0].copy(), reward, over, False, {}
