"""Kept results of the neural class are those of the script, and controls had their budget."""

import json
import runpy
from pathlib import Path
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
        if path.stem == "bench":  # of `make bench`
            continue
        assert record(path.stem)["command"] == f"cucb {experiments[path.stem]}", path.stem


@pytest.mark.parametrize("horizon", [6, 12, 24])
@pytest.mark.parametrize("control", ["no-bonus", "uniform"])
def test_controls_had_three_times_what_the_slowest_seed_needed(horizon: int, control: str) -> None:
    needed = [run["trajectories"] for run in runs(f"rich-lock-{horizon}-contrastive-ucb")]
    spent = [run["trajectories"] for run in runs(f"rich-lock-{horizon}-{control}")]
    assert min(spent) >= 3 * max(needed)


@pytest.mark.parametrize("horizon", [6, 12])
def test_the_deep_learner_had_as_much_in_the_same_locks_and_fails(horizon: int) -> None:
    opened = runs(f"rich-lock-{horizon}-contrastive-ucb")
    found = runs(f"rich-lock-{horizon}-rainbow")
    assert {run["seed"] for run in found} <= {run["seed"] for run in opened}
    needed = [run["trajectories"] for run in opened]
    assert min(run["episodes"] for run in found) >= 3 * max(needed)
    assert max(run["evaluation"]["mean"] for run in found) < 0.5


@pytest.mark.parametrize(("horizon", "least", "of"), [(6, 9, 10), (12, 9, 10), (24, 4, 5)])
def test_the_rich_lock_is_opened(horizon: int, least: int, of: int) -> None:
    found = runs(f"rich-lock-{horizon}-contrastive-ucb")
    assert len(found) == of
    assert sum(run["solved_at"] is not None for run in found) >= least


def test_long_fits_open_a_lock_of_50_that_short_ones_do_not() -> None:
    assert [run["solved_at"] is not None for run in runs("rich-lock-50-epochs")] == [True]
    assert [run["solved_at"] is not None for run in runs("rich-lock-50-contrastive-ucb")] == [False]


@pytest.mark.parametrize("horizon", [6, 12, 24])
@pytest.mark.parametrize("control", ["no-bonus", "uniform"])
def test_without_the_bonus_it_stays_shut(horizon: int, control: str) -> None:
    assert all(run["solved_at"] is None for run in runs(f"rich-lock-{horizon}-{control}"))


def test_the_error_in_the_continuous_mdp_falls_and_its_values_are_optimistic() -> None:
    slopes = record("continuous")["summary"]["zeta_slopes"]
    assert len(slopes) == len(runs("continuous")) == 10
    assert sum(slope <= -0.8 for slope in slopes) >= 8
    assert all(run["strictly_optimistic_fraction"] == 1 for run in runs("continuous"))


def test_refitting_all_steps_together_is_worth_it() -> None:
    assert record("bench")["summary"]["one_by_one_over_together"] >= 2.5


def runs(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record(name)["summary"]["runs"]
    return found
