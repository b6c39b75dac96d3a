"""`cucb sweep` and `cucb status`: interrupted and repeated sweeps, failures, and errors."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from runs.sweep_runs import jobs_of, results_of, solve_table, to_toml, train_table

from contrastive_ucb.cli import main
from contrastive_ucb.cli import sweep as command
from contrastive_ucb.cli.status import LiveTable
from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.pool import cores
from contrastive_ucb.runs.status import RunState
from contrastive_ucb.runs.store import is_busy
from contrastive_ucb.runs.worker import run_job


def written(folder: Path, table: dict[str, Any]) -> str:
    (folder / "grid.toml").write_text(to_toml(table))
    return str(folder / "grid.toml")


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return summary


def start(*words: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "contrastive_ucb.cli", "sweep", *words]
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_round(least: int, jobs: list[Job], root: Path, sweep: subprocess.Popen[str]) -> None:
    """Until one of the runs has a checkpoint of that round, or a later one."""
    patience = time.monotonic() + 90
    while True:
        newest = [latest_checkpoint(job.folder(root) / "checkpoints") for job in jobs]
        if max(int(path.name[5:]) if path else 0 for path in newest) >= least:
            return
        assert time.monotonic() < patience
        assert sweep.poll() is None, sweep.communicate()
        time.sleep(0.005)


def test_stopped_and_killed_sweeps_equal_an_uninterrupted_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = solve_table(rounds=400), tmp_path / "cut"
    jobs = jobs_of(table)
    words = [written(tmp_path, table), "--workers", "1", "--checkpoint-seconds", "0"]
    words += ["--out", str(out)]
    for job in jobs:
        run_job(job, tmp_path / "whole")

    for at, number, code in ((5, signal.SIGINT, 130), (15, signal.SIGTERM, 143)):
        sweep = start(*words)
        wait_for_round(at, jobs, out, sweep)
        sweep.send_signal(number)
        _, said = sweep.communicate(timeout=60)
        assert sweep.returncode == code
        assert "saved" in said.splitlines()[-2]
        assert "repeat the command to continue" in said.splitlines()[-1]
        assert not any(is_busy(job.folder(out)) for job in jobs)
        assert not list(out.rglob("DONE"))

    sweep = start(*words)
    wait_for_round(60, jobs, out, sweep)
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.communicate()
    patience = time.monotonic() + 30
    while any(is_busy(job.folder(out)) for job in jobs):  # its workers do not outlive it
        assert time.monotonic() < patience
        time.sleep(0.01)
    assert not list(out.rglob("DONE")), "finished before it was killed; make the runs longer"
    assert main(["status", str(out), "--json"]) == 0
    assert last_json(capsys)["counts"] == {"finished": 0, "running": 0, "waiting": 2, "failed": 0}

    assert main(["sweep", *words[:1], "--out", str(out)]) == 0
    assert results_of(out) == results_of(tmp_path / "whole")
    table_of_cut = capsys.readouterr().out
    assert main(["sweep", *words[:1], "--out", str(tmp_path / "whole")]) == 0
    assert capsys.readouterr().out == table_of_cut


def test_two_sweeps_at_once_share_the_work(tmp_path: Path) -> None:
    table, out = solve_table(rounds=150), tmp_path / "runs"
    words = [written(tmp_path, table), "--workers", "1", "--out", str(out), "--json"]
    both = [start(*words) for _ in range(2)]
    printed = [sweep.communicate(timeout=120)[0] for sweep in both]
    assert [sweep.returncode for sweep in both] == [0, 0]
    assert printed[0] == printed[1]
    for job in jobs_of(table):
        run_job(job, tmp_path / "alone")
        # One file per attempt: each run was trained once.
        assert len(list((job.folder(out) / "tensorboard").iterdir())) == 1
    assert results_of(out) == results_of(tmp_path / "alone")


def test_failing_and_damaged_runs_are_reported_and_failing_ones_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = train_table(seeds=2)
    good, bad = jobs_of(table)
    folder = bad.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "checkpoints").write_text("in the way")
    words = ["sweep", written(tmp_path, table), "--out", str(tmp_path), "--workers", "2", "--json"]
    assert main(words) == 2
    said = capsys.readouterr()
    summary = json.loads(said.out.splitlines()[-1])
    assert [run["state"] for run in summary["runs"]] == ["finished", "failed"]
    assert summary["runs"][1]["log"] == str(folder / "log.txt")
    assert (folder / "log.txt").read_text()
    last = said.err.splitlines()[-1]
    assert re.search("1 of 2 runs failed; train/spr/.*/seed_1: .*; repeat the command", last)
    assert main(["status", str(tmp_path), "--json"]) == 0
    assert last_json(capsys)["runs"] == summary["runs"]
    (folder / "checkpoints").unlink()
    assert main(words) == 0
    summary = last_json(capsys)
    assert summary["counts"]["finished"] == 2
    assert all(run["error"] is None for run in summary["runs"])
    run_job(good, tmp_path / "alone")
    run_job(bad, tmp_path / "alone")
    assert results_of(tmp_path / "train") == results_of(tmp_path / "alone" / "train")
    (good.folder(tmp_path) / "DONE").write_text("{")
    assert main(words) == 2
    said = capsys.readouterr()
    runs = json.loads(said.out.splitlines()[-1])["runs"]
    assert [run["state"] for run in runs] == ["failed", "finished"]
    last = said.err.splitlines()[-1]
    assert "DONE is damaged" in last
    assert "to try" not in last  # not before the file is removed


def test_a_dry_run_lists_what_a_command_has_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = solve_table(rounds=3)
    first, _ = jobs_of(table)
    run_job(first, tmp_path / "runs")
    words = ["sweep", written(tmp_path, table), "--dry-run", "--out", str(tmp_path / "runs")]
    assert main([*words, "--json"]) == 0
    summary = last_json(capsys)
    assert (summary["name"], summary["out"]) == ("grid", str(tmp_path / "runs"))
    assert [run["state"] for run in summary["runs"]] == ["finished", "waiting"]
    assert summary["runs"][0]["command"] == first.command(tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["solve"]
    assert main(["sweep", "theory", "--dry-run", "--json"]) == 0
    assert len(last_json(capsys)["runs"]) == 180


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sweep", "theroy"], "no experiment is called 'theroy'; did you mean 'theory'"),
        (["sweep", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["sweep", "--json"], "Missing from cucb sweep: EXPERIMENT"),
        (["sweep", "theory", "--backend", "rya"], "ray"),
        (["sweep", "theory", "--address", "auto"], "--address needs --backend ray"),
        *(
            (["sweep", "theory", "--backend", "ray", "--address", address], "must be HOST:PORT")
            for address in ("head", "6379", ":6379", "head:ray", "ray://head:10001")
        ),
        (["sweep", "theory", "--workers", "0"], "workers must be at least 1"),
        (["sweep", "theory", "--checkpoint-seconds", "-1"], "checkpoint_seconds must be"),
        (["sweep", "theory", "--out", "/proc/nowhere"], "cannot write to /proc/nowhere"),
        (["status", "nowhere"], "there is no folder nowhere"),
        (["status", str(Path(__file__).parent)], "contains no runs"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert says in line


def test_the_backend_gets_the_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def backend(
        jobs: Any, root: Path, workers: Any, tick: Any, every: float, address: str = "local"
    ) -> dict[Path, str]:
        calls.append((root, workers, every, address))
        # The worker could not write this error to the folder.
        return {jobs[0].folder(root): "No space left on device"} if workers == 3 else {}

    monkeypatch.setattr(command, "run_local", backend)
    monkeypatch.setattr(command, "run_ray", backend)
    monkeypatch.setattr(command, "check_installed", lambda: None)
    words = ["sweep", written(tmp_path, solve_table()), "--out", str(tmp_path)]
    ray = ["--backend", "ray"]
    for more in ([], [*ray, "--address", "h:1"], [*ray, "--workers", "3"]):
        code = main([*words, *more, "--checkpoint-seconds", "5"])
        assert code == (2 if "3" in more else 0)
    assert calls == [
        (tmp_path, None, 5.0, "local"),
        (tmp_path, None, 5.0, "h:1"),
        (tmp_path, 3, 5.0, None),
    ]
    said = capsys.readouterr().err.splitlines()
    assert "No space left on device" in said[-1]
    lines = [line for line in said if "at once" in line]
    assert [line.partition("; ")[2] for line in lines] == [
        f"{cores()} at once",
        "as many at once as Ray has resources for",
        "3 at once",
    ]


def test_a_second_interruption_kills_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(*_: object) -> dict[Path, str]:
        raise KeyboardInterrupt

    def twice(*_: object) -> dict[Path, str]:
        try:
            raise KeyboardInterrupt
        finally:
            raise KeyboardInterrupt  # while the runs were saving

    words = ["sweep", written(tmp_path, solve_table()), "--out", str(tmp_path / "runs")]
    for backend, says in ((once, "are saved"), (twice, "were killed")):
        monkeypatch.setattr(command, "run_local", backend)
        assert main(words) == 130
        assert f"the running runs {says}" in capsys.readouterr().err


def test_the_live_table_shows_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveTable, "DRAW_SECONDS", 0.0)
    run = RunState("train/spr/a/seed_0", "spr", "a", 0, "running", 3, 10, latest=0.5)
    states = [run, RunState("train/spr/a/seed_1", "spr", "a", 1, seconds_left=3725.0)]
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=100, height=30)
    with LiveTable(lambda: states, console) as table:
        table.tick()
    for text in ("2 runs: 1 running, 1 waiting", "3 / 10", "0.5", "1:02:05"):
        assert text in drawn.getvalue()
    plain = io.StringIO()
    console = Console(file=plain, width=100)
    with LiveTable(lambda: states, console) as table:
        table.tick()
        states[0] = RunState(run.run, "spr", "a", 0, "finished", 10, 10, 0.25)
        states[1] = RunState(states[1].run, "spr", "a", 1, "failed", error="no luck")
        time.sleep(0.02)
        table.tick()
        table.tick()
    assert plain.getvalue().splitlines() == [
        "train/spr/a/seed_0: finished, score 0.25",
        "train/spr/a/seed_1: failed, no luck",
    ]
