"""Intrinsic rewards as wrappers of Gymnasium environments, for agents that cannot be changed.

    env = BonusWrapper(gymnasium.make("MountainCar-v0"), "contrastive", scale=0.1)
    envs = VectorBonusWrapper(gymnasium.make_vec("MountainCar-v0", num_envs=16), "rnd")

The reward of `step` is the sum of `info["raw_reward"]` and `info["intrinsic_reward"]`. All copies
of a vector environment share one bonus.

| autoreset mode | observation after the last step of an episode | a step that only resets        |
|----------------|-----------------------------------------------|--------------------------------|
| NextStep       | its final observation                         | the next one; it has no bonus  |
| SameStep       | the first of the next episode; the final one  | none                           |
|                | is in `info["final_obs"]`                     |                                |
| Disabled       | its final observation                         | none                           |
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sized
from copy import deepcopy
from inspect import currentframe
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from contrastive_ucb.bonus.base import Bonus
from contrastive_ucb.bonus.reward import SavesBonus, intrinsic_reward
from contrastive_ucb.core.checks import brief
from contrastive_ucb.core.errors import UserError

SHARE = "wrap the vector environment in VectorBonusWrapper (Stable-Baselines3: BonusVecEnv) instead"


class BonusWrapper(SavesBonus, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds an intrinsic reward to the reward of an environment.

    The reward of `step` is `info["raw_reward"] + info["intrinsic_reward"]`. A reset does not clear
    what the bonus has learned, so rewards are not determined by the seed of the reset, and `spec`
    marks the environment as nondeterministic. Evaluate agents on environments without the wrapper.

    Args:
        env: Any environment with Discrete or Box actions.
        bonus: The name of a bonus (see `make_bonus`), or a bonus made with `n_envs=1`.
        scale: beta, the weight of the intrinsic reward.
        normalize: Divide the bonus by the standard deviation of its discounted return.
        seed: Of a bonus that is given by name.
        **settings: Of a bonus that is given by name, such as `scope`, `encoder` or `dim`.

    Attributes:
        intrinsic: The `IntrinsicReward`; `intrinsic.bonus` is the bonus.

    Raises:
        UserError: The observations or actions are not supported, or a setting is out of range.

    Examples:
        >>> import gymnasium
        >>> import contrastive_ucb as cu
        >>> env = cu.BonusWrapper(gymnasium.make("CartPole-v1"), "contrastive", scale=0.1)
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(0)
        >>> reward == info["raw_reward"] + info["intrinsic_reward"]
        True
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        bonus: str | Bonus = "contrastive",
        scale: float = 0.1,
        normalize: bool = True,
        seed: int = 0,
        **settings: Any,
    ):
        if not isinstance(env, gymnasium.Env):
            remedy = SHARE if isinstance(env, VectorEnv) else "use gymnasium.make(id)"
            raise UserError(f"env must be a gymnasium.Env, got {brief(env)}; {remedy}")
        given = {"bonus": bonus, "scale": scale, "normalize": normalize, "seed": seed, **settings}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **given)
        super().__init__(env)
        if (copies := _number_of_copies()) > 1:
            warnings.warn(
                f"{copies} environments are made, each with a BonusWrapper and counts of its own;"
                f" {SHARE}",
                stacklevel=2,
            )
        self.intrinsic = intrinsic_reward(
            bonus, env.observation_space, env.action_space, 1, scale, normalize, seed, settings
        )
        self._obs: Any = None
        if self.spec is not None:  # a copy, so the spec of `env` does not change
            self.spec.nondeterministic = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = self._batch(obs)
        self.intrinsic.bonus.restart()
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._obs is None:
            raise gymnasium.error.ResetNeeded("no episode was started; call reset() before step()")
        obs, raw, terminated, truncated, info = self.env.step(action)
        next_obs, actions = self._batch(obs), np.asarray(action)[None]
        dones = np.array([terminated or truncated])
        (added,) = self.intrinsic.step(self._obs, actions, next_obs, dones).tolist()
        self._obs = next_obs
        reward = float(raw)
        info = {**info, "raw_reward": reward, "intrinsic_reward": added}
        return obs, reward + added, terminated, truncated, info

    def _batch(self, obs: Any) -> Any:
        """A batch with this observation, as a copy, because environments may overwrite it."""
        space = self.env.observation_space
        empty: Any = create_empty_array(space, n=1)
        return concatenate(space, [obs], empty)


class VectorBonusWrapper(SavesBonus, VectorWrapper[Any, Any, Any, Any, Any], RecordConstructorArgs):
    """Adds an intrinsic reward to the rewards of a vector environment; all copies share one bonus.

    `info` has the arrays "raw_reward" and "intrinsic_reward". Their masks "_raw_reward" and
    "_intrinsic_reward" are False where a step only reset an environment (mode NextStep).

    Args:
        env: Any vector environment with Discrete or Box actions, in any autoreset mode.
        bonus: The name of a bonus (see `make_bonus`), or a bonus made with `n_envs=env.num_envs`.
        scale: beta, the weight of the intrinsic reward.
        normalize: Divide the bonus by the standard deviation of its discounted return.
        seed: Of a bonus that is given by name.
        **settings: Of a bonus that is given by name, such as `scope`, `encoder` or `dim`.

    Attributes:
        intrinsic: The `IntrinsicReward`; `intrinsic.bonus` is the bonus.

    Raises:
        UserError: The observations or actions are not supported, or a setting is out of range.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        bonus: str | Bonus = "contrastive",
        scale: float = 0.1,
        normalize: bool = True,
        seed: int = 0,
        **settings: Any,
    ):
        if not isinstance(env, VectorEnv):
            raise UserError(
                f"env must be a gymnasium.vector.VectorEnv, got {brief(env)}; use"
                " gymnasium.make_vec(id, num_envs), or BonusWrapper for a single environment"
                " (Stable-Baselines3: BonusVecEnv)"
            )
        given = {"bonus": bonus, "scale": scale, "normalize": normalize, "seed": seed, **settings}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **given)
        super().__init__(env)
        if any(_has_bonus(copy) for copy in getattr(env.unwrapped, "envs", ())):
            raise UserError(
                "the environments inside already have a BonusWrapper; remove it, because"
                " VectorBonusWrapper adds the bonus of all of them"
            )
        mode = env.metadata.get("autoreset_mode", "NextStep")  # NextStep in older environments
        self._mode = str(getattr(mode, "value", mode))
        if self._mode not in ("NextStep", "SameStep", "Disabled"):
            raise UserError(
                f"the autoreset mode of the environment is {mode!r}; set"
                ' metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode'
            )
        self._space = env.single_observation_space
        actions = env.single_action_space
        self.intrinsic = intrinsic_reward(
            bonus, self._space, actions, env.num_envs, scale, normalize, seed, settings
        )
        self._obs: Any = None
        self._dones = np.zeros(env.num_envs, bool)  # of the previous step

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = deepcopy(obs)
        self._dones = self._dones & ~chosen
        self.intrinsic.bonus.restart(np.flatnonzero(chosen))
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self._obs is None:
            raise gymnasium.error.ResetNeeded("no episode was started; call reset() before step()")
        obs, raw, terminations, truncations, info = self.env.step(actions)
        dones = np.logical_or(terminations, truncations)
        next_obs = deepcopy(obs)
        is_step = ~self._dones if self._mode == "NextStep" else np.ones(self.num_envs, bool)
        added = np.zeros(self.num_envs)
        if is_step.all():
            final = self._final(next_obs, dones, info)
            added = self.intrinsic.step(self._obs, actions, final, dones)
        elif is_step.any():
            ids = np.flatnonzero(is_step)
            before, after = (rows_of(self._space, batch, ids) for batch in (self._obs, next_obs))
            taken = np.asarray(actions)[ids]
            added[ids] = self.intrinsic.step(before, taken, after, dones[ids], ids)
        self._obs, self._dones = next_obs, dones
        parts = {"raw_reward": np.array(raw, float), "intrinsic_reward": added}
        masks = {f"_{name}": is_step.copy() for name in parts}
        reward = parts["raw_reward"] + added
        return obs, reward, terminations, truncations, {**info, **parts, **masks}

    def _final(self, next_obs: Any, dones: NDArray[np.bool_], info: Mapping[str, Any]) -> Any:
        """The observations before a reset."""
        if self._mode != "SameStep" or not dones.any():
            return next_obs
        if "final_obs" not in info:
            raise UserError(
                "an episode ended without final_obs in info; with autoreset mode SameStep the"
                " environment must put the final observations there"
            )
        return with_rows(
            self._space, next_obs, {at: info["final_obs"][at] for at in np.flatnonzero(dones)}
        )


