"""`make bench`: each benchmark prints its figures. Times are not tested."""

import json
import subprocess
import sys
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks import deep, neural, report, timing

ROOT = Path(__file__).parents[1]
RATIOS = {
    "theory": {"late_round_over_round_100", "late_memory_over_round_100", "ten_seeds_over_one"},
    "games": {f"{name}_{size}" for name in ("speedup", "max_gap") for size in ("3x3", "10x10")},
    "neural": {"seconds_a_later_round", *neural.TARGETS},
    "stats": {"by_game_over_package_iqm", "seconds_all_methods"},
}
SMALL = {
    "theory": "--late 200 --rounds 100 --large-rounds 1",
    "games": "--games 50 --sample 3 --rounds 3",
    "neural": "--horizon 2 --rounds 1 --between 1 --turns 1",
    "stats": "--resamples 100",
}


def figures_of(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """Run a benchmark; its last line is the JSON of the figures that the table shows."""
    bench.main([name, *words.split()])
    lines = capsys.readouterr().out.splitlines()
    figures: dict[str, float] = json.loads(lines[-1])
    assert [line.split()[0] for line in lines[2:-1]] == list(figures)
    return figures


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_prints_its_figures(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    figures = figures_of(name, SMALL[name], capsys)
    assert figures.keys() >= RATIOS[name]
    assert all(isfinite(value) and value >= 0 for value in figures.values())
    assert figures.get("max_gap_10x10", 0) <= 1e-6


def test_the_deep_benchmark_has_the_figures_of_the_stored_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored = json.loads((ROOT / "results" / "deep" / "bench-deep.json").read_text())
    assert stored["marks"] == {name: list(target) for name, target in deep.TARGETS.items()}
    figures = figures_of("deep", "--quick --threads 1", capsys)
    assert figures.keys() == stored["summary"].keys() >= deep.TARGETS.keys()
    assert all(isfinite(value) and value > 0 for value in figures.values())
    assert figures["acting_share_of_loop"] < 1
    assert 0.7 < figures["replay_gb_100k"] < 2
    spr = figures["gflop_of_an_update_spr"]
    assert spr == pytest.approx(1.3, rel=0.3)  # batch 4 instead of 32
    assert figures["gflop_of_an_update_spr_ucb_paper"] >= spr
    assert spr > 2 * max(figures["gflop_of_an_update_der"], figures["gflop_of_an_update_drq"])


@pytest.mark.parametrize("name", bench.FILES)
def test_stored_results_have_the_current_command(name: str) -> None:
    path = ROOT / "results" / bench.FILES[name]
    if path.exists():
        assert json.loads(path.read_text())["command"] == f"make bench NAME={name}"


def test_the_record_of_the_report_keeps_its_fields() -> None:
    figures = dict.fromkeys(report.targets(report.Options()), 0.5)
    figures |= {name.replace("clock", "processor"): 2.0 for name in figures}
    record = report.record(figures)
    stored = json.loads((ROOT / "results" / "report-bench.json").read_text())
    assert record.keys() <= stored.keys()
    assert record["seconds"]["deep"]["list"].keys() == stored["seconds"]["deep"]["list"].keys()
    assert record["seconds"]["deep"]["report"]["processor_of_mark"] == 0.2


def test_keep_writes_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results" / "neural").mkdir(parents=True)
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(neural, "measure", lambda options: {"core_seconds_a_round": 1.0})
    bench.main(["neural", "--keep"])
    record = json.loads((tmp_path / "results" / bench.FILES["neural"]).read_text())
    assert record["summary"] == {"core_seconds_a_round": 1.0}
    assert record["marks"]["core_seconds_a_round"] == ["<=", 1.5]
    assert record["versions"]["numpy"]


def test_later_rounds_are_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds 2 to 11 and 22 to 31 are timed; the first one includes the initialization of torch."""
    timed: list[range] = []

    class Counting:
        played = 0

        def __init__(self, *given: object, **settings: object):
            pass

        def round(self) -> None:
            self.played += 1

    def seconds(agent: Any, rounds: int) -> tuple[float, float]:
        start = agent.played
        for _ in range(rounds):
            agent.round()
        timed.append(range(start + 1, agent.played + 1))
        return 1.0, 1.0

    monkeypatch.setattr(neural, "ContrastiveUCB", Counting)
    monkeypatch.setattr(neural, "seconds_per_round", seconds)
    monkeypatch.setattr(neural, "in_turns", lambda functions, turns: (1.0, 4.0))
    assert neural.measure(neural.Options())["one_by_one_over_together"] == 4
    assert timed == [range(2, 12), range(22, 32)]


def test_the_table_compares_with_targets() -> None:
    targets = {"fast": (">=", 2.5), "small": ("<=", 0.9)}
    text = timing.table("deep", {"fast": 4.0, "small": 2.0, "other": 1.0}, targets)
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:]}
    assert lines == {
        "fast": ["4", ">=", "2.5", "reached"],
        "small": ["2", "<=", "0.9", "not", "reached"],
        "other": ["1"],
    }
    assert neural.targets(neural.Options(horizon=6)) == {}


def test_a_clock_times_parts_and_restores_methods() -> None:
    class Thing:
        def work(self, amount: int) -> int:
            return 2 * amount

    thing, clock = Thing(), timing.Clock()
    with clock.noting(thing, "work", "before", "inside"):
        clock.start()
        assert thing.work(3) == 6
        clock.note("after")
    assert clock.spent.keys() == {"before", "inside", "after"}
    assert vars(thing) == {}
    original = Thing.work
    with clock.noting(Thing, "work", None, "inside"):
        assert thing.work(4) == 8
    assert Thing.work is original


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("deep --turns 0", "turns must be at least 1"),
        ("deep --game DeepSea-5", "takes an Atari game such as Pong"),
        ("deep --game Pnog", "'Pong'"),
        ("neural --horizon 1", "horizon must be at least 2"),
        ("depp", "choose one of theory, games, neural, deep"),
        ("games --unknown 1", "--unknown"),
    ],
)
def test_wrong_input_exits_with_a_message(words: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert says in done.stderr
