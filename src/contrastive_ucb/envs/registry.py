"""The environments of the deep agents by id.

| id                                                              | environment               |
|-----------------------------------------------------------------|---------------------------|
| `DeepSea-10`                                                    | DeepSea with N = 10       |
| `RichLock-12`                                                   | RichLock with H = 12      |
| `MinAtar/Breakout-v1`                                           | MinAtar                   |
| `MiniGrid-DoorKey-8x8-v0`, `contrastive_ucb/...-Distractors-v0` | MiniGrid, the view only   |
| any id of Gymnasium, also `module:Env-v0`                       | as registered             |
| `Pong`, `road_runner`, `ALE/Pong-v5`, `PongNoFrameskip-v4`, ... | Atari 100K rules, any ROM |

`REGISTRY` has one entry per row. To add an environment, write a file with a `FrameEnv` and add an
entry; an environment that is registered with Gymnasium needs neither.

The seed determines the instance of DeepSea (which action goes right) and of RichLock (the
combination), which training and evaluation share.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari import Atari, atari_name, game_name, name_key, roms
from contrastive_ucb.envs.deepsea import DeepSeaGrid
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.envs.minatar import CHANNELS, MINATAR, MinAtar, minatar_name
from contrastive_ucb.envs.rich_lock import RichLock, observation_size

OF_MINIGRID = ("minigrid-", "minigrid/", "babyai-", "babyai/")


@dataclass(frozen=True)
class EnvEntry:
    """One environment or family of environments.

    canonical    spelling -> canonical id, or None if the entry does not have it
    frame_shape  canonical id -> shape of a frame
    make         (canonical id, seed=, role=, training=, rules=) -> environment
    names        canonical ids for suggestions
    modules      that must be installed
    extra        optional dependency group of this package that installs them
    """

    canonical: Callable[[str], str | None]
    frame_shape: Callable[[str], tuple[int, ...]]
    make: Callable[..., FrameEnv]
    names: Callable[[], Iterable[str]]
    modules: tuple[str, ...] = ()
    extra: str = ""


def _sized(family: str, pattern: str, parameter: str, name: str) -> str | None:
    """Canonical id of a family whose ids end in a number."""
    if (match := re.fullmatch(pattern, name, re.IGNORECASE)) is None:
        return None
    check_size(f"the {parameter} of {family}", int(match[1]))
    return f"{family}-{int(match[1])}"


def _number(name: str) -> int:
    """The number at the end of an id."""
    return int(name.rpartition("-")[2])


def _gymnasium_name(name: str) -> str | None:
    """Ids of Gymnasium and `module:id`, except Atari games."""
    if name.lower().startswith(OF_MINIGRID) and not _has_minigrid():
        raise UserError(f"{name} needs minigrid: pip install 'contrastive-ucb[minigrid]'")
    spec = gymnasium.registry.get(name)
    is_known = spec is not None and not str(spec.entry_point).startswith("ale_py")
    return name if ":" in name or is_known else None


@cache
def _has_minigrid() -> bool:
    """Register the environments of MiniGrid, if it is installed."""
    if find_spec("minigrid") is None:
        return False
    import_module("minigrid")
    return True


def _is_minigrid(name: str) -> bool:
    return name.startswith("MiniGrid-") or name.endswith("-Distractors-v0")


def _symbolic(name: str) -> Any:
    from contrastive_ucb.envs.minigrid import symbolic

    return symbolic(name)


DEEPSEA = EnvEntry(
    partial(_sized, "DeepSea", r"deep-?sea-(\d+)", "size"),
    frame_shape=lambda name: (_number(name) ** 2,),
    make=lambda name, seed, role, **_: DeepSeaGrid(_number(name), seed=seed, role=role),
    names=lambda: ["DeepSea-10"],
)
RICH_LOCK = EnvEntry(
    partial(_sized, "RichLock", r"rich-?lock-(\d+)", "horizon"),
    frame_shape=lambda name: (observation_size(_number(name)),),
    make=lambda name, seed, role, **_: GymFrames(
        name,
        partial(RichLock, _number(name), seed=seed),
        seed=seed,
        role=role,
        value_range=(0.0, 1.0),
    ),
    names=lambda: ["RichLock-6"],
)
MINATAR_GAMES = EnvEntry(
    minatar_name,
    frame_shape=lambda name: (CHANNELS[MINATAR[name]], 10, 10),
    make=lambda name, seed, role, **_: MinAtar(name, seed=seed, role=role),
    names=lambda: MINATAR,
    modules=("minatar",),
    extra="minatar",
)
MINIGRID = EnvEntry(
    lambda name: name if _is_minigrid(name) and _gymnasium_name(name) else None,
    frame_shape=lambda name: (3, 7, 7),
    make=lambda name, seed, role, **_: GymFrames(
        name,
        partial(_symbolic, name),
        seed=seed,
        role=role,
        value_range=(0.0, 1.0),
    ),
    names=lambda: filter(_is_minigrid, gymnasium.registry),
    modules=("minigrid",),
    extra="minigrid",
)
GYMNASIUM = EnvEntry(
    _gymnasium_name,
    frame_shape=cache(lambda name: GymFrames(name).frame_shape),
    make=lambda name, seed, role, **_: GymFrames(name, seed=seed, role=role),
    names=lambda: [name for name in gymnasium.registry if _gymnasium_name(name)],
)
ATARI = EnvEntry(
    atari_name,
    frame_shape=lambda name: Atari.frame_shape,
    make=Atari,
    names=lambda: [game_name(rom) for rom in roms().values()],
    modules=("ale_py", "cv2"),
    extra="atari",
)
REGISTRY = (DEEPSEA, RICH_LOCK, MINATAR_GAMES, MINIGRID, GYMNASIUM, ATARI)  # searched in this order


def entry_of(name: str) -> tuple[EnvEntry, str]:
    """The entry and the canonical id of any spelling; the error for an unknown one suggests another
    id."""
    for entry in REGISTRY:
        if (known := entry.canonical(name)) is not None:
            return entry, known
    ids = {name_key(each): each for entry in REGISTRY for each in entry.names()}
    if near := difflib.get_close_matches(name_key(name), ids, n=1):
        raise UserError(f"no environment is called {name!r}; did you mean {ids[near[0]]!r}?")
    raise UserError(
        f"no environment is called {name!r}; try 'Pong', 'MinAtar/Breakout-v1', 'DeepSea-10' or an "
        "id of Gymnasium ('CartPole-v1')"
    )


def canonical_name(name: str) -> str:
    """The canonical id of any spelling of it."""
    return entry_of(name)[1]


def frame_shape_of(name: str) -> tuple[int, ...]:
    """`frame_shape` of the environment; only those of Gymnasium are created for it."""
    entry, known = entry_of(name)
    return entry.frame_shape(known)


def is_atari(name: str) -> bool:
    """Whether this is the id of an Atari game."""
    return entry_of(name)[0] is ATARI


def make_deep_env(
    name: str, *, seed: int, training: bool, rules: str = "standard", role: str = ""
) -> FrameEnv:
    """The environment of an id. Its k-th episode depends only on the arguments and k.

    training  Atari: a lost life terminates and rewards are signs; False: whole games, raw scores
    rules     Atari: one of the `RULES` in envs/atari.py
    role      name of the random streams; default: "train" or "eval-0"
    """
    entry, known = entry_of(name)
    if missing := [module for module in entry.modules if find_spec(module) is None]:
        raise UserError(
            f"{known} needs {' and '.join(missing)}: pip install 'contrastive-ucb[{entry.extra}]'"
        )
    role = role or ("train" if training else "eval-0")
    return entry.make(known, seed=seed, role=role, training=training, rules=rules)


def make_eval_envs(
    name: str, *, seed: int, count: int, first: int = 0, rules: str = "standard"
) -> list[FrameEnv]:
    """`count` environments for evaluation with separate random streams, from number `first`."""
    check_size("count", count)
    make = partial(make_deep_env, name, seed=seed, training=False, rules=rules)
    return [make(role=f"eval-{first + number}") for number in range(count)]
