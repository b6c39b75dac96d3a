"""Training: a run of `cucb train` as data. It imports torch only when a trainer is made."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, get_origin

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS, BONUSES, configure
from contrastive_ucb.agents.simple.config import SimpleConfig, configure_simple
from contrastive_ucb.core.checks import check_size, hint, kinds_of, typed
from contrastive_ucb.envs.registry import canonical_name, frame_shape_of, make_deep_env
from contrastive_ucb.runs.spec import RunSpec

if TYPE_CHECKING:
    from contrastive_ucb.agents.deep.trainer import DeepTrainer

WORDS: dict[str, bool | None] = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
WORDS |= {"none": None, "auto": None}


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
        kinds, given = deep_kinds(), self.settings.items()
        typed_settings = {key: typed(key, value, kinds.get(key, Any)) for key, value in given}
        object.__setattr__(self, "settings", typed_settings)
        object.__setattr__(self, "env", canonical_name(self.env))

    @classmethod
    def of_spec(cls, spec: RunSpec, env: str | None = None) -> Training:
        """The training of a run from its resolved settings, since presets may have changed.

        env  another name of the environment
        """
        config, settings = spec.config, dict(spec.config["agent"])
        bonus = settings.pop("bonus", {})
        settings |= {f"bonus.{name}": value for name, value in bonus.items()}
        name = env or config["env"]
        return cls(name, spec.agent, settings, config["steps"], spec.seed, spec.suite)

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
        inputs = {"algo": self.algo, "env": self.env, "length": self.steps}
        inputs["settings"] = dict(self.settings)
        return RunSpec(self.suite, self.algo, task, self.seed, config, inputs)

    def with_seed(self, seed: int) -> Training:
        """The same training with another seed; the configuration is not resolved again."""
        check_size("seed", seed, least=0)
        _ = self.config  # cached before the copy
        other = copy(self)
        object.__setattr__(other, "seed", seed)
        return other

    def trainer(self, device: str = "cpu") -> DeepTrainer:
        """A new trainer with its environment; imports torch."""
        config = self.config
        env = make_deep_env(self.env, seed=self.seed, training=True, rules=config.atari)
        if isinstance(config, SimpleConfig):
            from contrastive_ucb.agents.simple.trainer import SimpleTrainer

            return SimpleTrainer(env, config, self.seed, self.steps, device)
        from contrastive_ucb.agents.deep.trainer import Trainer

        return Trainer(env, config, self.seed, self.steps, device)


@cache
def deep_kinds() -> dict[str, Any]:
    """The type of every setting of the deep agents."""
    bonus = {f"bonus.{name}": kind for name, kind in kinds_of(BonusConfig).items()}
    return {**kinds_of(SimpleConfig), **kinds_of(RainbowConfig), "bonus.preset": str, **bonus}


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words as settings; `Training` checks them."""
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"--set {word} has no value; write KEY=VALUE, such as n_step=3")
        kind = deep_kinds().get(key, str)
        is_text = kind is str or get_origin(kind) is Literal
        value: Any = text if is_text else WORDS.get(text.lower(), text)
        if isinstance(value, str) and not is_text:
            with suppress(ValueError, SyntaxError):  # otherwise the text is a wrong value
                value = literal_eval(text)
            if get_origin(kind) is tuple and not isinstance(value, (list, tuple)):
                value = (value,)
        settings[key] = value
    return settings
