"""Versions of the package and its libraries, and the date."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version

LIBRARIES = ("numpy", "scipy", "torch")


@cache
def versions(libraries: tuple[str, ...] = LIBRARIES) -> dict[str, str]:
    """Versions of the package, the libraries and Python."""
    names = ("contrastive-ucb", *libraries)
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def today() -> str:
    return datetime.now(UTC).date().isoformat()
