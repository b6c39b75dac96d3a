"""Jobs as tasks of Ray, without Ray: a stand-in notes what is asked and says how tasks end."""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from runs.sweep_runs import jobs_of, results_of, solve_table, train_table

from contrastive_ucb.runs import pool
from contrastive_ucb.runs import ray as cluster
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.ray import run_in_process, run_ray
from contrastive_ucb.runs.worker import EXIT_DONE, EXIT_FAILED, run_job

HERE = str(Path.cwd())


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class TaskCancelledError(RayError):
    pass


class WorkerCrashedError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class NewError(RayError):
    pass


class FakeRay:
    """Tasks end at the next look, in the order of `ends`: with a value, or an error."""

    def __init__(self, ends: list[Any]) -> None:
        kinds = (RayError, RayTaskError, TaskCancelledError)
        self.exceptions = SimpleNamespace(**{kind.__name__: kind for kind in kinds})
        self.ends, self.asked = ends, []  # type: ignore[var-annotated]
        self.cancelled: list[Any] = []
        self.begun = self.closed = 0
        self.waited: float | None = None

    # the session
    def ray(self) -> "FakeRay":
        self.begun += 1
        return self

    def missing(self, wanted: Any) -> str | None:
        return "no GPU yet" if wanted.gpus else None

    def close(self) -> None:
        self.closed += 1

    # the module
    def remote(self, task: Any) -> Any:
        assert task is run_in_process

        def options(**given: Any) -> Any:
            return SimpleNamespace(remote=lambda *arguments: self._start(given, arguments))

        return SimpleNamespace(options=options)

    def _start(self, given: dict[str, Any], arguments: tuple[Any, ...]) -> int:
        if self.ends[len(self.asked) : len(self.asked) + 1] == [(EXIT_DONE, "")]:
            folder = Job.from_json(arguments[0]).folder(Path(arguments[1]))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "DONE").write_text("{}")
        self.asked.append((given, arguments))
        return len(self.asked) - 1

    def wait(self, tasks: list[int], num_returns: int, timeout: float) -> tuple[list[int], Any]:
        assert num_returns == len(tasks)
        print("(raylet) something happened")
        self.waited = timeout
        return [task for task in tasks if task < len(self.ends)], []

    def get(self, task: int) -> Any:
        if isinstance(self.ends[task], Exception):
            raise self.ends[task]
        return self.ends[task]

    def cancel(self, task: int) -> None:
        self.cancelled.append(task)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.005)


def faked(monkeypatch: pytest.MonkeyPatch, *ends: Any) -> FakeRay:
    ray = FakeRay(list(ends))
    monkeypatch.setattr(cluster, "RaySession", lambda address: ray)
    return ray


def test_a_task_gets_what_its_job_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ray = faked(monkeypatch, (0, ""), (0, ""))
    plain = solve_table(seeds=1)
    jobs = jobs_of(plain, {**plain, "rounds": 5, "resources": {"cpus": 2, "gpus": 0.5}})
    assert run_ray(jobs, Path("runs"), None, checkpoint_seconds=3.0) == {}
    (first, arguments), (second, _) = ray.asked
    assert (first["num_cpus"], first["num_gpus"], first["max_retries"]) == (1, 0, 0)
    assert (second["num_cpus"], second["num_gpus"]) == (2, 0.5)
    # The node has another working folder.
    assert arguments == (jobs[0].to_json(), str(tmp_path / "runs"), 3.0, str(tmp_path))
    said = capsys.readouterr()
    assert said.out == ""  # belongs to results, whatever Ray says
    assert said.err == "no GPU yet\n"
    assert ray.closed == 1


