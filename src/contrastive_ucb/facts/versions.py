"""With what and when something was measured."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Of the package and of what it rests on."""
    names = ("contrastive-ucb", "numpy", "scipy", "torch")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def today() -> str:
    return datetime.now(UTC).date().isoformat()
