"""Jobs in worker processes. Where only the order matters, a short script replaces the worker."""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs.sweep_runs import jobs_of, results_of, solve_table, train_table

from contrastive_ucb.runs import pool
from contrastive_ucb.runs.grid import Job, Resources
from contrastive_ucb.runs.pool import run_local
from contrastive_ucb.runs.store import RunFolder
from contrastive_ucb.runs.worker import run_job

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
if what == "busy":
    sys.exit(75)
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
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.05)
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


@pytest.mark.parametrize("workers", [1, 3])
def test_not_more_at_once_than_asked(stub: list[Job], workers: int, tmp_path: Path) -> None:
    assert run_local(stub, tmp_path, workers) == {}
    running = most = 0
    for note in notes(tmp_path):
        running += 1 if note.startswith("begin") else -1
        most = max(most, running)
    assert 1 <= most <= workers
    assert len(notes(tmp_path)) == 12


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


def test_a_run_that_is_busy_elsewhere_is_waited_for(stub: list[Job], tmp_path: Path) -> None:
    entered = threading.Event()

    def elsewhere() -> None:
        with RunFolder(stub[0].specs[0], tmp_path) as other:
            entered.set()
            time.sleep(0.6)
            other.finish({})

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert entered.wait(5)
    assert run_local(stub[:2], tmp_path, 2) == {}
    thread.join()
    assert notes(tmp_path) == ["begin 1", "end 1"]


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
