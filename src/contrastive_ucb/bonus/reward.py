"""Intrinsic rewards for any training loop: a bonus, divided by its scale and multiplied by beta.

    intrinsic = IntrinsicReward(make_bonus("contrastive", obs_space, action_space, n_envs=16))
    reward = raw + intrinsic.step(obs, actions, next_obs, dones)

The wrappers for Gymnasium, vector environments and Stable-Baselines3 use it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.bonus import BONUS_NAMES, make_bonus
from contrastive_ucb.bonus.base import Bonus
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_number
from contrastive_ucb.core.errors import UserError


def intrinsic_reward(
    bonus: str | Bonus,
    observation_space: Any,
    action_space: Any,
    n_envs: int,
    scale: float,
    normalize: bool,
    seed: int,
    settings: Mapping[str, Any],
) -> IntrinsicReward:
    """The intrinsic reward of a wrapper, whose bonus is made here if it is given by name."""
    if isinstance(bonus, str):
        given = {**settings, "n_envs": n_envs, "seed": seed}
        bonus = make_bonus(bonus, observation_space, action_space, **given)
    elif not isinstance(bonus, Bonus):
        raise UserError(
            f"bonus must be one of {', '.join(BONUS_NAMES)} or a Bonus, got {bonus!r:.60}"
        )
    elif settings:
        raise UserError(
            f"the settings {', '.join(settings)} have no effect on a bonus that exists; pass them"
            f" to {type(bonus).__name__}(...)"
        )
    if bonus.n_envs != n_envs:
        raise UserError(
            f"the bonus was made with n_envs={bonus.n_envs} and there are {n_envs} environments;"
            f" make it with n_envs={n_envs}"
        )
    return IntrinsicReward(bonus, scale, normalize)


class IntrinsicReward:
    """The intrinsic reward scale * bonus / deviation of each step of `bonus.n_envs` environments.

    Args:
        bonus: Any bonus of the toolkit.
        scale: beta, the weight of the intrinsic reward.
        normalize: Divide by the standard deviation of the discounted intrinsic return.
        discount: Of these returns.

    Attributes:
        bonus: The bonus.
        normalizer: The `RewardNormalizer`, or None.
    """

    def __init__(
        self, bonus: Bonus, scale: float = 0.1, normalize: bool = True, discount: float = 0.99
    ):
        check_number("scale", scale, 0, finite=True)
        check_number("discount", discount)
        self.bonus, self.scale = bonus, scale
        self.normalizer = RewardNormalizer(bonus.n_envs, discount) if normalize else None

    def __repr__(self) -> str:
        return f"IntrinsicReward({self.bonus!r}, scale={self.scale:g})"

    def step(
        self,
        obs: Any,
        actions: Any,
        next_obs: Any,
        dones: NDArray[Any],
        env_ids: NDArray[Any] | None = None,
    ) -> Array:
        """Compute the intrinsic rewards of one step of the environments, and count the step.

        Args:
            obs: Observations (n, ...); a dict of arrays for a Dict space.
            actions: The actions taken.
            next_obs: Observations after the step; at the end of an episode its final observation.
            dones: Whether the step ended the episode, shape (n,).
            env_ids: The environments that made the step, by default all.

        Returns:
            Rewards of shape (n,).
        """
        bonus = self.bonus.step(obs, actions, next_obs, dones, env_ids)
        if self.normalizer is not None:
            bonus = self.normalizer(bonus, env_ids)
        return np.asarray(self.scale * bonus)

    def replayed(
        self, obs: Any, actions: Any, next_obs: Any, episodic: Array | None = None
    ) -> Array:
        """Compute the intrinsic rewards of transitions from a replay memory, with present counts.

        Args:
            obs: Observations (n, ...).
            actions: The actions taken.
            next_obs: Observations after the step.
            episodic: What `bonus.episodic` was when the transition was collected, shape (n,).

        Returns:
            Rewards of shape (n,). No state changes.
        """
        bonus = np.ones(len(actions)) if episodic is None else episodic
        if self.bonus.scope != "episodic":
            bonus = bonus * self.bonus.lifelong(obs, actions, next_obs)
        deviation = 1.0 if self.normalizer is None else self.normalizer.deviation
        return np.asarray(self.scale * bonus / deviation)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the bonus and of the normalizer.

        Returns:
            A dictionary of tensors, arrays, numbers and text.
        """
        normalizer = {} if self.normalizer is None else self.normalizer.state_dict()
        return {"bonus": self.bonus.state_dict(), "normalizer": normalizer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned.

        Args:
            state: The dictionary.
        """
        if not isinstance(state, Mapping) or state.keys() != {"bonus", "normalizer"}:
            raise UserError(f"state must be what state_dict() returned, got {state!r:.80}")
        normalize = bool(state["normalizer"])
        if normalize != (self.normalizer is not None):
            raise UserError(f"the state was saved with normalize={normalize}; use the same")
        self.bonus.load_state_dict(state["bonus"])
        if self.normalizer is not None:
            self.normalizer.load_state_dict(state["normalizer"])


class SavesBonus:
    """The state of a wrapper."""

    intrinsic: IntrinsicReward

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the bonus, without that of the environments.

        Returns:
            A dictionary of tensors, arrays and numbers.
        """
        return self.intrinsic.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned.

        Args:
            state: The dictionary.
        """
        self.intrinsic.load_state_dict(state)


class RewardNormalizer:
    """Divides intrinsic rewards by the standard deviation of their discounted return.

    As in RND (Burda et al. 2019), returns continue across episodes. Their moments are averages of
    all values up to `horizon` calls, and exponential moving averages later. The first bonuses can
    be a thousand times as large as later ones, which disappear if the horizon is long.

    Args:
        n_envs: Number of environments.
        discount: Of the returns.
        horizon: Calls over which the moments are averaged.
    """

    def __init__(self, n_envs: int, discount: float = 0.99, horizon: int = 500):
        self.returns = np.zeros(n_envs)
        self.discount, self.horizon = discount, horizon
        self.n_calls, self.mean, self.square = 0, 0.0, 0.0

    def __call__(self, rewards: Array, env_ids: NDArray[Any] | None = None) -> Array:
        """Update the moments with one reward per environment (by default all), and divide."""
        ids = slice(None) if env_ids is None else env_ids
        returns = self.discount * self.returns[ids] + rewards
        self.returns[ids] = returns
        self.n_calls += 1
        rate = 1 / min(self.n_calls, self.horizon)
        self.mean += rate * (float(returns.mean()) - self.mean)
        self.square += rate * (float((returns**2).mean()) - self.square)
        return rewards / self.deviation

    @property
    def deviation(self) -> float:
        """The standard deviation of the discounted return, or 1 as long as it is 0."""
        variance = self.square - self.mean**2
        return float(np.sqrt(variance)) if variance > 1e-12 * self.square else 1.0

    def state_dict(self) -> dict[str, Any]:
        return {
            "returns": self.returns.copy(),
            "n_calls": self.n_calls,
            "mean": self.mean,
            "square": self.square,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.returns = np.array(state["returns"], float)
        self.n_calls = int(state["n_calls"])
        self.mean, self.square = float(state["mean"]), float(state["square"])
