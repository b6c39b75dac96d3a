"""The backend for Ray, with a module that replaces Ray: connections, tasks and how they end."""

import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from runs.sweep_runs import jobs_of, solve_table

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import pool
from contrastive_ucb.runs import ray as cluster
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.ray import run_in_process, run_ray
from contrastive_ucb.runs.worker import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, run_job

HERE = str(Path.cwd())


class RayError(Exception):
    """Base class of the errors of the module below."""


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


LOST = ("WorkerCrashedError", "NodeDiedError", "NewError")
TaskCancelledError, LocalRayletDiedError, *lost = [
    type(name, (RayError,), {}) for name in ("TaskCancelledError", "LocalRayletDiedError", *LOST)
]


class FakeRay:
    """Tasks end at once, in the order of `ends`: with a value, or an error."""

    def __init__(self, ends: list[Any], nodes: tuple[dict[str, float], ...]) -> None:
        kinds = (RayError, RayTaskError, TaskCancelledError, LocalRayletDiedError)
        self.exceptions = SimpleNamespace(**{kind.__name__: kind for kind in kinds})
        self.ends, self.machines = ends, nodes
        self.options: dict[str, Any] = {}
        self.asked: list[Any] = []
        self.canceled: list[Any] = []
        self.closed = 0
        self.waited: float | None = None

    def init(self, address: str, **options: Any) -> None:
        self.options = {"address": address, **options}
        self.had_files = os.path.isdir(options.get("_temp_dir", ""))

    def nodes(self) -> list[dict[str, Any]]:
        dead = {"Alive": False, "Resources": {"CPU": 99, "GPU": 99}}
        return [dead, *({"Alive": True, "Resources": node} for node in self.machines)]

    def shutdown(self) -> None:
        self.closed += 1

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
        self.canceled.append(task)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(cluster, "check_installed", lambda: None)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def listener() -> Iterator[str]:
    """A port that accepts connections and never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield f"127.0.0.1:{silent.getsockname()[1]}"


def fake(monkeypatch: pytest.MonkeyPatch, *ends: Any, nodes: Any = ({"CPU": 7},)) -> FakeRay:
    ray = FakeRay(list(ends), nodes)
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    return ray


# The connection


def test_ray_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'contrastive-ucb\[ray\]'"):
        run_ray([], tmp_path, None)


def connect(tmp_path: Path, address: str) -> None:
    run_ray(jobs_of(solve_table(seeds=1)), tmp_path, None, address=address)


def test_an_address_where_nothing_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for wrong in (address, "no-such-host.invalid:6379", "127.0.0.1:99999"):
            with pytest.raises(UserError, match=r"nothing answers at .*; start one"):
                connect(tmp_path, wrong)


def test_a_server_that_is_not_ray(
    tmp_path: Path, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait for minutes."""
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(cluster, "JOIN", "import time; time.sleep(60)")
    with pytest.raises(UserError, match=r"cannot join .* \(no answer in 0.5 s\); start one"):
        connect(tmp_path, listener)


@pytest.mark.parametrize(
    ("join", "says"),
    [
        ("raise SystemExit('one\\ntwo')", r"\(two\); start one with ray start --head"),
        ("class AuthenticationError(Exception): pass\nraise AuthenticationError", "RAY_AUTH_MODE"),
        ("raise SystemExit(1)", "no reason given"),
    ],
)
def test_ray_refuses(
    join: str, says: str, tmp_path: Path, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "JOIN", join)
    with pytest.raises(UserError, match=says) as caught:
        connect(tmp_path, listener)
    assert "\n" not in str(caught.value)


def test_joining_a_cluster(
    tmp_path: Path,
    listener: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setattr(cluster, "JOIN", f"import sys; assert sys.argv[1] == {listener!r}")
    nodes = ({"CPU": 2}, {"CPU": 1, "GPU": 1})
    ray = fake(monkeypatch, *[(EXIT_DONE, "")] * 3, nodes=nodes)
    asked = ({"cpus": 2}, {"cpus": 1, "gpus": 1}, {"cpus": 2, "gpus": 1})
    tables = [solve_table(4 + at, 1, resources=asked[at]) for at in range(3)]
    assert run_ray(jobs_of(*tables), tmp_path, None, address=listener) == {}
    assert ray.options["address"] == listener
    assert ray.options["log_to_driver"] is False
    assert "RAY_AUTH_TOKEN" not in os.environ  # that of the cluster is the user's
    # Together the nodes have enough, but a run is on one node; another one may join.
    [line] = capsys.readouterr().err.splitlines()
    assert "asks for 2 cpus and 1 gpus, and no node has them now; such runs wait" in line
    assert ray.closed == 1


def test_a_private_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "cores", lambda: 7)
    ray = fake(monkeypatch)
    jobs = jobs_of(solve_table(seeds=1, resources={"cpus": 8}))
    with pytest.raises(UserError, match=r"asks for 8 cpus and 0 gpus, and there are 7 and 0 here"):
        run_ray(jobs, tmp_path, None)
    assert (ray.options["address"], ray.options["num_cpus"]) == ("local", 7)
    assert ray.options["include_dashboard"] is False
    assert os.environ["RAY_AUTH_TOKEN"]
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert ray.had_files
    assert not os.path.exists(ray.options["_temp_dir"])
    assert ray.closed == 1


