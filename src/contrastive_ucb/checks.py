"""Checks that many classes share."""

from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

_read_kinds = cache(get_type_hints)  # a list of runs asks for them again and again


def kinds_of(settings: type) -> Mapping[str, Any]:
    """The type of each setting of a class."""
    kinds: Mapping[str, Any] = _read_kinds(settings)
    return kinds


def check_size(name: str, value: int, least: int = 1) -> None:
    """Stop unless the count `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
