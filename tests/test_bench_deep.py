"""`cucb bench deep`: all promised figures are there under their names; no time is judged here."""

import json
from math import isfinite
from pathlib import Path

import pytest

from contrastive_ucb.cli import main
from contrastive_ucb.commands import bench_yardstick
from contrastive_ucb.commands.bench_deep import MARKS, NO_YARDSTICK, Deep, sizes_of, text_of
from contrastive_ucb.commands.clock import Clock

LEARNERS = (
    *("spr", "spr_ucb_paper", "spr_ucb_paper_bfloat16"),
    *("spr_ucb_reference", "spr_ucb_algorithm_1"),
)
PEERS = ("curl", "der", "drq")
YARDSTICKS = ("yardstick_spr", "yardstick_spr_ucb")
PIECES = ("replay", "augmentation", "forward", "backward", "optimiser")
PROMISED = {
    *(f"ms_update_{name}" for name in (*LEARNERS, *PEERS, *YARDSTICKS)),
    *(f"spr_over_{name}" for name in PEERS),
    *(f"ms_update_{name}_default_allocator" for name in YARDSTICKS),
    *("paper_over_bfloat16", "yardstick_over_bfloat16", "yardstick_default_over_bfloat16"),
    *("yardstick_over_paper", "yardstick_default_over_paper", "yardstick_spr_over_spr"),
    *("yardstick_over_reference", "yardstick_spr_ucb_over_its_spr"),
    *("ms_update_spr_shared_view", "spr_over_shared_view"),
    *("paper_over_spr", "reference_over_spr", "algorithm_1_over_spr", "peak_gflops"),
    *(f"gflop_of_an_update_{name}" for name in (*LEARNERS[:2], "der", "drq")),
    *(f"share_of_peak_{name}" for name in (*LEARNERS[:2], "der", "drq")),
    *(f"split_{piece}_ms" for piece in PIECES),
    *("split_over_update", "act_ms", "acting_share_of_loop"),
    *("act_steps_per_second", "loop_steps_per_second"),
    *("replay_sample_ms", "replay_sample_without_windows_ms", "replay_gb_100k", "peak_memory_gb"),
    *(f"minatar_updates_per_second_one_core_{name}" for name in LEARNERS[:3]),
    "deepsea_updates_per_second",
}
QUICK = ["bench", "deep", "--quick", "--threads", "1"]


def test_every_figure_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep.json"
    assert main([*QUICK, "--json", "--out", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    figures = json.loads(said[-1])
    assert json.loads(out.read_text()) == figures
    assert figures.keys() == PROMISED
    assert all(isfinite(value) and value > 0 for value in figures.values())
    assert figures["acting_share_of_loop"] < 1
    assert figures["split_over_update"] > 0
    assert 0.7 < figures["replay_gb_100k"] < 2
    assert figures["gflop_of_an_update_spr"] == pytest.approx(1.3, rel=0.3)  # batch 4 of 32
    assert figures["gflop_of_an_update_spr_ucb_paper"] >= figures["gflop_of_an_update_spr"]
    assert figures["gflop_of_an_update_spr"] > 2 * figures["gflop_of_an_update_der"]
    assert figures["gflop_of_an_update_spr"] > 2 * figures["gflop_of_an_update_drq"]
    assert {line.split()[0] for line in said[2:-1]} == PROMISED


def test_without_the_repository_there_is_no_yardstick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench_yardstick.find() == Path(__file__).parents[1] / "benchmarks" / "yardstick.py"
    installed = tmp_path / "lib" / "site-packages" / "contrastive_ucb" / "commands" / "x.py"
    monkeypatch.setattr(bench_yardstick, "__file__", str(installed))
    monkeypatch.chdir(tmp_path)
    assert bench_yardstick.find() is None
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "yardstick.py").touch()
    assert bench_yardstick.find() == tmp_path / "benchmarks" / "yardstick.py"


def test_the_table_has_marks_and_says_what_is_missing() -> None:
    assert MARKS.keys() <= PROMISED
    text = text_of(dict.fromkeys(PROMISED, 2.0) | {"yardstick_over_paper": 4.0})
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:]}
    assert lines["yardstick_over_paper"] == ["4", ">=", "2.5", "holds"]
    assert lines["yardstick_default_over_paper"] == ["2", ">=", "3.5", "does", "not"]
    assert lines["replay_sample_ms"] == ["2", "<=", "2", "holds"]
    assert lines["replay_gb_100k"] == ["2", "<=", "0.9", "does", "not"]
    assert lines["act_ms"] == ["2"]
    text = text_of(dict.fromkeys(PROMISED, None))
    assert text.endswith(NO_YARDSTICK)
    assert "hold" not in text


def test_quick_is_small_and_the_usual_sizes_are_those_of_training() -> None:
    usual, quick = sizes_of(Deep()), sizes_of(Deep(quick=True))
    assert (usual.batch, usual.stored, usual.turns, usual.updates) == (32, 100_000, 9, 4)
    assert (quick.batch, quick.turns, quick.updates) == (4, 1, 1)
    assert sizes_of(Deep(turns=3, updates=7)).updates == 7


def test_a_clock_notes_pieces_and_leaves_no_trace() -> None:
    class Thing:
        def work(self, amount: int) -> int:
            return 2 * amount

    thing, clock = Thing(), Clock()
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
    ("options", "says"),
    [
        (["--colour", "red"], "--colour"),
        (["--turns", "0"], "turns must be at least 1"),
        (["--updates", "x"], "--updates"),
        (["--threads", "0"], "threads must be at least 1"),
        (["--seed", "-1"], "seed must be at least 0"),
        (["--game", "Pnog"], "did you mean 'Pong'"),
        (["--game", "DeepSea-5"], "takes an Atari game such as Pong"),
        (["--out", "nowhere/x.json"], "no folder nowhere"),
    ],
)
def test_wrong_options_are_one_line(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("cucb: ")
    assert said.err.count("\n") == 1
    assert says in said.err
