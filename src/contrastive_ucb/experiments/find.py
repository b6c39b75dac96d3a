"""The one run in or below a folder, found by its specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from contrastive_ucb.core.errors import UserError

Command = Literal["solve", "train"]
LENGTHS: dict[Command, str] = {"solve": "rounds", "train": "steps"}  # what only their specs have


def find_run(path: Path, *commands: Command) -> tuple[Path, dict[str, Any]]:
    """The one run of these commands in or below the folder `path`, and its spec."""
    if not path.is_dir():
        raise UserError(f"there is no folder {path}; name a run, or what was its --out")
    found = {file.parent: _read_spec(file) for file in sorted(path.rglob("spec.json"))}
    runs = {folder: spec for folder, spec in found.items() if command_of(spec) in commands}
    if not runs:
        names = " or ".join(f"'cucb {command}'" for command in commands)
        raise UserError(f"there is no run of {names} in {path}")
    if len(runs) > 1:
        some = ", ".join(str(folder) for folder in list(runs)[:3])
        raise UserError(f"there are {len(runs)} runs in {path}; name one of them, such as {some}")
    return next(iter(runs.items()))


def command_of(spec: dict[str, Any]) -> Command | None:
    """Which command made the run with this spec; None if none that is known."""
    config = spec.get("config")
    if not isinstance(config, dict):
        return None
    return next((command for command, length in LENGTHS.items() if length in config), None)


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged (not valid JSON); name another run") from error
    return spec if isinstance(spec, dict) else {}
