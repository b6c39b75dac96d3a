"""The jobs that are not finished, tried several at once: what all backends share.

A runner tries jobs somewhere. Which job is next, which must wait because somebody else works on it,
which is tried again and what went wrong is decided here, by the run folders and how tries ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.progress import failure_of, is_busy
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.experiments.worker import BUSY, DONE, LOG, MARK, STOPPED, mark_failed

LOOK_SECONDS = 0.05  # between looks at what runs
BUSY_SECONDS = 1.0  # between looks at a run that another process works on
ELSEWHERE = "but not in this folder: do all see it, and have the same version of contrastive-ucb?"

Errors = dict[Path, str]  # run folder: one line on what went wrong


class Ended(NamedTuple):
    """How a try ended."""

    code: int | None  # of the worker, below 0 the signal that ended it; None: lost with its place
    said: str = ""  # its last line, or what became of its place

    @property
    def lost(self) -> bool:
        """Whether it was cut off and could not say so itself."""
        return self.code is None or self.code < 0

    def reason(self) -> str:
        """One line on why it ended."""
        if self.said:
            return self.said
        if self.code == STOPPED:
            return "the worker was stopped by somebody else; the same command goes on"
        code = self.code or 0
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the worker ended with {name}; the end of {LOG} in its folder may say why"


class Runner(Protocol):
    """Tries jobs, each in a worker process of its own."""

    def start(self, folder: Path, job: Job) -> None:
        """Begin a try, known by its run folder."""

    def ended(self) -> list[tuple[Path, Ended]]:
        """The tries that have ended since the last call."""

    def stop(self) -> None:
        """Let those under way save and end; an interruption meanwhile ends them at once."""


def run_all(
    jobs: Sequence[Job],
    root: Path,
    runner: Runner,
    workers: int | None,
    tick: Callable[[], None] = lambda: None,
    retries: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> Errors:
    """Do all jobs that are not finished, and return the errors of the others.

    workers  how many tries at once; None leaves that to the runner
    tick     is called all the while; a run that another process works on is waited for
    retries  how often a run that was lost is tried again, counted anew from each checkpoint
    """
    pool = _Pool(jobs, root, runner, retries, say)
    try:
        while pool.waiting or pool.running:
            while (workers is None or len(pool.running) < workers) and (chosen := pool.next()):
                pool.start(chosen)
            tick()
            time.sleep(LOOK_SECONDS)
            pool.collect()
    finally:
        runner.stop()
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
    losses: int = 0  # since it stood at `checkpoint`
    checkpoint: Path | None = None


class _Pool:
    """What waits, what runs, and what went wrong."""

    def __init__(
        self,
        jobs: Sequence[Job],
        root: Path,
        runner: Runner,
        retries: int,
        say: Callable[[str], None],
    ):
        folders = [(job, job.folder(root)) for job in jobs]
        self.waiting = [_Waiting(job, folder, _failed_at(folder)) for job, folder in folders]
        self.running: dict[Path, _Waiting] = {}
        self.errors: Errors = {}
        self.root, self.runner, self.retries, self.say = root, runner, retries, say

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
        self.running[one.folder] = one
        self.runner.start(one.folder, one.job)

    def collect(self) -> None:
        """Note what became of the tries that have ended."""
        for folder, ended in self.runner.ended():
            one = self.running.pop(folder)
            if ended.code == BUSY:
                one.begun_elsewhere = True
                self._wait(one)
            elif ended.lost and self._goes_on(one, ended):
                self._wait(one)
            elif ended.code == DONE:
                if not _has_done(folder):
                    self.errors[folder] = f"a worker says that it is finished, {ELSEWHERE}"
            else:
                self.errors[folder] = ended.reason()
                if ended.lost and folder.is_dir():
                    mark_failed(folder, self.errors[folder])

    def _goes_on(self, one: _Waiting, ended: Ended) -> bool:
        """Whether a run that was lost is tried again, from its newest checkpoint."""
        newest = latest_checkpoint(one.folder / "checkpoints")
        one.losses = 1 if newest != one.checkpoint else one.losses + 1
        one.checkpoint = newest
        if one.losses > self.retries:
            return False
        name = one.folder.relative_to(self.root)
        self.say(f"{name}: {ended.reason()}; it is tried again ({one.losses} of {self.retries})")
        return True

    def _wait(self, one: _Waiting) -> None:
        one.not_before = time.monotonic() + BUSY_SECONDS
        self.waiting.append(one)

    def _check_finished(self, one: _Waiting) -> None:
        try:
            RunFolder(one.job.spec(), self.root).summary()
        except ValueError as error:
            self.errors[one.folder] = str(error)


def _has_done(folder: Path) -> bool:
    """A list of the folder is fresh where a file system of the network remembers what it lacked."""
    try:
        return "DONE" in os.listdir(folder)
    except OSError:
        return False


def _failed_at(folder: Path) -> int | None:
    try:
        return (folder / MARK).stat().st_mtime_ns
    except OSError:
        return None
