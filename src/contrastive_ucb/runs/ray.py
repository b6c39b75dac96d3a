"""The pool's backend for Ray, on this machine or on a running cluster.

A task starts the same worker process as the local backend and waits for it. The run is in that
process and not in Ray's own, so that

- it has the same threads and variables, hence the same bits, and leaves the same log and FAILED;
- it holds the lock of its folder as long as it lives, whatever happens to Ray;
- it is stopped in one way. Ray's worker holds its stdin: when the task is canceled, or the worker,
  its node or the sweep is killed, stdin is closed, and the run saves and stops.

Ray does not repeat tasks here. The pool tries a lost run again: it waits until its folder is free
and starts a task that resumes from the newest checkpoint.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.runtime import Stopped, set_signal_handlers, signal_handlers
from contrastive_ucb.runs import pool
from contrastive_ucb.runs.grid import Job, Resources
from contrastive_ucb.runs.worker import EXIT_FAILED, GRACE_SECONDS, one_line, say

RETRIES = 3  # of a lost run, since its newest checkpoint
CONNECT_SECONDS = 5  # for a connection to the port
ANSWER_SECONDS = 60  # for an answer of Ray
OPTIONS: dict[str, Any] = {
    "log_to_driver": False,
    "logging_level": "ERROR",
    # Ray's worker would kill its children when it ends; a run saves and ends by itself.
    "runtime_env": {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "0"}},
}
PRIVATE = {  # variables of a Ray that other users cannot reach
    # Despite its name this works on any system: listen on the loopback interface only.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Otherwise Ray would write a token to the user's home folder.
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",  # the same as local processes
}
TOKEN = uuid4().hex  # of every private Ray of this process, since Ray reads it only once
NODE_DIED = pool.Ended(None, "Ray's node on this machine died")
JOIN = "import sys, ray; ray.init(sys.argv[1], logging_level='ERROR'); ray.shutdown()"


def run_ray(
    jobs: Sequence[Job],
    root: Path,
    workers: int | None,
    tick: Callable[[], None] = lambda: None,
    checkpoint_seconds: float | None = None,
    address: str | None = None,
) -> pool.Errors:
    """Run all jobs that are not finished, as many at once as the cluster has resources for.

    root     on a file system that all nodes see under the same path
    workers  upper limit on attempts at once
    address  HOST:PORT of a cluster that this machine is a node of, or "auto", which finds it; by
             default Ray is started on this machine, for this process only
    """
    check_installed()
    backend = RayBackend(root.absolute(), checkpoint_seconds, address)
    # A thread of Ray writes to stdout, which is reserved for results.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        return pool.run_all(jobs, root, backend, workers, tick, RETRIES)


class RayBackend:
    """Attempts as tasks of Ray, which is started with the first of them."""

    def __init__(self, root: Path, checkpoint_seconds: float | None, address: str | None) -> None:
        self._root, self._every, self._address = root, checkpoint_seconds, address
        self._running: dict[Any, Path] = {}  # reference of the task: run folder
        self._known: set[Resources] = set()  # resources that were checked
        self._ray: Any = None
        self._files: str | None = None  # the folder of a private Ray

    def start(self, folder: Path, job: Job) -> None:
        if self._ray is None:
            self._connect()
        if job.resources not in self._known:
            self._check(job.resources)
        task = self._ray.remote(run_in_process).options(
            num_cpus=job.resources.cpus,
            num_gpus=job.resources.gpus,
            max_retries=0,
            name=f"{job.label or job.task.algo} on {job.task.env}, seed {job.seed}",
        )
        # A job may name files, so it needs the working folder.
        begun = task.remote(job.to_json(), str(self._root), self._every, str(Path.cwd()))
        self._running[begun] = folder

    def ended(self) -> list[tuple[Path, pool.Ended]]:
        if not self._running:
            return []
        begun = list(self._running)
        over, _ = self._ray.wait(begun, num_returns=len(begun), timeout=0)
        ended = [(self._running.pop(task), _outcome(self._ray, task)) for task in over]
        if any(how == NODE_DIED for _, how in ended):
            # All tasks of this connection fail from now on. The next attempt connects again, and
            # starts a new Ray unless it belongs to a cluster.
            ended += [(folder, NODE_DIED) for folder in self._running.values()]
            self._disconnect()
        return ended

    def stop(self) -> None:
        """Cancel the running tasks and disconnect; a private Ray ends and its files are removed."""
        try:
            if begun := list(self._running):
                for task in begun:
                    self._ray.cancel(task)
                self._ray.wait(begun, num_returns=len(begun), timeout=GRACE_SECONDS)
        finally:
            self._disconnect()

    def _disconnect(self) -> None:
        self._running.clear()
        self._known.clear()
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None
        if self._files is not None:
            shutil.rmtree(self._files, ignore_errors=True)
            self._files = None

    def _connect(self) -> None:
        """Join the cluster, or start a private Ray with all its files in one folder."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options = OPTIONS
        if self._address is None:
            os.environ |= {**PRIVATE, "RAY_AUTH_TOKEN": TOKEN}
            self._files = tempfile.mkdtemp(prefix="cucb-ray-")
            options = {**OPTIONS, "num_cpus": pool.cores(), "_temp_dir": self._files}
            # There are almost no objects here.
            options |= {"object_store_memory": 100_000_000, "include_dashboard": False}
        else:
            check_cluster(self._address)
        import ray  # takes a second, and reads the environment variables

        self._ray = ray  # from now on `stop` has something to close
        handlers = signal_handlers()
        try:
            ray.init(self._address or "local", **options)
        except Exception as error:
            message = f"Ray does not start ({one_line(error)}); use --backend local"
            raise UserError(message) from error
        except SystemExit as stop:  # of Ray's handler of SIGTERM
            raise Stopped(signal.SIGTERM) from stop
        finally:
            set_signal_handlers(handlers)

    def _check(self, wanted: Resources) -> None:
        """Print a line if no node has these resources now; an error if none can join."""
        self._known.add(wanted)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if any(n.get("CPU", 0) >= wanted.cpus and n.get("GPU", 0) >= wanted.gpus for n in nodes):
            return
        asked = f"a run asks for {wanted.cpus:g} cpus and {wanted.gpus:g} gpus, and"
        if self._address is None:
            there = " and ".join(f"{nodes[0].get(kind, 0):g}" for kind in ("CPU", "GPU"))
            raise UserError(f"{asked} there are {there} here; ask for less under [resources]")
        say(f"{asked} no node has them now; such runs wait for one")


