"""Any Gymnasium environment with a Box of observations, discrete actions and a horizon.

An episode that ends before H goes on in an absorbing state: its last observation, with a last
coordinate of 1 that says "over" (0 before), and rewards of 0. All rewards, those 0s among them, are
then scaled to [0, 1] by one affine map, so that policies rank as they do in the environment.

A time limit is no end of the task: what would follow is not seen. One below H is therefore refused.
Where an environment truncates an episode for other reasons, nothing can follow, and it is over.
"""

from __future__ import annotations

import warnings
from math import inf
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.observed import ObservedMDP, Random


class GymObserved(ObservedMDP):
    """The environment `env_id` for H steps; each trajectory is a copy of it with a seed of its own.

    reward_low, reward_high   the rewards that become 0 and 1; what is outside is clipped, and said
    """

    suggested_alpha = 0.002  # of .01, .002 and hidden 0, 32 the best on CartPole with H = 50
    suggested = MappingProxyType({"trajectories": 10, "hidden": 32, "standardise": "on"})

    def __init__(
        self,
        env_id: str = "CartPole-v1",
        horizon: int = 50,
        reward_low: float = 0.0,
        reward_high: float = 1.0,
    ):
        check_size("horizon", horizon)
        check_reward_bounds(reward_low, reward_high)
        self.env_id, self.horizon = env_id, horizon
        self.reward_low, self.reward_high = reward_low, reward_high
        self.arguments = {
            "env_id": env_id,
            "horizon": horizon,
            "reward_low": reward_low,
            "reward_high": reward_high,
        }
        self._pool: list[gymnasium.Env[Any, Any]] = []
        self._has_clipped = False
        box, actions = self._made(0).observation_space, self._made(0).action_space
        if not isinstance(box, spaces.Box) or not isinstance(actions, spaces.Discrete):
            raise ValueError(
                f"{env_id} has {type(box).__name__} observations and {type(actions).__name__}"
                " actions; give an environment with Box observations and Discrete actions"
            )
        spec = self._made(0).spec
        limit = None if spec is None else spec.max_episode_steps
        if limit is not None and limit < horizon:
            raise ValueError(
                f"{env_id} has a time limit of {limit} steps, got horizon {horizon}; give a horizon"
                f" of at most {limit}"
            )
        self.first_action = int(actions.start)
        self.action_shape = (int(actions.n),)
        self.low = np.append(box.low.astype(np.float64).ravel(), 0.0)
        self.high = np.append(box.high.astype(np.float64).ravel(), 1.0)
        self.name = f"gym/{env_id}"
        self._open()

    def begin(self, count: int, random: Random) -> GymWalk:
        seeds = random.integers(2**31, size=count)
        seen = [self._made(at).reset(seed=int(seed))[0] for at, seed in enumerate(seeds)]
        rows = np.stack([self.row(one) for one in seen])
        return GymWalk(self, [self._made(at) for at in range(count)], rows)

    def row(self, seen: Any) -> Array:
        """An observation of the environment as one row, checked against its space."""
        shape = self._made(0).observation_space.shape
        try:
            found = np.asarray(seen, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} showed {seen!r}, not numbers of shape {shape}; repair it there"
            ) from error
        if found.shape != shape:
            raise ValueError(
                f"{self.name} showed an observation of shape {found.shape}, but its space has"
                f" {shape}; repair it there"
            )
        return found.ravel()

    def paid(self, reward: Any) -> float:
        """A reward of the environment as a number."""
        try:
            return float(reward)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} paid {reward!r}; a reward must be a number, so repair it there"
            ) from error

    def scaled(self, rewards: Array) -> Array:
        """Rewards (n,) of the environment in [0, 1]; the first one outside the bounds is said."""
        low, high = self.reward_low, self.reward_high
        outside = rewards[(rewards < low) | (rewards > high)]
        if len(outside) and not self._has_clipped:
            self._has_clipped = True
            paid = float(outside[0])
            bound, option = (low, "reward-low") if paid < low else (high, "reward-high")
            warnings.warn(
                f"{self.env_id} pays {paid:g}, which counts as {bound:g}: give --{option} {paid:g}"
                f" (in Python {option.replace('-', '_')}={paid:g})",
                stacklevel=3,
            )
        return np.clip((rewards - low) / (high - low), 0.0, 1.0)

    def _made(self, number: int) -> gymnasium.Env[Any, Any]:
        while len(self._pool) <= number:
            try:
                self._pool.append(gymnasium.make(self.env_id))
            except (gymnasium.error.Error, ImportError) as error:
                raise ValueError(
                    f"Gymnasium cannot make {self.env_id!r} ({' '.join(str(error).split())})"
                ) from error
        return self._pool[number]

    def close(self) -> None:
        for env in self._pool:
            env.close()


class GymWalk:
    """Trajectories, each in a copy of the environment; their random numbers are the copies' own."""

    def __init__(self, env: GymObserved, copies: list[gymnasium.Env[Any, Any]], seen: Array):
        self.env, self.copies = env, copies
        self.observations = np.pad(seen, ((0, 0), (0, 1)))

    def move(self, actions: IntArray, random: Random) -> Array:
        rewards = np.zeros(len(actions))  # as the environment pays them
        self.observations = self.observations.copy()
        for at in np.flatnonzero(self.observations[:, -1] == 0):
            action = int(actions[at]) + self.env.first_action
            seen, reward, terminated, truncated, _ = self.copies[at].step(action)
            self.observations[at] = [*self.env.row(seen), float(terminated or truncated)]
            rewards[at] = self.env.paid(reward)
        return self.env.scaled(rewards)

    def keep(self, kept: slice) -> None:
        self.copies, self.observations = self.copies[kept], self.observations[kept]


def check_reward_bounds(low: float, high: float) -> None:
    """Stop unless the bounds are finite and 0, the reward of an episode that is over, is inside."""
    if not (-inf < low <= 0 <= high < inf and low < high):
        raise ValueError(
            "reward_low must be at most 0 and reward_high at least 0, since an episode that is over"
            f" pays 0, both finite and not equal; got {low} and {high}"
        )
