"""Exploration bonuses: the equations of Algorithm 1, and a toolkit of bonuses for any agent.

    from contrastive_ucb.bonus import Contrastive, make_bonus

| name          | class         | novelty                                       |
|---------------|---------------|-----------------------------------------------|
| `contrastive` | `Contrastive` | elliptical, in contrastively learned features |
| `elliptical`  | `Elliptical`  | elliptical, in fixed or given features        |
| `counts`      | `Counts`      | number of visits, exact or with SimHash       |
| `rnd`         | `RND`         | error of predicting a random network          |
| `e3b`         | `E3B`         | elliptical, in features of inverse dynamics   |
| `icm`         | `ICM`         | error of predicting the next features         |
| `disagreement`| `Disagreement`| variance of predictions of the next features  |
"""

from __future__ import annotations

from dataclasses import fields, replace
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError

if TYPE_CHECKING:
    from contrastive_ucb.bonus.base import Bonus, Training
    from contrastive_ucb.bonus.contrastive_bonus import Contrastive
    from contrastive_ucb.bonus.counts import Counts
    from contrastive_ucb.bonus.disagreement import Disagreement
    from contrastive_ucb.bonus.e3b import E3B
    from contrastive_ucb.bonus.fixed_features import Elliptical
    from contrastive_ucb.bonus.icm import ICM
    from contrastive_ucb.bonus.online import EllipticalBonus
    from contrastive_ucb.bonus.reward import IntrinsicReward, RewardNormalizer
    from contrastive_ucb.bonus.rnd import RND
    from contrastive_ucb.bonus.sb3 import OBSERVATION_FEATURES, BonusCallback, BonusVecEnv
    from contrastive_ucb.bonus.wrapper import BonusWrapper, VectorBonusWrapper

__all__ = [
    "BONUS_NAMES",
    "E3B",
    "ICM",
    "OBSERVATION_FEATURES",
    "RND",
    "Bonus",
    "BonusCallback",
    "BonusVecEnv",
    "BonusWrapper",
    "Contrastive",
    "Counts",
    "Disagreement",
    "Elliptical",
    "EllipticalBonus",
    "IntrinsicReward",
    "RewardNormalizer",
    "Training",
    "VectorBonusWrapper",
    "make_bonus",
]

# Imported on first use, because importing torch takes seconds.
_HOMES = {
    "Bonus": "base",
    "BonusCallback": "sb3",
    "BonusVecEnv": "sb3",
    "BonusWrapper": "wrapper",
    "Contrastive": "contrastive_bonus",
    "Counts": "counts",
    "Disagreement": "disagreement",
    "E3B": "e3b",
    "Elliptical": "fixed_features",
    "EllipticalBonus": "online",
    "ICM": "icm",
    "IntrinsicReward": "reward",
    "OBSERVATION_FEATURES": "sb3",
    "RND": "rnd",
    "RewardNormalizer": "reward",
    "Training": "base",
    "VectorBonusWrapper": "wrapper",
}
BONUS_NAMES = {
    "contrastive": "Contrastive",
    "elliptical": "Elliptical",
    "counts": "Counts",
    "rnd": "RND",
    "e3b": "E3B",
    "icm": "ICM",
    "disagreement": "Disagreement",
}


def make_bonus(name: str, observation_space: Any, action_space: Any, **settings: Any) -> Bonus:
    """Make the bonus with this name.

    Args:
        name: A key of `BONUS_NAMES`.
        observation_space: Of a single environment.
        action_space: Of a single environment.
        settings: Further arguments of the class, such as n_envs, seed and scope; also fields of its
            `Training`, such as learning_rate.

    Returns:
        The bonus.
    """
    maker, training = bonus_class(name), __getattr__("Training")
    parameters = signature(maker).parameters
    parameter = parameters.get("training")
    known = set(parameters) - {"observation_space", "action_space"}
    known |= {field.name for field in fields(training)} if parameter is not None else set()
    for unknown in settings.keys() - known:
        raise UserError(f"{name} has no setting {unknown!r}; {hint(unknown, sorted(known))}")
    if parameter is not None:
        names = {field.name for field in fields(training)} & settings.keys()
        changes = {key: settings.pop(key) for key in names}
        settings["training"] = replace(settings.get("training", parameter.default), **changes)
    return maker(observation_space, action_space, **settings)


def bonus_class(name: str) -> type[Bonus]:
    """The class of the bonus with this name."""
    if name not in BONUS_NAMES:
        raise UserError(f"no bonus is called {name!r}; {hint(name, BONUS_NAMES)}")
    maker: type[Bonus] = __getattr__(BONUS_NAMES[name])
    return maker


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