def test_a_ray_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = fake(monkeypatch)

    def init(address: str, **options: Any) -> None:
        raise RuntimeError("no\nroom")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(UserError, match=r"Ray does not start \(RuntimeError: no room\); use"):
        run_ray(jobs_of(solve_table(seeds=1)), tmp_path, None)
    assert ray.closed == 1


# Tasks


def test_the_options_of_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ray = fake(monkeypatch, (0, ""), (0, ""), nodes=({"CPU": 2, "GPU": 1},))
    plain = solve_table(seeds=1)
    jobs = jobs_of(plain, {**plain, "rounds": 5, "resources": {"cpus": 2, "gpus": 0.5}})
    assert run_ray(jobs, Path("runs"), None, checkpoint_seconds=3.0) == {}
    (first, arguments), (second, _) = ray.asked
    assert (first["num_cpus"], first["num_gpus"], first["max_retries"]) == (1, 0, 0)
    assert (second["num_cpus"], second["num_gpus"]) == (2, 0.5)
    # The node has another working folder.
    assert arguments == (jobs[0].to_json(), str(tmp_path / "runs"), 3.0, str(tmp_path))
    assert capsys.readouterr() == ("", "")  # stdout is for results, whatever Ray prints


def test_how_tasks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lost tasks, and runs that were stopped by a signal, are repeated; others are not."""
    fake(monkeypatch, *(error() for error in lost[1:]), (EXIT_STOPPED, ""), (0, ""))
    [job] = jobs_of(solve_table(seeds=1))
    assert run_ray([job], tmp_path, 1) == {}
    name, lines = job.folder(Path()), capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for at, (line, what) in enumerate(zip(lines, (*LOST[1:], "stopped"), strict=True), 1):
        assert line.startswith(f"{name}: ")
        assert what in line
        assert line.endswith(f"retry {at} of 3")
    (job.folder(tmp_path) / "DONE").unlink()
    for ends, says in (
        ([(EXIT_FAILED, "no space")], "no space"),
        ([RayTaskError(OSError("no\npython"))], "no python"),
        ([TaskCancelledError()], "the task was canceled"),
        ([lost[1]()] * (1 + cluster.RETRIES), "NodeDiedError"),
    ):
        ray = fake(monkeypatch, *ends)
        [error] = run_ray([job], tmp_path, 1).values()
        assert says in error
        assert len(ray.asked) == len(ends)


def test_a_node_that_dies_costs_each_run_one_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A regression: all tasks failed until no run had a retry left."""
    ray = fake(monkeypatch, LocalRayletDiedError())
    files: list[str] = []
    init = ray.init

    def connect(address: str, **options: Any) -> None:
        if files:  # the first task has failed, and the second one cannot be followed
            assert not os.path.exists(files[0])
            assert (len(ray.asked), ray.closed) == (2, 1)
            ray.ends.insert(1, None)
        files.append(options["_temp_dir"])
        init(address, **options)

    ray.init = connect  # type: ignore[method-assign]

    def start(given: dict[str, Any], arguments: tuple[Any, ...]) -> int:
        if len(files) == 2:
            ray.ends.append((EXIT_DONE, ""))
        return FakeRay._start(ray, given, arguments)

    ray._start = start  # type: ignore[method-assign]
    assert run_ray(jobs_of(solve_table(seeds=2)), tmp_path, 2) == {}
    assert len(files) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.endswith("node on this machine died; retry 1 of 3") for line in lines)


def test_an_interrupted_sweep_cancels_and_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = fake(monkeypatch, (0, ""))  # the others do not end

    def tick() -> None:
        if ray.waited is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_ray(jobs_of(solve_table(seeds=5)), tmp_path, 3, tick)
    assert ray.canceled == [1, 2, 3]  # the first has ended, the last was not started
    assert ray.waited == cluster.GRACE_SECONDS
    assert ray.closed == 1


def test_ray_is_not_started_for_finished_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = fake(monkeypatch)
    [job] = jobs_of(solve_table(3, 1))
    run_job(job, tmp_path)
    assert run_ray([job], tmp_path, None) == {}
    assert ray.options == {}


# The process of a task


def test_a_task_that_fails_says_why(tmp_path: Path) -> None:
    [job] = jobs_of(solve_table(seeds=1))
    folder = job.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "checkpoints").write_text("in the way")
    code, error = run_in_process(job.to_json(), str(tmp_path), None, "/no/such/folder")
    assert code == EXIT_FAILED
    assert "checkpoints" in error
    assert (folder / "FAILED").exists()


STUB = """
import os, sys
with open(sys.argv[1] + "/notes.txt", "a") as notes:
    print("begun", file=notes, flush=True)
    sys.stdin.read()
    print("saved", file=notes)
"""


def test_a_canceled_task_lets_its_run_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", [sys.executable, "-c", STUB])
    [job] = jobs_of(solve_table(seeds=1))
    notes = tmp_path / "notes.txt"

    def cancel() -> None:
        while not (notes.exists() and notes.stat().st_size):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=cancel).start()
    with pytest.raises(KeyboardInterrupt):
        run_in_process(job.to_json(), str(tmp_path), 1.0, HERE)
    assert notes.read_text().splitlines()[-1] == "saved"
