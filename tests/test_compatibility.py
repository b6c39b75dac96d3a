"""Public names, commands, options and JSON fields stay (tests/compatibility.json lists them).

The list was recorded before the redesign of the package. `cucb bench` became `make bench`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import contrastive_ucb as cu

RECORD = json.loads(Path(__file__).with_suffix(".json").with_stem("compatibility").read_text())
ARGUMENTS = {"train": "DeepSea-4", "reproduce": "table"} | dict.fromkeys(
    ("eval", "play", "report", "sweep", "status"), "folder"
)


def cucb(*words: str) -> str:
    command = [sys.executable, "-m", "contrastive_ucb.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", RECORD["names"])
def test_public_names(name: str) -> None:
    assert name in cu.__all__
    assert getattr(cu, name) is not None


@pytest.mark.parametrize("command", RECORD["commands"])
def test_options(command: str) -> None:
    words = [*command.split(), *([ARGUMENTS[command]] if command in ARGUMENTS else [])]
    printed = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", cucb(*words, "--help")))
    assert set(RECORD["commands"][command]) - {"--help"} <= printed


def fields(value: Any, prefix: str = "") -> set[str]:
    """The names of all fields; those of the first entry stand for a list."""
    if isinstance(value, dict):
        inner = [fields(part, f"{prefix}{key}.") for key, part in value.items()]
        return {f"{prefix}{key}" for key in value}.union(*inner)
    if isinstance(value, list) and value:
        return fields(value[0], f"{prefix.rstrip('.')}[].")
    return set()


def check(name: str, *words: str) -> dict[str, Any]:
    """stdout is exactly one JSON object with the recorded fields."""
    summary: dict[str, Any] = json.loads(cucb(*words, "--json"))
    assert set(RECORD["json"][name]) <= fields(summary)
    return summary


def test_json_fields_of_deep_runs(tmp_path: Path) -> None:
    out = str(tmp_path / "runs")
    trained = check("train", "train", "DeepSea-4", "--steps", "200", "--out", out)
    check("eval", "eval", trained["run_dir"], "--episodes", "2")
    check("play", "play", trained["run_dir"], "--episodes", "1")
    check("status", "status", out)
    check("algos", "algos")


def test_json_fields_of_finite_runs(tmp_path: Path) -> None:
    out = str(tmp_path / "runs")
    check("solve", "solve", "lock", "--rounds", "3", "--out", out)
    check("solve-game", "solve", "lowrank-game", "--rounds", "3", "--out", out)
    check("report", "report", out, "--out", str(tmp_path / "page.html"))
    check("reproduce", "reproduce", "table", "--out", str(tmp_path / "table.html"))


def test_json_fields_of_sweep_verify_and_demo(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'kind = "solve"\nenv = "lock"\nseeds = 2\nrounds = 3\n'
        '[variants.contrastive-ucb]\nalgo = "contrastive-ucb"\n'
    )
    check("sweep", "sweep", str(grid), "--out", str(tmp_path / "sweep"))
    check("verify", "verify", "F7", "--quick")
    lengths = ("--rounds", "--lock-rounds", "--game-rounds", "--lock-game-rounds")
    short = [word for length in lengths for word in (length, "3")]
    deep = ["--sea-steps", "200", "--sea-seeds", "1"]
    check("demo", "demo", "--seeds", "1", *short, *deep, "--out", str(tmp_path / "demo"))
