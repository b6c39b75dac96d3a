"""Training: a run of `cucb train` as data. It imports torch only when a trainer is made."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS, BONUSES, configure
from contrastive_ucb.agents.simple.config import SimpleConfig, configure_simple
from contrastive_ucb.core.checks import check_size, hint, kinds_of, typed
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import canonical_name, frame_shape_of, make_deep_env
from contrastive_ucb.runs.spec import RunSpec

if TYPE_CHECKING:
    from contrastive_ucb.agents.deep.trainer import DeepTrainer, Trainer

YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
EXAMPLES = {"support": "0,10", "epsilon": "1,0.1", "extra_rounds": "8,12"}


@dataclass(frozen=True)
class Training:
    """What is trained, where and for how long: everything that determines the result."""

    env: str  # any spelling; stored is the canonical name
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
        """The bonus in words: the given preset, or the closest one, and the differences from it."""
        if isinstance(self.config, SimpleConfig) or not self.config.bonus.is_on:
            return "none"
        values = asdict(self.config.bonus)
        changes: dict[str, list[str]] = {}
        for name in [name for name in BONUSES if name != "none"]:
            preset = configure(self.algo, {"bonus.preset": name}, self.frame_shape).bonus
            differs = [key for key, value in asdict(preset).items() if values[key] != value]
            changes[name] = [f"{key}={values[key]}" for key in differs]
        nearest = min(changes, key=lambda name: len(changes[name]))
        return " ".join([nearest, *changes[nearest]])

    @property
    def warm_up(self) -> int:
        """Steps before the first update. SimPLe also learns in a shorter last epoch."""
        return 0 if isinstance(self.config, SimpleConfig) else self.config.first_update

    def spec(self) -> RunSpec:
        config = {"env": self.env, "steps": self.steps, "agent": asdict(self.config)}
        task = re.sub("[^A-Za-z0-9._-]", "-", self.env)
        return RunSpec(self.suite, self.algo, task, self.seed, config, self.inputs())

    def inputs(self) -> dict[str, Any]:
        """Algorithm, environment, length and the settings as they were given."""
        settings = dict(self.settings)
        return {"algo": self.algo, "env": self.env, "settings": settings, "length": self.steps}

    def with_seed(self, seed: int) -> Training:
        """The same training with another seed; the configuration is not resolved again."""
        check_size("seed", seed, least=0)
        _ = self.config  # cached before the copy
        other = copy(self)
        object.__setattr__(other, "seed", seed)
        return other

    def environment(self) -> FrameEnv:
        rules = self.config.atari
        return make_deep_env(self.env, seed=self.seed, training=True, rules=rules)

    def trainer(self, device: str = "cpu") -> DeepTrainer:
        if not isinstance(self.config, SimpleConfig):
            return self.rainbow_trainer(device)
        from contrastive_ucb.agents.simple.trainer import SimpleTrainer

        return SimpleTrainer(self.environment(), self.config, self.seed, self.steps, device)

    def rainbow_trainer(self, device: str = "cpu") -> Trainer:
        """The trainer of any agent except SimPLe."""
        from contrastive_ucb.agents.deep.trainer import Trainer

        if isinstance(self.config, SimpleConfig):
            raise ValueError("simple is not a Rainbow agent; choose another algo")
        return Trainer(self.environment(), self.config, self.seed, self.steps, device)


def training_of(env: str, algo: str, settings: Mapping[str, Any], steps: int) -> Training:
    """The training that `cucb train` makes of these settings, with seed 0."""
    kinds = deep_kinds()
    values = {key: typed(key, value, kinds.get(key, Any)) for key, value in settings.items()}
    return Training(env, algo, values, steps)


@cache
def rainbow_kinds() -> dict[str, Any]:
    """The type of every setting of the Rainbow agents, including those of the bonus."""
    learner, bonus = kinds_of(RainbowConfig), kinds_of(BonusConfig)
    inner = {f"bonus.{name}": kind for name, kind in bonus.items()}
    return {name: learner[name] for name in learner if name != "bonus"} | {
        "bonus.preset": str,
        **inner,
    }


@cache
def deep_kinds() -> dict[str, Any]:
    """The type of every setting of the deep agents."""
    return {**kinds_of(SimpleConfig), **rainbow_kinds()}


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words with each value in the type of its setting; `configure` checks the keys."""
    kinds = deep_kinds()
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"--set {word} has no value; write KEY=VALUE, such as n_step=3")
        kind = kinds.get(key, str)
        try:
            settings[key] = _read(text, kind)
        except ValueError:
            raise ValueError(f"--set {key} takes {takes(key, kind)}, got {text!r}") from None
    return settings


def takes(key: str, kind: Any) -> str:
    """The values that the setting `key` of this type takes, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return f"{takes(key, next(part for part in inner if part is not type(None)))}, or none"
    if origin is tuple:
        number = "whole numbers" if inner[0] is int else "numbers"
        if inner[-1] is Ellipsis:
            return f"{number} such as {EXAMPLES.get(key, '64,64')}"
        return f"{len(inner)} {number} such as {EXAMPLES.get(key, '0.4,1.0')}"
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "a word")


def _read(text: str, kind: Any) -> Any:
    """`text` as a value of the type `kind`; ValueError if that is not possible."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if text.lower() in ("none", "auto"):
            return None
        return _read(text, next(part for part in inner if part is not type(None)))
    if origin is tuple:
        parts = text.strip("()[], ").split(",")
        kinds = (inner[0],) * len(parts) if inner[-1] is Ellipsis else inner
        return tuple(_read(part.strip(), one) for part, one in zip(parts, kinds, strict=True))
    if origin is Literal:
        if text not in inner:
            raise ValueError
        return text
    if kind is bool:
        if text.lower() not in YES + NO:
            raise ValueError
        return text.lower() in YES
    if kind is int:
        number = float(text)  # accepts 1e5
        if not number.is_integer():
            raise ValueError
        return int(number)
    if kind is float and not math.isfinite(float(text)):
        raise ValueError
    return kind(text)