def rows_of(space: spaces.Space[Any], batch: Any, index: NDArray[Any]) -> Any:
    """Some rows of a batch of observations."""
    if isinstance(space, spaces.Dict):
        return {key: rows_of(part, batch[key], index) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(rows_of(*pair, index) for pair in zip(space, batch, strict=True))
    return batch[index] if isinstance(batch, np.ndarray) else batch  # others are not used


def with_rows(space: spaces.Space[Any], batch: Any, rows: Mapping[Any, Any]) -> Any:
    """A copy of a batch of observations, in which some rows are replaced by these observations."""

    def part(key: Any, inner: spaces.Space[Any]) -> Any:
        return with_rows(inner, batch[key], {at: row[key] for at, row in rows.items()})

    if isinstance(space, spaces.Dict):
        return {key: part(key, inner) for key, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(part(key, inner) for key, inner in enumerate(space))
    if not isinstance(batch, np.ndarray):  # texts, which no bonus uses
        return batch
    changed = batch.copy()
    for at, row in rows.items():
        changed[at] = row
    return changed


def _has_bonus(env: Any) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, BonusWrapper):
            return True
        env = env.env
    return False


def _number_of_copies() -> int:
    """The number of environments that the vector environment that calls this makes, or 1.

    The constructors of vector environments, here and in Stable-Baselines3, have the argument
    `env_fns`.
    """
    frame = currentframe()
    while frame is not None:
        functions = frame.f_locals.get("env_fns")
        if isinstance(functions, Sized):
            return len(functions)
        frame = frame.f_back
    return 1
