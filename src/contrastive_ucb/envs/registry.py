"""The environments of the deep learner by name.

| name                                                            | environment                 |
|-----------------------------------------------------------------|-----------------------------|
| `Pong`, `road_runner`, `ALE/Pong-v5`, `PongNoFrameskip-v4`, ... | Atari 100K's rules, any ROM |
| `MinAtar/Breakout-v1`                                           | MinAtar                     |
| `DeepSea-10`                                                    | the deep sea, 10 x 10       |
| `RichLock-12`                                                   | the rich lock, H = 12       |
| any other id of Gymnasium, also `module:id`                     | as it comes                 |

The sea and the lock of a seed are its own: which action goes right, and which combination opens.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib.util import find_spec

import gymnasium

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari_names import letters, roms, title
from contrastive_ucb.envs.deepsea import DeepSeaGrid
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.envs.rich_lock import RichLock, observation_size

MINATAR = {
    f"MinAtar/{title(game)}-v1": game
    for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
}
CHANNELS = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}
SIZED = {  # names that end in a number: how they may be spelt, and what the number is
    "DeepSea": (r"deep-?sea-(\d+)", "the size"),
    "RichLock": (r"rich-?lock-(\d+)", "the horizon"),
}
PACKAGES = {"atari": ("ale_py", "cv2"), "minatar": ("minatar",)}  # what each extra installs


def make_deep_env(
    name: str, *, seed: int, training: bool, rules: str = "standard", role: str = ""
) -> FrameEnv:
    """The environment `name`; its k-th episode depends on the arguments and k only.

    training  Atari: a lost life terminates and rewards are signs; False: whole games, raw scores
    rules     Atari: one of the `RULES` in envs/atari.py
    role      names the random streams; by default "train" or "eval-0"
    """
    role = role or ("train" if training else "eval-0")
    return _make(canonical_name(name), seed, training, role, rules)


def make_eval_envs(
    name: str, *, seed: int, count: int, first: int = 0, rules: str = "standard"
) -> list[FrameEnv]:
    """`count` environments for evaluation, number `first` and up; each has its own episodes."""
    check_size("count", count)
    known = canonical_name(name)
    return [_make(known, seed, False, f"eval-{first + i}", rules) for i in range(count)]


def canonical_name(name: str) -> str:
    """The one name of the environment that `name` spells; an error suggests the nearest one."""
    if not isinstance(name, str):
        raise UserError(
            f"an environment is called by its name, such as 'CartPole-v1', got a"
            f" {type(name).__name__}; register your own with Gymnasium and pass its id"
        )
    for known, (spelling, meaning) in SIZED.items():
        if sized := re.fullmatch(spelling, name, re.IGNORECASE):
            check_size(f"{meaning} of {known}", int(sized[1]))
            return f"{known}-{int(sized[1])}"
    small = name.lower().replace("_", "").removesuffix("-v1")
    for known in MINATAR:
        if small == known.lower().removesuffix("-v1"):
            return known
    if _is_gymnasium(name):
        return name
    if rom := roms().get(letters(name)):
        return title(rom)
    raise UserError(f"no environment is called {name!r}; {_advice(name)}")


def frame_shape_of(name: str) -> tuple[int, ...]:
    """What `frame_shape` of the environment is; only those of Gymnasium are made to know it."""
    known = canonical_name(name)
    if known.startswith("DeepSea-"):
        return (_number(known) ** 2,)
    if known.startswith("RichLock-"):
        return (observation_size(_number(known)),)
    if known in MINATAR:
        return (CHANNELS[MINATAR[known]], 10, 10)
    return _shape_in_gymnasium(known) if _is_gymnasium(known) else (1, 84, 84)


@cache
def _shape_in_gymnasium(name: str) -> tuple[int, ...]:
    return GymFrames(name, seed=0).frame_shape


def _make(name: str, seed: int, training: bool, role: str, rules: str) -> FrameEnv:
    """The environment of a canonical name; its package is imported only now."""
    if name.startswith("DeepSea-"):
        return DeepSeaGrid(_number(name), seed=seed, role=role)
    if name.startswith("RichLock-"):
        lock = RichLock(_number(name), seed=seed)
        return GymFrames(name, lock, seed=seed, role=role, value_range=(0.0, 1.0))
    if name in MINATAR:
        _require("minatar", name)
        from contrastive_ucb.envs.minatar import MinAtar

        return MinAtar(MINATAR[name], seed=seed, role=role)
    if _is_gymnasium(name):
        return GymFrames(name, seed=seed, role=role)
    _require("atari", name)
    from contrastive_ucb.envs.atari import Atari

    return Atari(name, seed=seed, training=training, role=role, rules=rules)


def _number(name: str) -> int:
    """The number that a name of `SIZED` ends in."""
    return int(name.rpartition("-")[2])


def _is_gymnasium(name: str) -> bool:
    """Whether it is an id of Gymnasium's, or of a module to import first, but no Atari game."""
    spec = gymnasium.registry.get(name)
    return ":" in name or (spec is not None and not str(spec.entry_point).startswith("ale_py"))


def _require(extra: str, name: str) -> None:
    if missing := [package for package in PACKAGES[extra] if find_spec(package) is None]:
        raise UserError(
            f"{name} needs {' and '.join(missing)}: pip install 'contrastive-ucb[{extra}]'"
        )


def _advice(name: str) -> str:
    """The known name nearest to an unknown one, or what names there are."""
    generic = {letters(known): known for known in gymnasium.registry if _is_gymnasium(known)}
    ours = {letters(known): known for known in (*MINATAR, "DeepSea-10", "RichLock-6")}
    known = generic | ours | {spelling: title(rom) for spelling, rom in roms().items()}
    if near := difflib.get_close_matches(letters(name), known, n=1):
        return f"did you mean {known[near[0]]!r}?"
    return "try 'Pong', 'MinAtar/Breakout-v1', 'DeepSea-10' or an id of Gymnasium ('CartPole-v1')"