def run_in_process(
    job: Mapping[str, Any], root: str, every: float | None, cwd: str
) -> tuple[int | None, str]:
    """The task: the job in its own process; returns its exit code and last line."""
    worker = pool.start_worker(job, Path(root), every, Path(cwd) if Path(cwd).is_dir() else None)
    try:
        while worker.poll() is None:
            time.sleep(
                pool.POLL_SECONDS
            )  # short, because Ray interrupts between Python instructions
        ended = pool.outcome(worker)
        return ended.code, ended.message
    except BaseException:  # canceled, or Ray's worker must end
        pool.let_go(worker)
        with suppress(subprocess.TimeoutExpired):
            worker.wait(GRACE_SECONDS)
        raise


def _outcome(ray: Any, task: Any) -> pool.Ended:
    """How a task ended."""
    errors = ray.exceptions
    try:
        return pool.Ended(*ray.get(task))
    except errors.TaskCancelledError:
        return pool.Ended(EXIT_FAILED, "the task was canceled; repeat the command to continue")
    except errors.LocalRayletDiedError:
        return NODE_DIED
    except errors.RayTaskError as error:  # an error of `run_in_process`, which would be repeated
        return pool.Ended(EXIT_FAILED, one_line(error.cause))
    except errors.RayError as error:  # such as WorkerCrashedError, NodeDiedError, OutOfMemoryError
        return pool.Ended(None, f"Ray lost it ({type(error).__name__})")


def check_installed() -> None:
    """Raise an error if Ray is not installed, without importing it."""
    if importlib.util.find_spec("ray") is None:
        raise UserError(
            "Ray is not installed; pip install 'contrastive-ucb[ray]', or use --backend local"
        )


def check_address(address: str) -> None:
    """Raise an error unless the address is "auto" or HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if address != "auto" and ("/" in host or not (host and colon and port.isdigit())):
        raise UserError(
            f"address must be HOST:PORT of the cluster's head, such as 10.0.0.1:6379, or auto,"
            f" got {address!r}"
        )


def check_cluster(address: str) -> None:
    """Raise an error unless there is a cluster that can be joined.

    Without one, Ray would wait for minutes, print messages and ignore Ctrl-C. So another process
    joins first, with a time limit.
    """
    remedy = "start one with ray start --head, or leave --address out for Ray on this machine"
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UserError(f"nothing answers at {address} ({error}); {remedy}") from error
    try:
        joined = subprocess.run(
            [sys.executable, "-c", JOIN, address],
            env={**os.environ, "RAY_gcs_server_port_wait_time_s": str(CONNECT_SECONDS)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"cannot join a Ray cluster at {address} (no answer in {ANSWER_SECONDS} s); {remedy}"
        ) from None
    if joined.returncode:
        if "AuthenticationError" in joined.stderr:
            remedy = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the values of the cluster"
        last = joined.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise UserError(f"cannot join a Ray cluster at {address} ({last[0]}); {remedy}")
