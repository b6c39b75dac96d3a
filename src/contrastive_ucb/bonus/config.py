"""A bonus of the toolkit as data: its name, its settings, and its weight in the reward.

    config = IntrinsicConfig.of({"bonus": "rnd", "scale": 0.1, "scope": "product"})
    intrinsic = config.make(observation_space, action_space, n_envs=16, seed=0)

The settings of a bonus are the plain arguments of its class and, beside them, the fields of its
`Training`. Torch is imported only for a bonus other than "none".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from inspect import signature
from math import inf
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from contrastive_ucb.bonus import BONUS_NAMES, bonus_class
from contrastive_ucb.core.checks import check_range, hint, kinds_of, typed
from contrastive_ucb.core.errors import UserError

if TYPE_CHECKING:
    from contrastive_ucb.bonus.reward import IntrinsicReward

PLAIN = (bool, int, float, str)  # types of settings, besides literals and sequences of them
FROM_RUN = ("n_envs", "seed", "device")


@dataclass(frozen=True)
class IntrinsicConfig:
    """An intrinsic reward: a bonus of the toolkit with its settings, or none."""

    bonus: str = "none"
    """A bonus of the toolkit by name, or none."""
    scale: float = 0.1
    """beta, the weight of the intrinsic reward."""
    normalize: bool = True
    """Divide the bonus by the standard deviation of its discounted return."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the bonus; missing ones are filled with its defaults."""

    def __post_init__(self) -> None:
        kinds = kinds_of(type(self))
        for name in COMMON:
            value = typed(f"intrinsic.{name}", getattr(self, name), kinds[name])
            object.__setattr__(self, name, value)
        check_range(self, "intrinsic.", scale=(0, inf))
        if self.bonus != "none" and self.bonus not in BONUS_NAMES:
            names = ["none", *BONUS_NAMES]
            raise UserError(f"no bonus is called {self.bonus!r}; {hint(self.bonus, names)}")
        known = {} if self.bonus == "none" else bonus_settings(self.bonus)
        for name in self.settings:
            if name not in known:
                raise UserError(
                    f"intrinsic.bonus={self.bonus} has no setting {name!r};"
                    f" {hint(name, [*known, *COMMON])}"
                )
        values = {
            name: typed(f"intrinsic.{name}", self.settings.get(name, default), kind)
            for name, (kind, default) in known.items()
        }
        object.__setattr__(self, "settings", values)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> IntrinsicConfig:
        """The configuration of flat settings, such as {"bonus": "rnd", "scale": 0.1, "dim": 64}."""
        common = {name: value for name, value in settings.items() if name in COMMON}
        others = {name: value for name, value in settings.items() if name not in COMMON}
        return cls(**common, settings=others)

    @property
    def flat(self) -> dict[str, Any]:
        """All values, as `of` takes them."""
        return {name: getattr(self, name) for name in COMMON} | dict(self.settings)

    @property
    def text(self) -> str:
        """The bonus and the settings that differ from its defaults."""
        plain = IntrinsicConfig(self.bonus).flat
        changes = (f"{name}={value}" for name, value in self.flat.items() if value != plain[name])
        return " ".join([self.bonus, *changes])

    @property
    def is_on(self) -> bool:
        return self.bonus != "none"

    def make(
        self,
        observation_space: Any,
        action_space: Any,
        n_envs: int,
        seed: int,
        device: str = "cpu",
    ) -> IntrinsicReward:
        """The intrinsic reward, for a bonus other than none."""
        from contrastive_ucb.bonus.reward import intrinsic_reward

        spaces, settings = (observation_space, action_space), {"device": device, **self.settings}
        return intrinsic_reward(
            self.bonus, *spaces, n_envs, self.scale, self.normalize, seed, settings
        )


COMMON = tuple(x.name for x in fields(IntrinsicConfig) if x.name != "settings")


@cache
def bonus_settings(name: str) -> dict[str, tuple[Any, Any]]:
    """Type and default of each setting of a bonus."""
    from contrastive_ucb.bonus.base import Training

    maker = bonus_class(name)
    kinds, settings = get_type_hints(maker.__init__), {}
    for key, parameter in signature(maker).parameters.items():
        kind, default = _plain(kinds[key]), parameter.default
        if kinds[key] is Training:
            for part, part_kind in kinds_of(Training).items():
                settings[part] = part_kind, getattr(default, part)
        elif kind is not None and key not in FROM_RUN:
            settings[key] = kind, default
    return settings


def setting_kind(name: str, bonus: str) -> Any:
    """The type of a setting of this bonus, to read it from text; unknown ones are text."""
    if name in COMMON:
        return kinds_of(IntrinsicConfig)[name]
    known = bonus_settings(bonus) if bonus in BONUS_NAMES else {}
    return known[name][0] if name in known else str


def _plain(kind: Any) -> Any:
    """The type of an argument as that of a setting; None if it is not plain data."""
    if get_origin(kind) is Sequence:
        (entry,) = get_args(kind)
        return GenericAlias(tuple, (entry, ...))
    return kind if kind in PLAIN or get_origin(kind) is Literal else None
