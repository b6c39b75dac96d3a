"""Intrinsic rewards for Stable-Baselines3.

env = BonusVecEnv(make_vec_env("MiniGrid-MultiRoom-N4-S5-v1", 16), "contrastive")
PPO("MlpPolicy", env).learn(300_000)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus import make_bonus
from contrastive_ucb.bonus.base import Bonus
from contrastive_ucb.bonus.reward import IntrinsicReward
from contrastive_ucb.bonus.spaces import LeafEncoder, ObservationArrays
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream

try:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
except ImportError as error:
    raise UserError("this needs Stable-Baselines3: pip install contrastive-ucb[sb3]") from error


class BonusVecEnv(VecEnvWrapper):
    """Adds an intrinsic reward to the rewards of a `VecEnv`; all its copies share one bonus.

    `info` has the raw reward in "raw_reward" and the added one in "intrinsic_reward". Put
    `VecMonitor` below this wrapper to log raw returns, and use evaluation environments without it.

    Args:
        venv: The environments.
        bonus: A bonus made with `n_envs=venv.num_envs`, or its name (see `make_bonus`).
        scale: beta, the weight of the intrinsic reward.
        normalize: Divide the bonus by the standard deviation of its discounted return.
        **settings: Of the bonus, if it is given by name.
    """

    def __init__(
        self,
        venv: VecEnv,
        bonus: str | Bonus = "contrastive",
        scale: float = 0.1,
        normalize: bool = True,
        **settings: Any,
    ):
        super().__init__(venv)
        if isinstance(bonus, str):
            spaces = venv.observation_space, venv.action_space
            made: Bonus = make_bonus(bonus, *spaces, n_envs=venv.num_envs, **settings)
        else:
            made = bonus
        self.intrinsic = IntrinsicReward(made, scale, normalize)
        self._obs: Any = None
        self._actions: Any = None

    def reset(self) -> Any:
        self._obs = self.venv.reset()
        return self._obs

    def step_async(self, actions: Any) -> None:
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        obs, raw, dones, infos = self.venv.step_wait()
        final = obs
        if dones.any():
            final = _copied(obs)
            for at in np.flatnonzero(dones):
                _set_row(final, at, infos[at]["terminal_observation"])
        added = self.intrinsic.step(self._obs, self._actions, final, dones)
        for info, reward, more in zip(infos, raw, added, strict=True):
            info["raw_reward"], info["intrinsic_reward"] = float(reward), float(more)
        self._obs = obs
        return obs, (raw + added).astype(np.float32), dones, infos

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the bonus, without that of the environments."""
        return self.intrinsic.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned."""
        self.intrinsic.load_state_dict(state)


def _copied(obs: Any) -> Any:
    return {key: part.copy() for key, part in obs.items()} if isinstance(obs, dict) else obs.copy()


def _set_row(obs: Any, at: Any, row: Any) -> None:
    if isinstance(obs, dict):
        for key, part in obs.items():
            part[at] = row[key]
    else:
        obs[at] = row


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
        if part.leaf.kind == "grid" and (rows.frac() != 0).any():
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