def test_how_tasks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dead workers, dead nodes and what is new in Ray are tried again; errors and stops are not."""
    errors: list[Any] = [WorkerCrashedError(), NodeDiedError(), NewError(), (0, "")]
    faked(monkeypatch, *errors)
    [job] = jobs_of(solve_table(seeds=1))
    assert run_ray([job], tmp_path, 1) == {}
    name = job.folder(Path())
    assert capsys.readouterr().err.splitlines() == [
        f"{name}: its Ray worker died; retry 1 of 3",
        f"{name}: its node died; retry 2 of 3",
        f"{name}: Ray lost it (NewError); retry 3 of 3",
    ]
    (job.folder(tmp_path) / "DONE").unlink()
    for end, says in (
        ((EXIT_FAILED, "no space"), "no space"),
        (RayTaskError(OSError("no\npython")), "no python"),
        (TaskCancelledError(), "stopped from outside"),
    ):
        ray = faked(monkeypatch, end)
        [said] = run_ray([job], tmp_path, 1).values()
        assert says in said
        assert len(ray.asked) == 1


def test_losses_without_end_are_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = faked(monkeypatch, *[NodeDiedError()] * 9)
    [job] = jobs_of(solve_table(seeds=1))
    assert run_ray([job], tmp_path, 1) == {job.folder(tmp_path): "its node died"}
    assert len(ray.asked) == 1 + cluster.RETRIES


def test_an_interrupted_sweep_cancels_and_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = faked(monkeypatch, (0, ""))  # the others do not end

    def tick() -> None:
        if ray.waited is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_ray(jobs_of(solve_table(seeds=5)), tmp_path, 3, tick)
    assert ray.cancelled == [1, 2, 3]  # the first is over, the last was not begun
    assert ray.waited == cluster.GRACE_SECONDS
    assert ray.closed == 1


def test_ray_is_not_begun_for_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = faked(monkeypatch)
    [job] = jobs_of(solve_table(3, 1))
    run_job(job, tmp_path)
    assert run_ray([job], tmp_path, None) == {}
    assert ray.begun == 0


def test_the_task_does_what_the_job_does(tmp_path: Path) -> None:
    jobs = jobs_of(solve_table(seeds=1), train_table())
    for job in jobs:
        assert run_in_process(job.to_json(), str(tmp_path / "task"), None, HERE) == (EXIT_DONE, "")
        run_job(job, tmp_path / "here")
    assert results_of(tmp_path / "task") == results_of(tmp_path / "here")


def test_a_task_that_fails_says_why(tmp_path: Path) -> None:
    [job] = jobs_of(solve_table(seeds=1))
    folder = job.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "checkpoints").write_text("in the way")
    code, said = run_in_process(job.to_json(), str(tmp_path), None, "/no/such/folder")
    assert code == EXIT_FAILED
    assert "checkpoints" in said
    assert (folder / "FAILED").exists()
    assert "Traceback" in (folder / "log.txt").read_text()


STUB = """
import os, sys
sys.stdin.readline()
with open(sys.argv[1] + "/notes.txt", "a") as notes:
    print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.getcwd(), file=notes, flush=True)
    if sys.argv[3:]:
        sys.stdin.read()
        print("saved", file=notes)
"""


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(pool, "WORKER", [sys.executable, "-c", STUB])
    return jobs_of(solve_table(seeds=1, resources={"gpus": 1}))[0]


def test_a_run_sees_the_gpus_that_it_asked_for(
    stub: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # Ray's choice
    run_in_process(stub.to_json(), str(tmp_path), None, str(tmp_path))
    other = jobs_of(solve_table(seeds=1))[0]
    run_in_process(other.to_json(), str(tmp_path), None, str(tmp_path))
    assert (tmp_path / "notes.txt").read_text() == f"3 {tmp_path}\n {tmp_path}\n"


def test_a_cancelled_task_lets_its_run_save(stub: Job, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"

    def cancel() -> None:
        while not (notes.exists() and notes.stat().st_size):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=cancel).start()
    with pytest.raises(KeyboardInterrupt):
        run_in_process(stub.to_json(), str(tmp_path), 1.0, HERE)
    assert notes.read_text().splitlines()[-1] == "saved"
