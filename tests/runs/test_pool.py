"""The pool: which jobs are started, repeated and reported, and jobs in worker processes.

Scripts replace the backend, or the worker, where only the order matters.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs.sweep_runs import jobs_of, results_of, solve_table, train_table

from contrastive_ucb.runs import pool
from contrastive_ucb.runs.grid import Job, Resources
from contrastive_ucb.runs.pool import Ended, run_all, run_local
from contrastive_ucb.runs.store import RunFolder, is_busy
from contrastive_ucb.runs.worker import run_job

DONE, BUSY, KILLED, LOST = Ended(0), Ended(75), Ended(-9), Ended(None, "its node died")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.005)


class Scripted:
    """A backend whose attempts end at once, as the script says for their seeds."""

    def __init__(self, script: dict[int, list[Ended]]) -> None:
        self.script, self.begun, self.stopped = script, [], False
        self.running: list[tuple[Path, Ended]] = []
        self.most = 0
        self.on_start: Callable[[Path, Job], None] = lambda folder, job: None

    def start(self, folder: Path, job: Job) -> None:
        self.begun.append(job.seed)
        self.on_start(folder, job)
        ended = self.script[job.seed].pop(0)
        if ended is DONE:
            finish(folder)
        self.running.append((folder, ended))
        self.most = max(self.most, len(self.running))

    def ended(self) -> list[tuple[Path, Ended]]:
        over, self.running = self.running, []
        return over

    def stop(self) -> None:
        self.stopped = True


def finish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "DONE").write_text("{}")


def jobs(count: int) -> list[Job]:
    return jobs_of(solve_table(seeds=count))


@pytest.mark.parametrize("end", [LOST, KILLED])
def test_lost_runs_are_repeated(
    end: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Scripted({0: [end, end, DONE], 1: [end] * 9, 2: [DONE]})
    three = jobs(3)
    folder = three[1].folder(tmp_path)
    folder.mkdir(parents=True)
    assert run_all(three, tmp_path, runner, 2, retries=2) == {folder: end.reason()}
    assert sorted(runner.begun) == [0] * 3 + [1] * 3 + [2]
    assert json.loads((folder / "FAILED").read_text())["error"] == end.reason()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"{three[0].folder(Path())}: {end.reason()}; retry 1 of 2"
    assert len(lines) == 4
    assert runner.stopped


def test_losses_are_counted_anew_from_each_checkpoint(tmp_path: Path) -> None:
    """A long run on machines that come and go is not given up as long as it gets on."""
    [job] = jobs(1)
    runner = Scripted({0: [LOST] * 6 + [DONE]})

    def save(folder: Path, job: Job) -> None:
        number = len(runner.begun) // 2  # at every second try
        (folder / "checkpoints" / f"step_{number}").mkdir(parents=True, exist_ok=True)

    runner.on_start = save
    assert run_all([job], tmp_path, runner, 1, retries=2) == {}
    assert len(runner.begun) == 7


def test_a_lost_run_that_still_saves_is_waited_for(tmp_path: Path) -> None:
    """Its process holds the lock for a moment longer than its Ray worker lives."""
    [job] = jobs(1)
    orphan = RunFolder(job.spec(), tmp_path)
    free: list[bool] = []

    def start(folder: Path, job: Job) -> None:
        if len(runner.begun) == 1:
            orphan.__enter__()
            threading.Timer(0.4, orphan.__exit__).start()
        else:
            free.append(not is_busy(folder))

    runner = Scripted({0: [LOST, DONE]})
    runner.on_start = start
    assert run_all([job], tmp_path, runner, 1, retries=1) == {}
    assert free == [True]


def test_a_lost_run_that_has_finished_is_not_repeated(tmp_path: Path) -> None:
    runner = Scripted({0: [LOST]})
    runner.on_start = lambda folder, job: finish(folder)
    assert run_all(jobs(1), tmp_path, runner, 1, retries=3) == {}
    assert runner.begun == [0]


@pytest.mark.parametrize(("workers", "most"), [(None, 6), (4, 4), (1, 1)])
def test_the_number_of_attempts_at_once(workers: int | None, most: int, tmp_path: Path) -> None:
    runner = Scripted({0: [BUSY] * 5 + [DONE]} | {seed: [DONE] for seed in range(1, 6)})
    assert run_all(jobs(6), tmp_path, runner, workers) == {}  # a busy run is not a loss
    assert runner.most == most
    assert sorted(runner.begun) == [0] * 6 + [1, 2, 3, 4, 5]


@pytest.mark.parametrize("there", [True, False])
def test_a_run_that_finished_elsewhere_is_an_error(there: bool, tmp_path: Path) -> None:
    """The node has another disk at this path, or other code and so another folder."""
    [job] = jobs(1)
    if there:
        job.folder(tmp_path).mkdir(parents=True)
    runner = Scripted({0: [Ended(0)]})
    [said] = run_all([job], tmp_path, runner, 1, retries=1).values()
    assert "do all nodes see it, with the same version" in said


@pytest.mark.parametrize(
    ("ended", "lost", "says"),
    [
        (Ended(1, "no disk"), False, "no disk"),
        (Ended(130), False, "stopped from outside"),
        (Ended(7), False, "exit code 7"),
        (Ended(-11), True, "SIGSEGV"),
        (Ended(None, "its node died"), True, "its node died"),
    ],
)
def test_how_an_attempt_ended(ended: Ended, lost: bool, says: str) -> None:
    assert ended.lost == lost
    assert says in ended.reason()


# Worker processes

# Notes that the job began, does what script.json says about its seed, and finishes it.
STUB = """
import json, os, signal, sys, time
root, job = sys.argv[1:3]
job = json.loads(job)
seed, notes = str(job["seed"]), os.path.join(root, "notes.txt")
with open(notes, "a") as file:
    file.write(f"begin {seed}\\n")
