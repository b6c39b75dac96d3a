"""Settings of PPO. The string below a field is its description in `cucb train --help`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from contrastive_ucb.bonus.config import COMMON, IntrinsicConfig
from contrastive_ucb.core.checks import (
    check_kinds,
    check_names,
    check_positive,
    check_range,
    check_size,
)

PREFIX = "intrinsic."


@dataclass(frozen=True)
class PPOConfig:
    """PPO of Stable-Baselines3 with an intrinsic reward."""

    envs: int = 16
    """Environments that are stepped together."""
    rollout_steps: int = 128
    """Steps per environment and rollout."""
    passes: int = 4
    """Passes over the steps of a rollout."""
    batch_size: int = 256
    """Transitions per gradient step."""
    learning_rate: float = 3e-4
    """Learning rate of Adam."""
    discount: float = 0.99
    """Discount factor."""
    trace: float = 0.95
    """lambda of generalized advantage estimation (GAE)."""
    clip: float = 0.2
    """Clipping range of the probability ratio."""
    entropy: float = 0.01
    """Weight of the entropy of the policy."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    clip_norm: float = 0.5
    """Gradient clipping norm."""
    mlp: tuple[int, ...] = (64, 64)
    """Layer widths of the policy and of the value function, which have separate layers."""
    eval_epsilon: float = 0.0
    """Fraction of uniform actions in evaluation, where the others are the most likely ones."""
    intrinsic: IntrinsicConfig = field(default_factory=IntrinsicConfig)
    """The intrinsic reward; its settings start with `intrinsic.`"""

    @property
    def atari(self) -> str:
        """Rules of the Atari environment, see `envs/atari.py`."""
        return "standard"

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("envs", "rollout_steps", "passes"):
            check_size(name, getattr(self, name))
        check_size("batch_size", self.batch_size, least=2)  # advantages are normalized per batch
        check_positive(self, "learning_rate", "clip", "clip_norm")
        check_range(self, discount=(0, 1), trace=(0, 1), eval_epsilon=(0, 1))
        check_range(self, entropy=(0, inf), value_weight=(0, inf))
        if not self.mlp or min(self.mlp) < 1:
            raise ValueError(f"mlp must list layer widths of at least 1, got {self.mlp}")
        if (self.envs * self.rollout_steps) % self.batch_size == 1:
            raise ValueError(
                f"batch_size={self.batch_size} leaves a batch of one of the"
                f" {self.envs * self.rollout_steps} steps of a rollout; choose a divisor"
            )


def configure_ppo(settings: Mapping[str, Any]) -> PPOConfig:
    """PPO with settings such as {"entropy": 0.005, "intrinsic.bonus": "rnd"}."""
    plain = {key: value for key, value in settings.items() if not key.startswith(PREFIX)}
    names = {x.name for x in fields(PPOConfig)} - {"intrinsic"}
    check_names(plain, names | {f"{PREFIX}{name}" for name in COMMON})
    intrinsic = {key[len(PREFIX) :]: settings[key] for key in settings if key not in plain}
    return PPOConfig(**plain, intrinsic=IntrinsicConfig.of(intrinsic))
