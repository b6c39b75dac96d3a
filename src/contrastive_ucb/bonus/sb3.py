"""Intrinsic rewards for Stable-Baselines3.

    env = BonusVecEnv(make_vec_env("MiniGrid-MultiRoom-N4-S5-v1", 16), "contrastive")
    PPO("MlpPolicy", env).learn(300_000)

    DQN("MlpPolicy", "MountainCar-v0").learn(100_000, callback=BonusCallback("contrastive"))

| algorithm            | use             | intrinsic rewards                                     |
|----------------------|-----------------|-------------------------------------------------------|
| PPO, A2C, TRPO       | `BonusVecEnv`   | computed when a step is made, added to its reward     |
| DQN, SAC, TD3, QRDQN | `BonusCallback` | computed again whenever a transition is replayed      |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus
from contrastive_ucb.bonus.reward import IntrinsicReward, SavesBonus, intrinsic_reward
from contrastive_ucb.bonus.spaces import LeafEncoder, ObservationArrays
from contrastive_ucb.bonus.wrapper import BonusWrapper, with_rows
from contrastive_ucb.core.checks import brief
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream

try:
    from stable_baselines3 import HerReplayBuffer
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
except ImportError as error:
    raise UserError("this needs Stable-Baselines3: pip install 'contrastive-ucb[sb3]'") from error


class BonusVecEnv(SavesBonus, VecEnvWrapper):
    """Adds an intrinsic reward to the rewards of a `VecEnv`; all its copies share one bonus.

    `info` has the raw reward in "raw_reward" and the added one in "intrinsic_reward". Put
    `VecMonitor` below this wrapper to log raw returns and `VecNormalize` above it, and use
    evaluation environments without it.

    Args:
        venv: The environments.
        bonus: The name of a bonus (see `make_bonus`), or a bonus made with `n_envs=venv.num_envs`.
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
        venv: VecEnv,
        bonus: str | Bonus = "contrastive",
        scale: float = 0.1,
        normalize: bool = True,
        seed: int = 0,
        **settings: Any,
    ):
        if not isinstance(venv, VecEnv):
            raise UserError(
                f"venv must be a VecEnv of Stable-Baselines3, got {brief(venv)}; use"
                " make_vec_env(id, n_envs)"
            )
        super().__init__(venv)
        if any(venv.env_is_wrapped(BonusWrapper)):
            raise UserError(
                "the environments inside already have a BonusWrapper; remove it, because"
                " BonusVecEnv adds the bonus of all of them"
            )
        observations, actions = venv.observation_space, venv.action_space
        self.intrinsic = intrinsic_reward(
            bonus, observations, actions, venv.num_envs, scale, normalize, seed, settings
        )
        self._obs: Any = None
        self._actions: Any = None

    def reset(self) -> Any:
        obs = self.venv.reset()
        self._obs = deepcopy(obs)
        self.intrinsic.bonus.restart()
        return obs

    def step_async(self, actions: Any) -> None:
        self._actions = np.array(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        obs, raw, dones, infos = self.venv.step_wait()
        next_obs = deepcopy(obs)
        final = next_obs
        if dones.any():
            rows = {at: infos[at]["terminal_observation"] for at in np.flatnonzero(dones)}
            final = with_rows(self.venv.observation_space, next_obs, rows)
        added = self.intrinsic.step(self._obs, self._actions, final, dones)
        for info, reward, more in zip(infos, raw, added, strict=True):
            info["raw_reward"], info["intrinsic_reward"] = float(reward), float(more)
        self._obs = next_obs
        return obs, (raw + added).astype(np.float32), dones, infos


class BonusCallback(BaseCallback):
    """Adds intrinsic rewards to replayed transitions of an off-policy algorithm.

    Transitions are counted as they are collected, and the replay buffer stores raw rewards. When a
    batch is sampled, the lifelong part of each bonus is computed again with the present counts and
    features. The episodic part depends on the episode, so it is that of the time of collection.
    With `VecNormalize`, the sum of both rewards is normalized.

    Args:
        bonus: The name of a bonus (see `make_bonus`), or a bonus made with `n_envs` of the model.
        scale: beta, the weight of the intrinsic reward.
        normalize: Divide the bonus by the standard deviation of its discounted return.
        seed: Of a bonus that is given by name.
        **settings: Of a bonus that is given by name, such as `scope`, `encoder` or `dim`.

    Attributes:
        intrinsic: The `IntrinsicReward`, made when training starts.

    Raises:
        UserError: At the start of training, if the algorithm or its replay buffer, observations or
            actions are not supported, or a setting is out of range.
    """

    model: OffPolicyAlgorithm

    def __init__(
        self,
        bonus: str | Bonus = "contrastive",
        scale: float = 0.1,
        normalize: bool = True,
        seed: int = 0,
        **settings: Any,
    ):
        super().__init__()
        self._make = partial(
            intrinsic_reward,
            bonus,
            scale=scale,
            normalize=normalize,
            seed=seed,
            settings=settings,
        )
        self._loaded: Mapping[str, Any] | None = None
        self._next = 0  # the position in the buffer of the next transition to count
        self._episodic: NDArray[np.float32] | None = None  # of each stored transition
        self.intrinsic: IntrinsicReward | None = None

    def _init_callback(self) -> None:
        buffer = self._buffer()
        if self.intrinsic is None:
            observations, actions = buffer.observation_space, buffer.action_space
            self.intrinsic = self._make(observations, actions, buffer.n_envs)
        shape = (buffer.buffer_size, buffer.n_envs)
        is_new = self._episodic is None or self._episodic.shape != shape
        if self.intrinsic.bonus.episodes is not None and is_new:
            self._episodic = np.ones(shape, np.float32)
        if self._loaded is not None:
            self.load_state_dict(self._loaded)

    def _on_training_start(self) -> None:
        assert self.intrinsic is not None
        buffer = self._buffer()
        if self.locals.get("reset_num_timesteps", True):  # the environments were reset
            self.intrinsic.bonus.restart()
        self._next = buffer.pos
        added = ReplayedRewards(np.asarray(buffer.rewards), self._added)
        buffer.rewards = added  # type: ignore[assignment]

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        """Count the transitions that were stored since the last call."""
        assert self.intrinsic is not None
        buffer = self._buffer()
        while self._next != buffer.pos:
            obs, actions, next_obs = self._transitions(self._next)
            if self._episodic is not None:
                bonus = self.intrinsic.bonus
                self._episodic[self._next] = bonus.episodic(obs, actions, next_obs)
            rewards = self.intrinsic.step(obs, actions, next_obs, buffer.dones[self._next])
            self.logger.record_mean("rollout/intrinsic_reward", float(rewards.mean()))
            self._next = (self._next + 1) % buffer.buffer_size

    def _on_training_end(self) -> None:
        self._on_rollout_end()
        buffer = self._buffer()
        buffer.rewards = np.asarray(buffer.rewards)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the bonus, and the episodic bonuses of the stored transitions.

        Returns:
            A dictionary of tensors, arrays and numbers.
        """
        if self.intrinsic is None:
            raise UserError("the bonus is made when training starts; call state_dict() afterwards")
        episodic = {} if self._episodic is None else {"episodic": self._episodic.copy()}
        return {"intrinsic": self.intrinsic.state_dict(), **episodic}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned; before training, it is loaded when training starts.

        Args:
            state: The dictionary.
        """
        self._loaded = state
        if self.intrinsic is None:
            return
        if not isinstance(state, Mapping) or "intrinsic" not in state:
            raise UserError(f"state must be what state_dict() returned, got {state!r:.80}")
        self.intrinsic.load_state_dict(state["intrinsic"])
        if self._episodic is not None:
            self._episodic[:] = state["episodic"]
        self._loaded = None

    def _buffer(self) -> ReplayBuffer:
        """The replay buffer of the model, checked."""
        buffer = getattr(self.model, "replay_buffer", None)
        if not isinstance(buffer, ReplayBuffer):
            raise UserError(
                f"{type(self.model).__name__} has no replay buffer; wrap its environment in"
                " BonusVecEnv instead"
            )
        if isinstance(buffer, HerReplayBuffer):
            raise UserError(
                "HerReplayBuffer computes rewards for other goals, which have no bonus; use"
                " ReplayBuffer or DictReplayBuffer"
            )
        if buffer.optimize_memory_usage:
            raise UserError(
                "the replay buffer does not store final observations, which the bonus needs; use"
                " optimize_memory_usage=False"
            )
        return buffer

    def _transitions(self, index: Any) -> tuple[Any, Any, Any]:
        """The stored transitions at an index of the buffer, as rows."""
        buffer = self._buffer()

        def rows(space: spaces.Space[Any], stored: Any) -> Any:
            if isinstance(space, spaces.Dict):
                return {key: rows(part, stored[key]) for key, part in space.items()}
            return stored[index].reshape(-1, *(space.shape or ()))

        space = buffer.observation_space
        obs, next_obs = rows(space, buffer.observations), rows(space, buffer.next_observations)
        return obs, rows(buffer.action_space, buffer.actions), next_obs

    def _added(self, index: Any) -> NDArray[Any]:
        """The present intrinsic rewards of the stored transitions at an index, as rows."""
        assert self.intrinsic is not None
        episodic = None if self._episodic is None else self._episodic[index].ravel()
        return self.intrinsic.replayed(*self._transitions(index), episodic)


class ReplayedRewards:
    """Stored raw rewards; reading some of them adds the present intrinsic rewards.

    It takes the place of the array `rewards` of a replay buffer, so that every kind of buffer uses
    it when it samples. Converted to an array or pickled, it is the array of raw rewards.
    """

    def __init__(self, raw: NDArray[np.float32], intrinsic: Callable[[Any], NDArray[np.float64]]):
        self.raw, self.intrinsic = raw, intrinsic

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        raw = self.raw[index]
        return np.asarray(raw + self.intrinsic(index).reshape(raw.shape), np.float32)

    def __setitem__(self, index: Any, raw: Any) -> None:
        self.raw[index] = raw

    def __array__(self, *options: Any, **keywords: Any) -> NDArray[np.float32]:
        return np.asarray(self.raw, *options, **keywords)

    def __reduce__(self) -> Any:
        return np.array, (self.raw,)


class ObservationFeatures(BaseFeaturesExtractor):
    """The inputs and encoders of the bonuses as features extractor, with one-hot symbolic grids.

    Images pass through convolutions, other observations are the features themselves. Use it with
    `policy_kwargs=OBSERVATION_FEATURES`, because the codes of a grid must not be divided by 255.

    Args:
        observation_space: Any space that the bonuses support.
        seed: Of the initial weights, which the policy replaces if `ortho_init` is true.
    """

    def __init__(self, observation_space: spaces.Space[Any], seed: int = 0):
        leaves = ObservationArrays(observation_space).leaves
        rng = stream(seed, "observation features")
        parts = [LeafEncoder(leaf, (), rng) for leaf in leaves]
        super().__init__(observation_space, sum(part.dim for part in parts))
        self.parts = nn.ModuleList(parts)

    def forward(self, observations: Any) -> Tensor:
        return torch.cat([self._encoded(part, observations) for part in self.parts], 1)

    def _encoded(self, part: nn.Module, x: Any) -> Tensor:
        assert isinstance(part, LeafEncoder)
        for key in part.leaf.path:
            x = x[key]
        rows: Tensor = x
        if part.leaf.kind == "onehot":  # Stable-Baselines3 has encoded it already
            return rows.float().flatten(1)
        if part.leaf.kind == "grid" and (rows % 1 != 0).any():
            raise UserError(
                "a symbolic grid was divided by 255, which removes its codes; pass"
                " policy_kwargs=OBSERVATION_FEATURES, which has normalize_images=False"
            )
        features: Tensor = part(rows)
        return features


OBSERVATION_FEATURES = {
    "features_extractor_class": ObservationFeatures,
    "normalize_images": False,
}  # policy_kwargs