what = json.load(open(os.path.join(root, "script.json"))).get(seed, "finish")
if what == "fail":
    sys.exit("warning\\nit fails")
if what == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "stay":
    sys.stdin.read()
    with open(notes, "a") as file:
        file.write(f"saved {seed}\\n")
    sys.exit(130)
time.sleep(0.1)
with open(notes, "a") as file:
    file.write(f"end {seed}\\n")
folder = json.load(open(os.path.join(root, "folders.json")))[seed]
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, "DONE"), "w").write("{}")
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Six jobs for the script."""
    jobs = jobs_of(solve_table(seeds=6))
    folders = {str(job.seed): str(job.folder(tmp_path)) for job in jobs}
    (tmp_path / "folders.json").write_text(json.dumps(folders))
    monkeypatch.setattr(pool, "WORKER", [sys.executable, "-c", STUB])
    script(tmp_path)
    return jobs


def script(root: Path, **what: str) -> None:
    (root / "script.json").write_text(json.dumps({key[1:]: value for key, value in what.items()}))


def notes(root: Path) -> list[str]:
    return (root / "notes.txt").read_text().splitlines()


def test_one_worker_and_two_write_the_same_bytes(tmp_path: Path) -> None:
    jobs = jobs_of(solve_table(seeds=1), train_table())
    assert run_local(jobs, tmp_path / "1", 1) == {}
    assert run_local(jobs, tmp_path / "2", 2) == {}
    for job in jobs:
        run_job(job, tmp_path / "here")
    assert results_of(tmp_path / "1") == results_of(tmp_path / "2") == results_of(tmp_path / "here")
    assert len(results_of(tmp_path / "1")) == 2 * 3 + 1


def test_a_failure_does_not_stop_the_others_and_is_tried_again(
    stub: list[Job], tmp_path: Path
) -> None:
    script(tmp_path, _1="fail", _3="die")
    stub[3].folder(tmp_path).mkdir(parents=True)
    errors = run_local(stub, tmp_path, 2)
    failed, killed = (stub[seed].folder(tmp_path) for seed in (1, 3))
    assert errors.keys() == {failed, killed}
    assert errors[failed] == "it fails"
    # A worker that was killed cannot write FAILED itself.
    assert "SIGKILL" in json.loads((killed / "FAILED").read_text())["error"]
    assert sum(note.startswith("end") for note in notes(tmp_path)) == 4
    script(tmp_path)
    assert run_local(stub, tmp_path, 2) == {}
    assert sum(note.startswith("begin") for note in notes(tmp_path)) == 8  # finished ones: once


def test_a_batch_runs_in_one_process_and_equals_separate_runs(tmp_path: Path) -> None:
    [batch] = jobs_of(solve_table(seeds=3, batch=True))
    assert run_local([batch], tmp_path / "batch", 1) == {}
    for job in jobs_of(solve_table(seeds=3)):
        run_job(job, tmp_path / "separate")
    assert results_of(tmp_path / "batch") == results_of(tmp_path / "separate")
    (batch.folders(tmp_path / "batch")[1] / "DONE").unlink()
    assert run_local([batch], tmp_path / "batch", 1) == {}
    assert results_of(tmp_path / "batch") == results_of(tmp_path / "separate")


def test_ctrl_c_lets_workers_save(stub: list[Job], tmp_path: Path) -> None:
    script(tmp_path, _0="stay", _1="stay")

    def tick() -> None:
        if (tmp_path / "notes.txt").exists() and len(notes(tmp_path)) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_local(stub[:3], tmp_path, 2, tick)
    assert sorted(notes(tmp_path)) == ["begin 0", "begin 1", "saved 0", "saved 1"]


def test_workers_have_one_thread_and_only_the_gpus_that_they_asked_for(
    stub: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    real = pool.subprocess.Popen

    def noting(*arguments: Any, **options: Any) -> Any:
        given.append(options["env"])
        return real(*arguments, **options)

    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(pool.subprocess, "Popen", noting)
    with_gpu = replace(stub[1], resources=Resources(gpus=1))
    run_local([stub[0], with_gpu], tmp_path, 1)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in given] == ["", "3"]
    assert {given[0][f"{name}_NUM_THREADS"] for name in ("MKL", "OMP", "OPENBLAS")} == {"1"}
