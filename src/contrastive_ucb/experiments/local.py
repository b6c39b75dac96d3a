"""Jobs in processes on this machine, a thread each: the backend `local`.

Workers are in sessions of their own, so Ctrl-C comes to the sweep alone, which then closes their
stdin. The kernel does the same when the sweep is killed: in both cases they save and stop.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.progress import failure_of, is_busy
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.experiments.worker import BUSY, DONE, LOG, MARK, STOPPED, THREADS, mark_failed

WORKER = [sys.executable, "-m", "contrastive_ucb.experiments.worker"]
LOOK_SECONDS = 0.05  # between looks at the workers
BUSY_SECONDS = 1.0  # between looks at a run that another process works on

Errors = dict[Path, str]  # run folder: one line on what went wrong


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def run_local(
    jobs: Sequence[Job],
    root: Path,
    workers: int,
    tick: Callable[[], None] = lambda: None,
    checkpoint_seconds: float | None = None,
) -> Errors:
    """Do all jobs that are not finished, `workers` at once, and return the errors of the others.

    tick  is called all the while; a run that another process works on is waited for
    """
    folders = [(job, job.folder(root)) for job in jobs]
    waiting = [_Waiting(job, folder, _failed_at(folder)) for job, folder in folders]
    pool = _Pool(waiting, root, checkpoint_seconds)
    try:
        while pool.waiting or pool.running:
            while len(pool.running) < workers and (chosen := pool.next()):
                pool.start(chosen)
            tick()
            time.sleep(LOOK_SECONDS)
            pool.collect()
    finally:
        pool.stop()
    tick()
    return pool.errors


@dataclass(eq=False)
class _Waiting:
    """A job that is yet to be done."""

    job: Job
    folder: Path
    failed_before: int | None  # when, by the clock of the disk
    begun_elsewhere: bool = False
    not_before: float = 0.0  # a time of time.monotonic


class _Pool:
    """What waits, what runs, and what went wrong."""

    def __init__(self, jobs: list[_Waiting], root: Path, checkpoint_seconds: float | None):
        self.waiting, self.root, self.every = jobs, root, checkpoint_seconds
        self.running: dict[subprocess.Popen[str], _Waiting] = {}
        self.errors: Errors = {}

    def next(self) -> _Waiting | None:
        """Take the first job that can be begun; those that need not be go away."""
        now = time.monotonic()
        for one in list(self.waiting):
            if one.not_before > now:
                continue
            if RunFolder(one.job.spec(), self.root).finished:
                self._check_finished(one)
            elif is_busy(one.folder):
                one.begun_elsewhere, one.not_before = True, now + BUSY_SECONDS
                continue
            elif one.begun_elsewhere and _failed_at(one.folder) not in (None, one.failed_before):
                # It was tried there, and is left to the next sweep.
                failure = failure_of(one.folder)
                self.errors[one.folder] = failure.error if failure else "it failed elsewhere"
            else:
                self.waiting.remove(one)
                return one
            self.waiting.remove(one)
        return None

    def start(self, one: _Waiting) -> None:
        command = [*WORKER, str(self.root), "-"]
        command += [] if self.every is None else [str(self.every)]
        worker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **THREADS},
            start_new_session=True,
        )
        self.running[worker] = one
        assert worker.stdin
        with suppress(BrokenPipeError):  # it died; `collect` says of what
            worker.stdin.write(json.dumps(one.job.to_json()) + "\n")
            worker.stdin.flush()

    def collect(self) -> None:
        """Note what became of the workers that have ended."""
        for worker in [worker for worker in self.running if worker.poll() is not None]:
            one = self.running.pop(worker)
            said = _last_words(worker)
            if worker.returncode == BUSY:
                one.begun_elsewhere, one.not_before = True, time.monotonic() + BUSY_SECONDS
                self.waiting.append(one)
            elif worker.returncode != DONE:
                self.errors[one.folder] = said or _ending(worker.returncode)
                if worker.returncode < 0 and one.folder.is_dir():  # it could not say so itself
                    mark_failed(one.folder, self.errors[one.folder])

    def stop(self) -> None:
        """Let the workers save and end; an interruption meanwhile ends them at once."""
        for worker in self.running:
            assert worker.stdin
            with suppress(BrokenPipeError):
                worker.stdin.close()
        try:
            for worker in self.running:
                worker.wait()
        finally:
            for worker in self.running:
                worker.kill()
                worker.wait()
                _last_words(worker)
            self.running.clear()

    def _check_finished(self, one: _Waiting) -> None:
        try:
            RunFolder(one.job.spec(), self.root).summary()
        except ValueError as error:
            self.errors[one.folder] = str(error)


def _failed_at(folder: Path) -> int | None:
    try:
        return (folder / MARK).stat().st_mtime_ns
    except OSError:
        return None


def _last_words(worker: subprocess.Popen[str]) -> str:
    """The last line that the worker said before or after its log; its pipes are closed."""
    assert worker.stdin
    assert worker.stderr
    with worker.stderr:
        said = worker.stderr.read().strip().splitlines()
    with suppress(BrokenPipeError):
        worker.stdin.close()
    return said[-1] if said else ""


def _ending(code: int) -> str:
    """A worker that says nothing was stopped by somebody."""
    if code == STOPPED:
        return "the worker was stopped by somebody else; the same command goes on"
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the worker ended with {name}; the end of {LOG} in its folder may say why"
