"""Sweeps on real Ray: a cluster of two nodes, and a Ray that the sweep starts itself.

Processes are killed on the way. The results are those of an uninterrupted sweep, and no round is
played twice.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from runs.ray_cluster import (
    Cluster,
    descendants,
    listening,
    parent,
    run_of,
    two_nodes,
    wait,
    workers_of,
)
from runs.sweep_runs import jobs_of, results_of, solve_table, to_toml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contrastive_ucb.cli import main
from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.worker import run_job

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="processes are found in /proc"),
]
ROUNDS = 800
TABLE = solve_table(rounds=ROUNDS, seeds=2)
ENDLESS = solve_table(rounds=1_000_000, seeds=2)
Start = Callable[..., subprocess.Popen[str]]
LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_nodes() as cluster:
        yield cluster


@pytest.fixture
def alone() -> Iterator[dict[str, str]]:
    """Variables of empty folders for all files that a sweep writes outside of its own."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        own = {"HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp"}
        for path in own.values():
            os.mkdir(path)
        yield {**os.environ, **own}


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Start]:
    """Starts `cucb sweep grid.toml --backend ray --out runs/g ...` in the folder of the test."""
    begun: list[subprocess.Popen[str]] = []

    def start(
        env: dict[str, str], *words: str, table: dict[str, Any] = TABLE
    ) -> subprocess.Popen[str]:
        (tmp_path / "grid.toml").write_text(to_toml(table))
        command = [sys.executable, "-m", "contrastive_ucb.cli", "sweep", "grid.toml"]
        command += ["--backend", "ray", "--out", "runs/g", *words]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        begun.append(subprocess.Popen(command, env=env, cwd=tmp_path, text=True, **both))
        return begun[-1]

    yield start
    for process in begun:  # those of a test that failed
        process.kill()
        process.wait()


