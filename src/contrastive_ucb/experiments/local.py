"""Jobs in processes on this machine, a thread each: the backend `local`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.pool import Ended, Errors, run_all
from contrastive_ucb.experiments.process import WorkerProcess


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def run_local(
    jobs: Sequence[Job],
    root: Path,
    workers: int | None,
    tick: Callable[[], None] = lambda: None,
    checkpoint_seconds: float | None = None,
) -> Errors:
    """Do all jobs that are not finished, `workers` at once, by default as many as cores."""
    return run_all(jobs, root, _Processes(root, checkpoint_seconds), workers or cores(), tick)


class _Processes:
    """A runner: each try is a process of this one."""

    def __init__(self, root: Path, checkpoint_seconds: float | None) -> None:
        self._root, self._every = root, checkpoint_seconds
        self._running: dict[Path, WorkerProcess] = {}

    def start(self, folder: Path, job: Job) -> None:
        self._running[folder] = WorkerProcess(job.to_json(), self._root, self._every)

    def ended(self) -> list[tuple[Path, Ended]]:
        looked = [(folder, worker.ended()) for folder, worker in self._running.items()]
        found = [(folder, ended) for folder, ended in looked if ended is not None]
        for folder, _ in found:
            del self._running[folder]
        return found

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
