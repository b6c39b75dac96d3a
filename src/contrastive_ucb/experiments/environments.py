"""The environments of `cucb solve` by name, made from settings that JSON can hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from contrastive_ucb.envs import DeepSea, Lock, LockGame, LowRankGame, LowRankMDP, RiverSwim
from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.finite import kind_of
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.tabular import load_env

Family = Literal["mdp", "game"]
SEEDED: dict[str, Callable[..., Env]] = {  # a seed, another environment
    "lowrank": LowRankMDP,
    "lock": Lock,
    "deepsea": DeepSea,
    "lowrank-game": LowRankGame,
    "lock-game": LockGame,
}
OBSERVED: dict[str, Callable[..., ObservedEnv]] = {  # networks learn these, tables the others
    "continuous": ContinuousMDP,
    "rich-lock": RichLock,
    "rich-lock-game": RichLockGame,
    "gym": GymObserved,
}
SAME = ("riverswim", "gym", "file")  # one environment for every seed
NAMES = (*SEEDED, "riverswim", *OBSERVED, "file")
GAMES = ("lowrank-game", "lock-game", "rich-lock-game")


def make_env(name: str, settings: Mapping[str, Any], seed: int) -> Env:
    """The finite environment `name` of this seed."""
    if name in SEEDED:
        return SEEDED[name](**settings, seed=seed)
    if name == "riverswim":
        return RiverSwim(**settings)
    if name == "file":
        return load_env(settings["path"], rank=settings.get("rank"))
    raise ValueError(f"no environment is called {name!r}; choose from {', '.join(NAMES)}")


def make_observed(name: str, settings: Mapping[str, Any], seed: int) -> ObservedEnv:
    """The environment `name` of this seed that is seen through observations."""
    return OBSERVED[name](**settings, **({} if name in SAME else {"seed": seed}))


def family_of(name: str, settings: Mapping[str, Any]) -> Family:
    """Whether it is an MDP or a game, which decides on the algorithms; a file is looked into."""
    if name == "file":
        return kind_of(settings["path"])
    return "game" if name in GAMES else "mdp"


def identity_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What tells environments apart: the settings, and for a file its content, not its place."""
    if name != "file":
        return {"name": name, **settings}
    path = Path(settings["path"])
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return {"name": name, "rank": settings.get("rank"), "sha256": content}
