"""Settings by name, as a grid has them, made into what `cucb solve` and `cucb train` would run.

The names are those of the options (n_states, true_rank, negatives, ...) and of --set (n_step,
bonus.preset, ...), the defaults are those of the commands, and a number has the type that the
command would give it: so a run of a grid and the run of a command are one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import signature
from types import UnionType
from typing import Any, Union, get_args, get_origin

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.core.checks import check_size, kinds_of
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs import RiverSwim
from contrastive_ucb.experiments.environments import NAMES, OBSERVED, SEEDED, family_of
from contrastive_ucb.experiments.problem import Problem
from contrastive_ucb.experiments.training import Training

# What options call the arguments of an environment; the agent has a rank and a reward of its own.
WORDS = {"rank": "true_rank", "reward": "reward_kind", "env_id": "id"}


def problem_of(
    env: str, algo: str, settings: Mapping[str, Any], rounds: int, env_seed: int | None = None
) -> Problem:
    """What `cucb solve` makes of options with these names and values."""
    if env not in NAMES:
        raise UserError(f"no environment is called {env!r}; {hint(env, NAMES)}")
    given = dict(settings)
    own = _defaults(env)
    known = {WORDS.get(name, name): name for name in own}  # option: argument
    if env == "file":
        given["path"] = typed("path", given.get("path", ""), str)
        if not given["path"]:
            raise UserError("which file? a grid of env 'file' has the setting path")
    is_game = family_of(env, given) == "game"
    kinds = kinds_of(GameConfig if is_game else AgentConfig)
    extra = ["n_column_actions"] if is_game and "n_actions" in own else []
    for key in given:
        if key not in {*known, *kinds, *extra}:
            names = sorted({*known, *kinds, *extra})
            raise UserError(f"no setting of {env} is called {key!r}; {hint(key, names)}")
    for option, name in known.items():
        if option in given:
            own[name] = _own_setting(option, given.pop(option), type(own[name]))
    agent = {key: typed(key, value, kinds[key]) for key, value in given.items() if key in kinds}
    if env_seed is not None:
        check_size("env_seed", env_seed, least=0)
    if env == "file":
        own["rank"] = agent.get("rank")
    elif "rank" in own and "true_rank" not in settings:
        own["rank"] = agent.get("rank") or own["rank"]
    if extra:
        rows = own["n_actions"]
        columns = _own_setting("n_column_actions", given.get("n_column_actions", rows), int)
        own["n_actions"] = [rows, columns]
    return Problem(env, own, algo, agent, rounds, env_seed)


def training_of(env: str, algo: str, settings: Mapping[str, Any], steps: int) -> Training:
    """What `cucb train` makes of these settings, with seed 0."""
    kinds = deep_kinds()
    values = {key: typed(key, value, kinds.get(key, Any)) for key, value in settings.items()}
    return Training(env, algo, values, steps)


def typed(key: str, value: Any, kind: Any) -> Any:
    """The value in the type of its setting, such as 1.0 for 1; what has another type stays."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        own = next(one for one in inner if one is not type(None))
        return None if value is None else typed(key, value, own)
    if origin is tuple and isinstance(value, (list, tuple)):
        parts = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        if len(parts) != len(value):
            raise UserError(f"{key} takes {len(parts)} values, got {list(value)}")
        return tuple(typed(key, one, part) for one, part in zip(value, parts, strict=True))
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if kind in (bool, int, float, str) and type(value) is not kind:
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        raise UserError(f"{key} takes {names[kind]}, got {value!r}")
    return value


def _own_setting(option: str, value: Any, kind: type) -> Any:
    """A setting of an environment; those that are whole numbers are sizes."""
    found = typed(option, value, kind)
    if kind is int:
        check_size(option, found)
    return found


def hint(given: str, known: Iterable[str]) -> str:
    """The known name nearest to a given one, or all of them."""
    names = list(known)
    close = get_close_matches(given, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"


def _defaults(env: str) -> dict[str, Any]:
    """The settings of an environment, as its class has them, in the order of the command."""
    if env == "file":
        return {"path": ""}
    classes = {**SEEDED, "riverswim": RiverSwim, **OBSERVED}
    parameters = signature(classes[env]).parameters.values()
    own = {p.name: p.default for p in parameters if p.name not in ("seed", "render_mode")}
    return {name: own[name] for name in sorted(own, key=lambda name: name in WORDS)}


@cache
def rainbow_kinds() -> dict[str, Any]:
    """The type of every setting of the Rainbow learner, those of the bonus among them."""
    own, bonus = kinds_of(RainbowConfig), kinds_of(BonusConfig)
    inner = {f"bonus.{name}": kind for name, kind in bonus.items()}
    return {name: own[name] for name in own if name != "bonus"} | {"bonus.preset": str} | inner


@cache
def deep_kinds() -> dict[str, Any]:
    """The type of every setting of the deep learners."""
    return {**kinds_of(SimpleConfig), **rainbow_kinds()}
