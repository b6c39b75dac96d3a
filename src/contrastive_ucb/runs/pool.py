"""The process pool: runs the jobs that are not finished, several at once.

`run_all` decides, from the run folders and from how attempts ended, which job is next, which must
wait because another process works on it, which is tried again, and what went wrong. A `Backend`
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.store import FAILED, LOG, RunFolder, failure_of, is_busy, mark_failed
from contrastive_ucb.runs.worker import EXIT_BUSY, EXIT_DONE, EXIT_STOPPED, THREADS

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
        """Start an attempt; its run folder identifies it."""

    def ended(self) -> list[tuple[Path, Ended]]:
        """The attempts that have ended since the last call."""

    def stop(self) -> None:
        """Let running attempts save and stop; an interruption meanwhile kills them."""


def run_all(
    jobs: Sequence[Job],
    root: Path,
    backend: Backend,
    workers: int | None,
    tick: Callable[[], None] = lambda: None,
    retries: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> Errors:
    """Run all jobs that are not finished; returns the errors of those that failed.

    workers  attempts at once; None leaves that to the backend
    tick     called repeatedly, also while waiting for a run of another process
    retries  attempts after a loss, counted again from each new checkpoint
    """
    pool = _Pool(jobs, root, backend, retries, say)
    try:
        while pool.waiting or pool.running:
            while (workers is None or len(pool.running) < workers) and (chosen := pool.next()):
                pool.start(chosen)
            tick()
            time.sleep(POLL_SECONDS)
            pool.collect()
    finally:
        backend.stop()
    tick()
    return pool.errors


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


@dataclass(eq=False)
class _Waiting:
    """A job that is not finished."""

    job: Job
    folder: Path
    failed_before: int | None  # time of FAILED when the pool began
    begun_elsewhere: bool = False
    not_before: float = 0.0  # time.monotonic of the next check
    losses: int = 0  # since `checkpoint`
    checkpoint: Path | None = None


class _Pool:
    """Waiting jobs, running jobs and errors."""

    def __init__(
        self,
        jobs: Sequence[Job],
        root: Path,
        backend: Backend,
        retries: int,
        say: Callable[[str], None],
    ):
        folders = [(job, job.folder(root)) for job in jobs]
        self.waiting = [_Waiting(job, folder, _failed_at(folder)) for job, folder in folders]
        self.running: dict[Path, _Waiting] = {}
        self.errors: Errors = {}
        self.root, self.backend, self.retries, self.say = root, backend, retries, say

    def next(self) -> _Waiting | None:
        """Take the first job that can start; finished jobs are removed."""
        now = time.monotonic()
        for entry in list(self.waiting):
            if entry.not_before > now:
                continue
            if RunFolder(entry.job.spec(), self.root).finished:
                self._check_finished(entry)
            elif is_busy(entry.folder):
                entry.begun_elsewhere, entry.not_before = True, now + BUSY_SECONDS
                continue
            elif entry.begun_elsewhere and _failed_at(entry.folder) not in (
                None,
                entry.failed_before,
            ):
                # It failed in another process, and the next sweep will try it again.
                failure = failure_of(entry.folder)
                self.errors[entry.folder] = failure.error if failure else "it failed elsewhere"
            else:
                self.waiting.remove(entry)
                return entry
            self.waiting.remove(entry)
        return None

    def start(self, entry: _Waiting) -> None:
        self.running[entry.folder] = entry
        self.backend.start(entry.folder, entry.job)

    def collect(self) -> None:
        """Process the attempts that have ended."""
        for folder, ended in self.backend.ended():
            entry = self.running.pop(folder)
            if ended.code == EXIT_BUSY:
                entry.begun_elsewhere = True
                self._wait(entry)
            elif ended.lost and self._tries_again(entry, ended):
                self._wait(entry)
            elif ended.code == EXIT_DONE:
                if not _has_done(folder):
                    self.errors[folder] = f"a worker reports that it is finished, {ELSEWHERE}"
            else:
                self.errors[folder] = ended.reason()
                if ended.lost and folder.is_dir():
                    mark_failed(folder, self.errors[folder])

    def _tries_again(self, entry: _Waiting, ended: Ended) -> bool:
        """Whether a lost run is tried again, from its newest checkpoint."""
        newest = latest_checkpoint(entry.folder / "checkpoints")
        entry.losses = 1 if newest != entry.checkpoint else entry.losses + 1
        entry.checkpoint = newest
        if entry.losses > self.retries:
            return False
        name = entry.folder.relative_to(self.root)
        self.say(f"{name}: {ended.reason()}; retry {entry.losses} of {self.retries}")
        return True

    def _wait(self, entry: _Waiting) -> None:
        entry.not_before = time.monotonic() + BUSY_SECONDS
        self.waiting.append(entry)

    def _check_finished(self, entry: _Waiting) -> None:
        try:
            RunFolder(entry.job.spec(), self.root).summary()
        except ValueError as error:
            self.errors[entry.folder] = str(error)


class WorkerProcess:
    """One job in a process that saves and stops when its stdin is closed.

    It has its own session, so that Ctrl-C reaches only the process that started it. The kernel
    closes its stdin when that process is killed, so the worker stops soon afterwards.

    job   as JSON values
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        root: Path,
        checkpoint_seconds: float | None,
        cwd: Path | None = None,
    ) -> None:
        # A job without GPUs must not see any: its device would depend on where it runs.
        hidden = {} if job["resources"]["gpus"] else {"CUDA_VISIBLE_DEVICES": ""}
        command = [*WORKER, str(root), "-"]
        command += [] if checkpoint_seconds is None else [str(checkpoint_seconds)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, **hidden, **THREADS},
            start_new_session=True,
        )
        assert self._process.stdin
        with suppress(BrokenPipeError):  # it died; `ended` says why
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()

    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else Ended(code, self._last_line())

    def let_go(self) -> None:
        """Tell it to save and stop."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended, at most so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """Kill it if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._last_line()

    def _last_line(self) -> str:
        """The last line of its stderr outside the log; closes the pipes."""
        assert self._process.stderr
        with self._process.stderr:
            lines = self._process.stderr.read().strip().splitlines()
        self.let_go()
        return lines[-1] if lines else ""


class LocalBackend:
    """Attempts as child processes on this machine."""

    def __init__(self, root: Path, checkpoint_seconds: float | None) -> None:
        self._root, self._every = root, checkpoint_seconds
        self._running: dict[Path, WorkerProcess] = {}

    def start(self, folder: Path, job: Job) -> None:
        self._running[folder] = WorkerProcess(job.to_json(), self._root, self._every)

    def ended(self) -> list[tuple[Path, Ended]]:
        polled = [(folder, worker.ended()) for folder, worker in self._running.items()]
        over = [(folder, ended) for folder, ended in polled if ended is not None]
        for folder, _ in over:
            del self._running[folder]
        return over

    def stop(self) -> None:
        for worker in self._running.values():
            worker.let_go()
        try:
            for worker in self._running.values():
                worker.wait()
        finally:
            for worker in self._running.values():
                worker.end()
            self._running.clear()


def _has_done(folder: Path) -> bool:
    """Whether DONE exists; a listing is fresh on network file systems that cache missing files."""
    try:
        return "DONE" in os.listdir(folder)
    except OSError:
        return False


def _failed_at(folder: Path) -> int | None:
    try:
        return (folder / FAILED).stat().st_mtime_ns
    except OSError:
        return None
