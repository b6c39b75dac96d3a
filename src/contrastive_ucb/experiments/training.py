"""Training: what `cucb train` trains, as data; torch is imported when a trainer is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS, BONUSES, configure
from contrastive_ucb.agents.simple.config import SimpleConfig, configure_simple
from contrastive_ucb.core.checks import check_size, hint
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import canonical_name, frame_shape_of, make_deep_env
from contrastive_ucb.experiments.spec import RunSpec

if TYPE_CHECKING:
    from contrastive_ucb.training.deep import Trainer
    from contrastive_ucb.training.trainer import DeepTrainer


@dataclass(frozen=True)
class Training:
    """What is trained, where and for how long: everything that determines the result."""

    env: str  # in any spelling; kept is the one name it has
    algo: str = "spr-ucb"
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 100_000
    seed: int = 0
    suite: str = "train"

    def __post_init__(self) -> None:
        check_size("steps", self.steps)
        check_size("seed", self.seed, least=0)
        object.__setattr__(self, "env", canonical_name(self.env))

    @cached_property
    def frame_shape(self) -> tuple[int, ...]:
        return frame_shape_of(self.env)

    @cached_property
    def config(self) -> RainbowConfig | SimpleConfig:
        if self.algo not in ALGORITHMS:
            raise ValueError(f"no agent is called {self.algo!r}; {hint(self.algo, ALGORITHMS)}")
        if self.algo == "simple":
            return configure_simple(self.settings, self.frame_shape)
        return configure(self.algo, self.settings, self.frame_shape, self.env)

    @property
    def bonus(self) -> str:
        """The preset that is nearest to the settings of the bonus, and what differs from it."""
        if isinstance(self.config, SimpleConfig) or not self.config.bonus.is_on:
            return "none"
        own = asdict(self.config.bonus)
        changes: dict[str, list[str]] = {}
        for name in [name for name in BONUSES if name != "none"]:
            preset = configure(self.algo, {"bonus.preset": name}, self.frame_shape).bonus
            differs = [key for key, value in asdict(preset).items() if own[key] != value]
            changes[name] = [f"{key}={own[key]}" for key in differs]
        nearest = min(changes, key=lambda name: len(changes[name]))
        return " ".join([nearest, *changes[nearest]])

    def spec(self) -> RunSpec:
        config = {"env": self.env, "steps": self.steps, "agent": asdict(self.config)}
        task = re.sub("[^A-Za-z0-9._-]", "-", self.env)
        return RunSpec(self.suite, self.algo, task, self.seed, config)

    def with_seed(self, seed: int) -> Training:
        """The same with another seed; name, shape and configuration are not found out again."""
        check_size("seed", seed, least=0)
        _ = self.config  # once it is known here, the copy has it too
        other = copy(self)
        object.__setattr__(other, "seed", seed)
        return other

    def environment(self) -> FrameEnv:
        rules = self.config.atari
        return make_deep_env(self.env, seed=self.seed, training=True, rules=rules)

    def trainer(self, device: str = "cpu") -> DeepTrainer:
        if not isinstance(self.config, SimpleConfig):
            return self.rainbow_trainer(device)
        from contrastive_ucb.training.simple import SimpleTrainer

        return SimpleTrainer(self.environment(), self.config, self.seed, self.steps, device)

    def rainbow_trainer(self, device: str = "cpu") -> Trainer:
        """The trainer of any agent but SimPLe, for those who look inside."""
        from contrastive_ucb.training.deep import Trainer

        if isinstance(self.config, SimpleConfig):
            raise ValueError("simple is no Rainbow; choose another agent")
        return Trainer(self.environment(), self.config, self.seed, self.steps, device)
