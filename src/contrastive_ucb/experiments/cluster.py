"""Jobs as tasks of a Ray cluster: the backend `ray`.

A task starts the process that the backend `local` starts too, and waits for it. The run is in that
process and not in Ray's own, so that
- it has the same threads and variables, hence the same bits, and leaves the same log and FAILED;
- it holds the lock of its folder as long as it lives, whatever becomes of Ray;
- it hears of every end in one way. Ray's worker holds its stdin: when the task is cancelled, or the
  worker, its node or the sweep is killed, stdin ends, and the run saves and stops.

Ray does not repeat tasks here. A run that was lost goes back to the pool (pool.py), which waits
until its folder is free and begins a task that goes on from the newest checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.pool import LOOK_SECONDS, Ended, Errors, run_all
from contrastive_ucb.experiments.process import WorkerProcess
from contrastive_ucb.experiments.ray_session import RaySession
from contrastive_ucb.experiments.resources import Resources
from contrastive_ucb.experiments.worker import FAILED, GRACE_SECONDS, STOPPED, one_line

RETRIES = 3  # of a run that was lost, since its newest checkpoint
LOST = {  # Ray's error: what became of the place
    "WorkerCrashedError": "its Ray worker died",
    "NodeDiedError": "its node died",
    "OutOfMemoryError": "its node had no memory left",
}


def run_ray(
    jobs: Sequence[Job],
    root: Path,
    workers: int | None,
    tick: Callable[[], None] = lambda: None,
    checkpoint_seconds: float | None = None,
    address: str | None = None,
) -> Errors:
    """Do all jobs that are not finished, as many at once as the cluster has room for.

    root     on a file system that all nodes see under the same path
    workers  not more at once than this
    address  of a cluster that runs, see `RaySession`
    """
    runner = _Tasks(root.absolute(), checkpoint_seconds, RaySession(address))
    # A thread of Ray writes to stdout, which belongs to results.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        return run_all(jobs, root, runner, workers, tick, RETRIES, _say)


class _Tasks:
    """A runner: each try is a task of Ray. Ray is begun with the first of them."""

    def __init__(self, root: Path, checkpoint_seconds: float | None, session: RaySession) -> None:
        self._root, self._every, self._session = root, checkpoint_seconds, session
        self._running: dict[Any, Path] = {}  # Ray's reference of the task: run folder
        self._cwd = Path.cwd()  # a job may name files
        self._known: set[Resources] = set()  # those that were looked for

    def start(self, folder: Path, job: Job) -> None:
        ray = self._session.ray()
        if job.resources not in self._known and (missing := self._session.missing(job.resources)):
            _say(missing)
        self._known.add(job.resources)
        task = ray.remote(do).options(
            num_cpus=job.resources.cpus,
            num_gpus=job.resources.gpus,
            max_retries=0,
            name=f"{job.label or job.task.algo} on {job.task.env}, seed {job.seed}",
        )
        begun = task.remote(job.to_json(), str(self._root), self._every, str(self._cwd))
        self._running[begun] = folder

    def ended(self) -> list[tuple[Path, Ended]]:
        if not self._running:
            return []
        ray, begun = self._session.ray(), list(self._running)
        over, _ = ray.wait(begun, num_returns=len(begun), timeout=0)
        return [(self._running.pop(task), _outcome(ray, task)) for task in over]

    def stop(self) -> None:
        try:
            if self._running:
                ray, begun = self._session.ray(), list(self._running)
                for task in begun:
                    ray.cancel(task)
                ray.wait(begun, num_returns=len(begun), timeout=GRACE_SECONDS)
        finally:
            self._running.clear()
            self._session.close()


def do(job: Mapping[str, Any], root: str, every: float | None, cwd: str) -> tuple[int | None, str]:
    """The task: the job in a process of its own; its exit code and its last line."""
    here = Path(cwd) if Path(cwd).is_dir() else None
    worker = WorkerProcess(job, Path(root), every, here)
    try:
        while (ended := worker.ended()) is None:
            time.sleep(LOOK_SECONDS)  # not longer: Ray interrupts between two steps of Python
        return ended.code, ended.said
    except BaseException:  # cancelled, or Ray's worker must end
        worker.let_go()
        worker.wait(GRACE_SECONDS)
        raise


def _outcome(ray: Any, task: Any) -> Ended:
    """What became of a task that is over."""
    errors = ray.exceptions
    try:
        return Ended(*ray.get(task))
    except errors.TaskCancelledError:
        return Ended(STOPPED)
    except errors.RayTaskError as error:  # an error of `do`, which another try would repeat
        return Ended(FAILED, one_line(error.cause))
    except errors.RayError as error:
        kind = type(error).__name__
        return Ended(None, LOST.get(kind, f"Ray lost it ({kind})"))


def _say(line: str) -> None:
    print(line, file=sys.stderr)