def wait_for(until: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """Wait for a result of `until` while the process lives."""
    try:
        return wait(until, lambda: process.poll() is None)
    except AssertionError:
        process.kill()
        print(*process.communicate(), sep="\n")  # pytest shows it
        raise


@contextmanager
def asleep(workers: list[int]) -> Iterator[None]:
    """Pause the runs until their parents are gone, so that none ends too soon."""
    above = [parent(pid) for pid in workers]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
        wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in above))
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def undisturbed(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The table of the same runs, made in this process."""
    for job in jobs_of(TABLE):
        run_job(job, folder / "whole")
    capsys.readouterr()
    assert main(["sweep", str(folder / "grid.toml"), "--out", str(folder / "whole")]) == 0
    return capsys.readouterr().out


def saved(run: Path) -> int:
    """The round of the newest checkpoint."""
    newest = latest_checkpoint(run / "checkpoints")
    return int(newest.name.removeprefix("step_")) if newest else 0


def resumed(run: Path) -> list[int]:
    """The rounds from which the attempts of the run continued."""
    return [int(n) for n in re.findall(r"from step (\d+)", (run / "log.txt").read_text())]


def played(run: Path) -> list[int]:
    """The logged rounds of all attempts."""
    rounds: list[int] = []
    for path in (run / "tensorboard").iterdir():
        board = EventAccumulator(str(path), size_guidance={"scalars": 0}, purge_orphaned_data=False)
        board.Reload()
        if "gap" in board.Tags()["scalars"]:
            rounds += [event.step for event in board.Scalars("gap")]
    return sorted(rounds)


def once(run: Path) -> list[int]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [int(re.findall(r'"step": (\d+)', line)[0]) for line in lines]


def begun(jobs: list[Job], out: Path) -> bool:
    """Whether a run has played a round."""
    metrics = [job.folder(out) / "metrics.jsonl" for job in jobs]
    return any(path.exists() and path.stat().st_size for path in metrics)


def test_a_killed_sweep_a_killed_worker_and_a_killed_node(
    cluster: Cluster, sweep: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, out = jobs_of(TABLE), tmp_path / "runs/g"
    words = ["--address", cluster.address, "--workers", "2"]

    # The sweep is killed. Its runs notice it and save; otherwise there would be no checkpoint.
    first = sweep(cluster.env, *words, "--checkpoint-seconds", "1000")
    wait_for(lambda: begun(jobs, out), first)
    with asleep(workers_of(out)):
        first.kill()
        first.communicate()
    wait(lambda: not workers_of(out))
    before = {job.folder(out): saved(job.folder(out)) for job in jobs}
    assert 0 < max(before.values()) < ROUNDS

    goal = {run: rounds + 3 for run, rounds in before.items()}

    def at_work(*nodes: subprocess.Popen[bytes]) -> tuple[int, Path] | None:
        """A worker on one of the nodes whose run has reached its goal, and the run."""
        below = {pid for node in nodes for pid in descendants(node.pid)}
        for pid in below & {*workers_of(out)}:
            if (run := run_of(pid)) and saved(run) >= goal[run]:
                return pid, run
        return None

    # The same command. A worker of Ray is killed; the run notices and saves.
    second = sweep(cluster.env, *words, "--checkpoint-seconds", "0")
    worker, orphan = wait_for(lambda: at_work(cluster.head, cluster.second), second)
    with asleep([worker]):
        goal[orphan] = (seen := saved(orphan)) + 3
        os.kill(parent(worker), signal.SIGKILL)

    # Then the second node is killed with its run.
    _, lost = wait_for(lambda: at_work(cluster.second), second)
    cluster.kill_second_node()
    last = saved(lost)
    assert last < ROUNDS, "it ended too soon"
    table, said = second.communicate(timeout=300)

    assert second.returncode == 0, said
    assert table == undisturbed(tmp_path, capsys)
    assert results_of(out) == results_of(tmp_path / "whole")
    assert f"{orphan.relative_to(out)}: Ray lost it (WorkerCrashedError); retry 1 of 3" in said
    assert f"{lost.relative_to(out)}: Ray lost it (NodeDiedError); retry" in said
    assert "raylet" not in said
    assert last in resumed(lost)
    assert any(number >= seen for number in resumed(orphan))
    for run, rounds in before.items():
        assert not rounds or rounds in resumed(run)
        if run != lost:  # which could not log its last rounds
            assert played(run) == once(run)


def test_ctrl_c_lets_runs_save_and_ends_a_private_ray(
    alone: dict[str, str], sweep: Start, tmp_path: Path
) -> None:
    jobs, out = jobs_of(ENDLESS), tmp_path / "runs/g"
    process = sweep(alone, "--checkpoint-seconds", "1000", table=ENDLESS)
    wait_for(lambda: begun(jobs, out), process)
    below = descendants(process.pid)
    ports = listening([process.pid, *below])
    assert ports
    assert ports <= LOOPBACK
    process.send_signal(signal.SIGINT)
    table, said = process.communicate(timeout=120)
    assert (process.returncode, table) == (130, "")
    assert "the running runs are saved" in said.splitlines()[-2]
    assert max(saved(job.folder(out)) for job in jobs) > 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in below)
    assert not list(Path(alone["HOME"]).iterdir())
    assert not list(Path(alone["TMPDIR"]).iterdir())


@pytest.mark.slow
def test_a_killed_sweep_ends_its_private_ray(
    alone: dict[str, str], sweep: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, out = jobs_of(TABLE), tmp_path / "runs/g"
    process = sweep(alone, "--checkpoint-seconds", "1000")
    wait_for(lambda: begun(jobs, out), process)
    below = descendants(process.pid)
    with asleep(workers_of(out)):
        process.kill()
        process.communicate()
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))
    assert max(saved(job.folder(out)) for job in jobs) > 0
    again = sweep(alone)
    table, said = again.communicate(timeout=300)
    assert again.returncode == 0, said
    assert table == undisturbed(tmp_path, capsys)


@pytest.mark.slow
def test_a_sweep_starts_another_ray_when_its_node_dies(
    alone: dict[str, str], sweep: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A regression: every attempt failed at once, until no run had a retry left."""
    jobs, out = jobs_of(TABLE), tmp_path / "runs/g"
    process = sweep(alone, "--workers", "1", "--checkpoint-seconds", "0")
    wait_for(lambda: begun(jobs, out), process)
    raylets = [pid for pid in descendants(process.pid) if psutil.Process(pid).name() == "raylet"]
    assert len(raylets) == 1
    os.kill(raylets[0], signal.SIGKILL)
    table, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert table == undisturbed(tmp_path, capsys)
    assert results_of(out) == results_of(tmp_path / "whole")
    lost = [line for line in said.splitlines() if "node on this machine died" in line]
    assert lost
    assert all(line.endswith("retry 1 of 3") for line in lost)
    assert not list(Path(alone["TMPDIR"]).iterdir())
