"""Kept results of the neural class are those of the script, and controls had their budget."""

import json
import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KEPT = sorted((ROOT / "results" / "neural").glob("*.json"))


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    found: dict[str, str] = runpy.run_path(str(ROOT / "benchmarks" / "neural_results.py"))[
        "EXPERIMENTS"
    ]
    return found


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / "neural" / f"{name}.json").read_text())
    return found


def test_every_file_has_the_command_of_today(experiments: dict[str, str]) -> None:
    assert KEPT
    for path in KEPT:
        assert record(path.stem)["command"] == f"cucb {experiments[path.stem]}", path.stem


@pytest.mark.parametrize("horizon", [6, 12])
@pytest.mark.parametrize("control", ["no-bonus", "uniform"])
def test_controls_had_three_times_the_trajectories(horizon: int, control: str) -> None:
    needed = [run["trajectories"] for run in runs(f"rich-lock-{horizon}-contrastive-ucb")]
    spent = [run["trajectories"] for run in runs(f"rich-lock-{horizon}-{control}")
             if run["solved_at"] is None]  # fmt: skip
    assert min(spent) >= 3 * fmean(needed)


def test_the_deep_control_had_three_times_the_episodes() -> None:
    needed = [run["trajectories"] for run in runs("rich-lock-6-contrastive-ucb")]
    assert min(run["episodes"] for run in runs("rich-lock-6-rainbow")) >= 3 * fmean(needed)


def runs(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record(name)["summary"]["runs"]
    return found
