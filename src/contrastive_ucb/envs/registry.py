"""The environments of the deep agents by id.

| id                                                              | environment               |
|-----------------------------------------------------------------|---------------------------|
| `DeepSea-10`                                                    | DeepSea with N = 10       |
| `RichLock-12`                                                   | RichLock with H = 12      |
| `MinAtar/Breakout-v1`                                           | MinAtar                   |
| any id of Gymnasium, also `module:Env-v0`                       | as registered             |
| `Pong`, `road_runner`, `ALE/Pong-v5`, `PongNoFrameskip-v4`, ... | Atari 100K rules, any ROM |

`REGISTRY` has one entry per row. To add an environment, write a file with a `FrameEnv` and add an
entry; an environment that is registered with Gymnasium needs neither. `make_env` also accepts
instances and factories.

The seed determines the instance of DeepSea (which action goes right) and of RichLock (the
combination), which training and evaluation share.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import gymnasium

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari_names import game_name, name_key, roms
from contrastive_ucb.envs.deepsea import DeepSeaGrid
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.gym_frames import GymFrames, GymSpec, gym_name
from contrastive_ucb.envs.rich_lock import RichLock, observation_size

# --- Making environments ---------------------------------------------------------------------


def make_env(
    env: GymSpec, *, seed: int, training: bool, rules: str = "standard", role: str = ""
) -> FrameEnv:
    """The environment of an id, an instance or a factory; see `make_deep_env`."""
    if isinstance(env, str):
        return make_deep_env(env, seed=seed, training=training, rules=rules, role=role)
    return GymFrames(env, seed=seed, role=role or ("train" if training else "eval-0"))


def make_deep_env(
    name: str, *, seed: int, training: bool, rules: str = "standard", role: str = ""
) -> FrameEnv:
    """The environment of an id. Its k-th episode depends only on the arguments and k.

    training  Atari: a lost life terminates and rewards are signs; False: whole games, raw scores
    rules     Atari: one of the `RULES` in envs/atari.py
    role      name of the random streams; default: "train" or "eval-0"
    """
    known = canonical_name(name)
    entry = _entry_of(known)
    if missing := [module for module in entry.modules if find_spec(module) is None]:
        raise UserError(
            f"{known} needs {' and '.join(missing)}: pip install 'contrastive-ucb[{entry.extra}]'"
        )
    role = role or ("train" if training else "eval-0")
    return entry.make(known, seed=seed, role=role, training=training, rules=rules)


def make_eval_envs(
    name: GymSpec, *, seed: int, count: int, first: int = 0, rules: str = "standard"
) -> list[FrameEnv]:
    """`count` environments for evaluation with separate random streams, from number `first`."""
    check_size("count", count)
    make = partial(make_env, name, seed=seed, training=False, rules=rules)
    return [make(role=f"eval-{first + number}") for number in range(count)]


def canonical_name(name: str) -> str:
    """The canonical id of any spelling of it; the error for an unknown one suggests another."""
    if not isinstance(name, str):
        raise UserError(
            f"a run that is stored needs the id of an environment, such as 'CartPole-v1', got a"
            f" {type(name).__name__}; register {gym_name(name)} with gymnasium.register and pass"
            " its id"
        )
    for entry in REGISTRY:
        if (known := entry.canonical(name)) is not None:
            return known
    raise UserError(f"no environment is called {name!r}; {_suggestion(name)}")


def frame_shape_of(name: str) -> tuple[int, ...]:
    """`frame_shape` of the environment; only those of Gymnasium are created for it."""
    known = canonical_name(name)
    return _entry_of(known).frame_shape(known)


def _entry_of(known: str) -> EnvEntry:
    return next(entry for entry in REGISTRY if entry.canonical(known) is not None)


def _suggestion(name: str) -> str:
    """The known id nearest to an unknown one, or examples."""
    known = {name_key(each): each for entry in REGISTRY for each in entry.names()}
    if near := difflib.get_close_matches(name_key(name), known, n=1):
        return f"did you mean {known[near[0]]!r}?"
    return "try 'Pong', 'MinAtar/Breakout-v1', 'DeepSea-10' or an id of Gymnasium ('CartPole-v1')"


# --- The registry ----------------------------------------------------------------------------


@dataclass(frozen=True)
class EnvEntry:
    """One environment or family of environments.

    canonical    spelling -> canonical id, or None if the entry does not have it
    frame_shape  canonical id -> shape of a frame
    make         (canonical id, seed=, role=, training=, rules=) -> environment
    names        canonical ids for suggestions
    extra        optional dependency group of this package, and the modules that it installs
    """

    canonical: Callable[[str], str | None]
    frame_shape: Callable[[str], tuple[int, ...]]
    make: Callable[..., FrameEnv]
    names: Callable[[], Iterable[str]]
    extra: str = ""
    modules: tuple[str, ...] = field(default=())


def _sized(family: str, pattern: str, parameter: str, name: str) -> str | None:
    """Canonical id of a family whose ids end in a number."""
    if (match := re.fullmatch(pattern, name, re.IGNORECASE)) is None:
        return None
    check_size(f"the {parameter} of {family}", int(match[1]))
    return f"{family}-{int(match[1])}"


def _number(name: str) -> int:
    """The number at the end of an id."""
    return int(name.rpartition("-")[2])


def _make_deepsea(name: str, *, seed: int, role: str, **_: Any) -> FrameEnv:
    return DeepSeaGrid(_number(name), seed=seed, role=role)


def _make_rich_lock(name: str, *, seed: int, role: str, **_: Any) -> FrameEnv:
    make = partial(RichLock, _number(name), seed=seed)
    return GymFrames(make, name=name, seed=seed, role=role, value_range=(0.0, 1.0))


MINATAR = {  # id -> game
    f"MinAtar/{game_name(game)}-v1": game
    for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
}
CHANNELS = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}


def _minatar_name(name: str) -> str | None:
    key = name.lower().replace("_", "").removesuffix("-v1")
    return next((known for known in MINATAR if known.lower().removesuffix("-v1") == key), None)


def _make_minatar(name: str, *, seed: int, role: str, **_: Any) -> FrameEnv:
    from contrastive_ucb.envs.minatar import MinAtar

    return MinAtar(MINATAR[name], seed=seed, role=role)


def _gymnasium_name(name: str) -> str | None:
    """Ids of Gymnasium and `module:id`, except Atari games."""
    spec = gymnasium.registry.get(name)
    is_known = spec is not None and not str(spec.entry_point).startswith("ale_py")
    return name if ":" in name or is_known else None


def _make_gymnasium(name: str, *, seed: int, role: str, **_: Any) -> FrameEnv:
    return GymFrames(name, seed=seed, role=role)


@cache
def _gymnasium_shape(name: str) -> tuple[int, ...]:
    return GymFrames(name).frame_shape


def _atari_name(name: str) -> str | None:
    rom = roms().get(name_key(name))
    return None if rom is None else game_name(rom)


def _make_atari(name: str, *, seed: int, role: str, training: bool, rules: str) -> FrameEnv:
    from contrastive_ucb.envs.atari import Atari

    return Atari(name, seed=seed, training=training, role=role, rules=rules)


REGISTRY = (  # searched in this order
    EnvEntry(
        partial(_sized, "DeepSea", r"deep-?sea-(\d+)", "size"),
        frame_shape=lambda name: (_number(name) ** 2,),
        make=_make_deepsea,
        names=lambda: ["DeepSea-10"],
    ),
    EnvEntry(
        partial(_sized, "RichLock", r"rich-?lock-(\d+)", "horizon"),
        frame_shape=lambda name: (observation_size(_number(name)),),
        make=_make_rich_lock,
        names=lambda: ["RichLock-6"],
    ),
    EnvEntry(
        _minatar_name,
        frame_shape=lambda name: (CHANNELS[MINATAR[name]], 10, 10),
        make=_make_minatar,
        names=lambda: MINATAR,
        extra="minatar",
        modules=("minatar",),
    ),
    EnvEntry(
        _gymnasium_name,
        frame_shape=_gymnasium_shape,
        make=_make_gymnasium,
        names=lambda: [name for name in gymnasium.registry if _gymnasium_name(name)],
    ),
    EnvEntry(
        _atari_name,
        frame_shape=lambda name: (1, 84, 84),
        make=_make_atari,
        names=lambda: [game_name(rom) for rom in roms().values()],
        extra="atari",
        modules=("ale_py", "cv2"),
    ),
)
