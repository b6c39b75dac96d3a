"""Checks of settings; errors name the value and the limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from math import inf, isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from contrastive_ucb.core.errors import UserError

_read_kinds = cache(get_type_hints)  # grids use them many times


def kinds_of(settings: type) -> Mapping[str, Any]:
    """The type of each setting of a class."""
    kinds: Mapping[str, Any] = _read_kinds(settings)
    return kinds


def check_size(name: str, value: int, least: int = 1) -> None:
    """Raise an error unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_kinds(config: object, prefix: str = "") -> None:
    """Raise an error if a setting does not have its type; integers become floats if needed."""
    for name, kind in kinds_of(type(config)).items():
        value = getattr(config, name)
        if not _is_kind(value, kind):
            raise ValueError(f"{prefix}{name} must be {_words(kind)}, got {value!r}")
        if kind is float:  # so that 1 and 1.0 give the same run
            object.__setattr__(config, name, float(value))


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


def hint(given: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name: the closest known name, or all of them."""
    names = list(known)
    close = get_close_matches(given, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(names)}"


def typed(key: str, value: Any, kind: Any) -> Any:
    """The value converted to the type of its setting, such as 1.0 for 1."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        some = next(part for part in inner if part is not type(None))
        return None if value is None else typed(key, value, some)
    if origin is tuple and isinstance(value, (list, tuple)):
        parts = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        if len(parts) != len(value):
            raise UserError(f"{key} takes {len(parts)} values, got {list(value)}")
        return tuple(typed(key, item, part) for item, part in zip(value, parts, strict=True))
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if kind in (bool, int, float, str) and type(value) is not kind:
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        raise UserError(f"{key} takes {names[kind]}, got {value!r}")
    return value


def _words(kind: Any) -> str:
    """The values of a type in words."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    return str(kind) if get_args(kind) else str(kind.__name__)


def _is_kind(value: Any, kind: Any) -> bool:
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return value in inner
    if isinstance(kind, UnionType):
        return any(_is_kind(value, part) for part in inner)
    if get_origin(kind) is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is ... and isinstance(value, tuple) else inner
        return (
            isinstance(value, tuple)
            and len(value) == len(kinds)
            and all(_is_kind(*pair) for pair in zip(value, kinds, strict=True))
        )
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
