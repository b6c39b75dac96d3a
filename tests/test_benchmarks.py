"""`make bench`: each benchmark prints its figures. Times are not tested."""

import json
import subprocess
import sys
from math import isfinite
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import bonus, deep, neural
from contrastive_ucb.bonus import BONUS_NAMES

ROOT = Path(__file__).parents[1]
RATIOS = {
    "theory": {"late_round_over_round_100", "late_memory_over_round_100", "ten_seeds_over_one"}
    | {"checksum_share_solve", "checksum_share_train"},
    "games": {f"{name}_{size}" for name in ("speedup", "max_gap") for size in ("3x3", "10x10")},
    "neural": {"seconds_a_later_round", *neural.TARGETS},
    "bonus": {*bonus.TARGETS, *(f"{name}_ms_per_1000_steps" for name in BONUS_NAMES)},
    "stats": {"loop_over_package_iqm", "seconds_all_methods"},
}
SMALL = {
    "theory": "--late 200 --rounds 100 --large-rounds 1 --steps 50",
    "games": "--games 50 --sample 3 --rounds 3",
    "neural": "--horizon 2 --rounds 1 --between 1 --turns 1",
    "bonus": "--n-envs 2 --rollouts 1 --turns 1",
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


def test_keep_writes_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results" / "neural").mkdir(parents=True)
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(neural, "measure", lambda options: {"core_seconds_a_round": 1.0})
    bench.main(["neural", "--keep"])
    record = json.loads((tmp_path / "results" / bench.FILES["neural"]).read_text())
    assert record["summary"] == {"core_seconds_a_round": 1.0}
    assert record["marks"]["core_seconds_a_round"] == ["<=", 1.5]
    assert record["versions"]["numpy"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("deep --turns 0", "turns must be at least 1"),
        ("deep --game DeepSea-5", "takes an Atari game such as Pong"),
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
