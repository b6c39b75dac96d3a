"""Kept results: the JSON files of a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def records_of(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The records of a folder by name; none where there is no folder."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
