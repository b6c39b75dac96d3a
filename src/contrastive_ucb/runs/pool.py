"""The process pool: runs the jobs that are not finished, several at once.

`run_all` decides, from the run folders and from how attempts ended, which job is next. A `Backend`
runs the attempts: `LocalBackend` as processes on this machine, `ray.RayBackend` on a cluster. Both
start the same worker process (`worker.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.store import LOG, is_busy, mark_failed
from contrastive_ucb.runs.worker import EXIT_BUSY, EXIT_DONE, EXIT_STOPPED, THREADS, say

WORKER = [sys.executable, "-m", "contrastive_ucb.runs.worker"]
POLL_SECONDS = 0.05  # between checks of the running attempts
BUSY_SECONDS = 1.0  # between checks of a run that another process works on
ELSEWHERE = "but not in this folder: do all nodes see it, with the same version of contrastive-ucb?"

Errors = dict[Path, str]  # run folder: what went wrong, in one line


class Ended(NamedTuple):
    """How an attempt ended."""

    code: int | None  # exit code, negative: signal; None: lost with its node
    message: str = ""  # last line on stderr, or what happened to the node

    @property
    def lost(self) -> bool:
        """Whether it was killed and could not report an error itself."""
        return self.code is None or self.code < 0

    @property
    def may_continue(self) -> bool:
        """Whether it did not end by itself: it was lost, or saved and stopped."""
        return self.lost or self.code == EXIT_STOPPED

    def reason(self) -> str:
        """Why it ended, in one line."""
        if self.message:
            return self.message
        if self.code == EXIT_STOPPED:
            return "the worker was stopped from outside; repeat the command to continue"
        code = self.code or 0
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the worker ended with {name}; see the end of {LOG} in its folder"


class Backend(Protocol):
    """Runs attempts, each in its own worker process."""

    def start(self, folder: Path, job: Job) -> None:
        """Start an attempt; the folder of its first run identifies it."""

    def ended(self) -> list[tuple[Path, Ended]]:
        """The attempts that have ended since the last call."""

    def stop(self) -> None:
        """Let running attempts save and stop; an interruption meanwhile kills them."""


@dataclass(eq=False)
class _Entry:
    """A job that is not finished."""

    job: Job
    folders: list[Path]  # of its runs
    not_before: float = 0.0  # time.monotonic of the next attempt
    losses: int = 0  # since `checkpoint`
    checkpoint: Path | None = None

    def lost_again(self, retries: int) -> bool:
        """Count a loss; whether there were more than `retries` since the newest checkpoint."""
        newest = latest_checkpoint(self.folders[0] / "checkpoints")
        self.losses = 1 if newest != self.checkpoint else self.losses + 1
        self.checkpoint = newest
        return self.losses > retries


def run_all(
    jobs: Sequence[Job],
    root: Path,
    backend: Backend,
    workers: int | None,
    tick: Callable[[], None] = lambda: None,
    retries: int = 0,
) -> Errors:
    """Run all jobs that are not finished; returns the errors of those that failed.

    A run that another process works on is waited for.

    workers  attempts at once; None leaves that to the backend
    tick     called repeatedly, also while waiting for a run of another process
    retries  attempts after a loss, counted again from each new checkpoint
    """
    waiting = [_Entry(job, job.folders(root)) for job in jobs]
    running: dict[Path, _Entry] = {}
    errors: Errors = {}
    try:
        while waiting or running:
            for entry in list(waiting):
                if workers is not None and len(running) >= workers:
                    break
                if entry.not_before > time.monotonic():
                    continue
                if any(is_busy(folder) for folder in entry.folders):
                    entry.not_before = time.monotonic() + BUSY_SECONDS
                    continue
                waiting.remove(entry)
                if not _has_done(entry.folders):
                    running[entry.folders[0]] = entry
                    backend.start(entry.folders[0], entry.job)
            tick()
            time.sleep(POLL_SECONDS)
            for folder, ended in backend.ended():
                entry = running.pop(folder)
                if ended.code == EXIT_DONE:
                    if not _has_done(entry.folders):
                        errors[folder] = f"a worker reports that it is finished, {ELSEWHERE}"
                elif ended.code == EXIT_BUSY or (
                    ended.may_continue and not entry.lost_again(retries)
                ):
                    if ended.may_continue:
                        name, count = folder.relative_to(root), f"{entry.losses} of {retries}"
                        say(f"{name}: {ended.reason()}; retry {count}")
                    entry.not_before = time.monotonic() + BUSY_SECONDS
                    waiting.append(entry)
                else:
                    errors[folder] = ended.reason()
                    if ended.lost and folder.is_dir():
                        mark_failed(folder, errors[folder])
    finally:
        backend.stop()
    tick()
    return errors


def _has_done(folders: Sequence[Path]) -> bool:
    """Whether all have DONE; a listing is fresh on network file systems that cache absent files."""
    try:
        return all("DONE" in os.listdir(folder) for folder in folders)
    except OSError:
        return False


def run_local(
    jobs: Sequence[Job],
    root: Path,
    workers: int | None = None,
    tick: Callable[[], None] = lambda: None,
    checkpoint_seconds: float | None = None,
) -> Errors:
    """Run all jobs that are not finished on this machine, by default one per core at once."""
    return run_all(jobs, root, LocalBackend(root, checkpoint_seconds), workers or cores(), tick)


def cores() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


class LocalBackend:
    """Attempts as child processes on this machine."""

    def __init__(self, root: Path, checkpoint_seconds: float | None) -> None:
        self._root, self._every = root, checkpoint_seconds
        self._running: dict[Path, subprocess.Popen[str]] = {}

    def start(self, folder: Path, job: Job) -> None:
        self._running[folder] = start_worker(job.to_json(), self._root, self._every)

    def ended(self) -> list[tuple[Path, Ended]]:
        over = [folder for folder, worker in self._running.items() if worker.poll() is not None]
        return [(folder, outcome(self._running.pop(folder))) for folder in over]

    def stop(self) -> None:
        try:
            for worker in self._running.values():
                let_go(worker)
            for worker in self._running.values():
                worker.wait()
        finally:
            for worker in self._running.values():
                worker.kill()
                outcome(worker)
            self._running.clear()


# The worker process


def start_worker(
    job: Mapping[str, Any],
    root: Path,
    checkpoint_seconds: float | None,
    cwd: Path | None = None,
) -> subprocess.Popen[str]:
    """Start the job (JSON values) in a process that saves and stops when its stdin is closed.

    It has its own session, so that Ctrl-C reaches only the process that started it. The kernel
    closes its stdin when that process is killed, so the worker stops soon afterwards.
    """
    # A job without GPUs must not see any: its device would depend on where it runs.
    hidden = {} if job["resources"]["gpus"] else {"CUDA_VISIBLE_DEVICES": ""}
    every = [] if checkpoint_seconds is None else [str(checkpoint_seconds)]
    return subprocess.Popen(
        [*WORKER, str(root), json.dumps(job), *every],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **hidden, **THREADS},
        start_new_session=True,
    )


def let_go(worker: subprocess.Popen[str]) -> None:
    """Tell the worker to save and stop."""
    assert worker.stdin
    worker.stdin.close()


def outcome(worker: subprocess.Popen[str]) -> Ended:
    """How a worker ended, with the last line of its stderr; closes the pipes."""
    assert worker.stderr
    code = worker.wait()
    with worker.stderr:
        lines = worker.stderr.read().strip().splitlines()
    let_go(worker)
    return Ended(code, lines[-1] if lines else "")
