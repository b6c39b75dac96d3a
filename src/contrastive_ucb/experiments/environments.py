"""The finite environments by name, made from settings that JSON can hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrastive_ucb.envs import DeepSea, Lock, LowRankMDP, RiverSwim, TabularMDP


def make_env(name: str, settings: Mapping[str, Any], seed: int) -> TabularMDP:
    """The environment `name` of this seed; `riverswim` and `file` are the same for every seed."""
    if name == "lowrank":
        return LowRankMDP(**settings, seed=seed)
    if name == "lock":
        return Lock(**settings, seed=seed)
    if name == "deepsea":
        return DeepSea(**settings, seed=seed)
    if name == "riverswim":
        return RiverSwim(**settings)
    if name == "file":
        return TabularMDP.load(settings["path"], rank=settings.get("rank"))
    names = "lowrank, lock, deepsea, riverswim, file"
    raise ValueError(f"no environment is called {name!r}; choose from {names}")


def identity_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What tells environments apart: the settings, and for a file its content, not its place."""
    if name != "file":
        return {"name": name, **settings}
    path = Path(settings["path"])
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return {"name": name, "rank": settings.get("rank"), "sha256": content}
