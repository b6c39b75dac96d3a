"""Checks of settings; errors name the value and the limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from math import inf, isfinite
from numbers import Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from contrastive_ucb.core.errors import UserError

# The type of each setting of a class
kinds_of: Callable[[type], Mapping[str, Any]] = cache(get_type_hints)
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
EXAMPLES = {"support": "0,10", "epsilon": "1,0.1", "extra_rounds": "8,12"}


def check_size(name: str, value: int, least: int = 1) -> None:
    """Raise an error unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_number(
    name: str, value: Any, least: float = -inf, *, positive: bool = False, finite: bool = False
) -> None:
    """Raise an error unless `value` is a number of at least `least`, or positive; never NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserError(f"{name} must be a number, got {value!r}")
    number = float(value)
    limit = "positive" if positive else f"at least {least:g}" if least > -inf else "a number"
    limit += " and finite" if finite else ""
    if not number >= least or (positive and number <= 0) or (finite and not isfinite(number)):
        raise UserError(f"{name} must be {limit}, got {value}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise an error unless `value` is one of the choices."""
    if value not in (known := tuple(choices)):
        raise UserError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def as_path(name: str, value: Any) -> Path:
    """A path that the user gave as text or as a path."""
    if not isinstance(value, (str, PathLike)):
        raise UserError(f"{name} must be a path as text or pathlib.Path, got {value!r}")
    return Path(value)


def typed(name: str, value: Any, kind: Any) -> Any:
    """The value of a setting in its type: 1 becomes 1.0 for a float, and lists become tuples."""
    origin, inner = get_origin(kind), get_args(kind)
    try:
        if origin in (Union, UnionType):  # X | None
            return None if value is None else typed(name, value, inner[0])
        if origin is tuple and isinstance(value, (list, tuple)):
            kinds = inner[:1] * len(value) if inner[-1] is ... else inner
            return tuple(typed(name, *item) for item in zip(value, kinds, strict=True))
        if kind in (int, float):
            if not isinstance(value, bool) and isfinite(value) and kind(value) == value:
                return kind(value)
        elif kind is Any or (value in inner if origin is Literal else isinstance(value, kind)):
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    raise UserError(f"{name} takes {takes(name, kind)}, got {value!r}")


def check_kinds(config: object, prefix: str = "") -> None:
    """Give every setting its type; a value of another type is an error."""
    for name, kind in kinds_of(type(config)).items():
        value = typed(f"{prefix}{name}", getattr(config, name), kind)
        object.__setattr__(config, name, value)


def takes(name: str, kind: Any) -> str:
    """The values of a setting in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return f"{takes(name, inner[0])}, or none"
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    if origin is tuple:
        count = "" if inner[-1] is ... else f"{len(inner)} "
        numbers, usual = ("whole numbers", "64,64") if inner[0] is int else ("numbers", "0.4,1.0")
        return f"{count}{numbers} such as {EXAMPLES.get(name, usual)}"
    return KINDS.get(kind) or str(kind.__name__)


def check_range(config: object, prefix: str = "", **limits: tuple[float, float]) -> None:
    """Raise an error if a setting is outside its limits (inclusive)."""
    for name, (low, high) in limits.items():
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else (value,):
            if not low <= number <= high:
                limit = f"at least {low}" if high == inf else f"in [{low}, {high}]"
                raise ValueError(f"{prefix}{name} must be {limit}, got {value}")


def check_positive(config: object, *names: str) -> None:
    """Raise an error if a setting is not positive."""
    for name in names:
        if not getattr(config, name) > 0:
            raise ValueError(f"{name} must be positive, got {getattr(config, name)}")


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error if a setting does not exist, with the closest name."""
    names = sorted(known)
    for key in given:
        if key not in names:
            raise ValueError(f"no setting is called {key!r}; {hint(key, names)}")


def brief(value: object) -> str:
    """A value for an error message: its type if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"an object of type {type(value).__name__}"


def hint(given: Any, known: Iterable[str]) -> str:
    """A suggestion for an unknown name: the closest known name, or all of them."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(str(given).casefold(), names, n=1)
    if close:
        return f"did you mean {names[close[0]]!r}?"
    return f"choose from {', '.join(names.values())}"


def check_import(env: object, allowed: bool) -> None:
    """Raise an error if making a stored environment `module:Env-v0` would import its module.

    Importing a module runs its code, and the module was chosen by the author of the folder.
    """
    module, colon, _ = str(env).partition(":")
    if colon and not allowed and module not in sys.modules:
        raise UserError(
            f"the environment {env} is made by the Python module {module!r}, which the folder"
            " names and which can run any code; if you trust it, import it first or pass"
            " allow_import=True, on the command line --allow-import"
        )
