"""A Ray cluster of two nodes on this machine. Its processes are found by their ancestors."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

RAY = [sys.executable, "-m", "ray.scripts.scripts", "start"]
PATIENCE = 300  # seconds; on a busy machine Ray takes its time
# Ray finds out about dead nodes after seconds instead of half a minute.
WATCHFUL = {
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Cluster:
    """A head and a second node with one processor each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free_port()
        self.address = f"127.0.0.1:{self.port}"
        # A token of its own: the ports of a cluster are open to the network.
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid4().hex}
        self.env = {**os.environ, **WATCHFUL, **token}
        options = [f"--temp-dir={folder}", "--include-dashboard=false"]
        options += [f"--ray-client-server-port={_free_port()}"]
        self.head = self._start("head", "--head", f"--port={self.port}", *options)
        wait(lambda: _answers(self.port), lambda: self.head.poll() is None)
        self.second = self._start("second", f"--address={self.address}")

    def kill_second_node(self) -> None:
        """Nothing that runs on it can report or save anything, as after a loss of power."""
        for pid in [self.second.pid, *descendants(self.second.pid)]:
            _kill(pid)
        self.second.wait()

    def stop(self) -> None:
        for node in (self.second, self.head):
            node.terminate()
        for node in (self.second, self.head):
            with suppress(subprocess.TimeoutExpired):
                node.wait(30)
            for pid in psutil.pids():
                if _session(pid) == node.pid:
                    _kill(pid)
            node.wait()

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        own = ["--num-cpus=1", "--object-store-memory=100000000", "--dashboard-agent-listen-port=0"]
        with (self.folder / f"{name}.txt").open("wb") as said:
            return subprocess.Popen(
                [*RAY, *words, *own, "--block"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )


@contextmanager
def two_nodes() -> Iterator[Cluster]:
    """Sockets have short names, so their folder is not that of the test."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        try:
            yield cluster
        finally:
            cluster.stop()


def wait(until: Callable[[], Any], alive: Callable[[], bool] = lambda: True) -> Any:
    """The first true result of `until`."""
    patience = time.monotonic() + PATIENCE
    while not (found := until()):
        assert time.monotonic() < patience, "waited too long"
        assert alive(), "it ended meanwhile"
        time.sleep(0.02)
    return found


def workers_of(folder: Path) -> list[int]:
    """The processes that work on a run below the folder, wherever they were started."""
    words = ["contrastive_ucb.runs.worker", str(folder)]
    processes = psutil.process_iter(["cmdline"])
    return [one.pid for one in processes if (one.info["cmdline"] or [])[2:4] == words]


def run_of(worker: int) -> Path | None:
    """The run folder whose lock the process holds."""
    with suppress(psutil.Error):
        held = [Path(file.path) for file in psutil.Process(worker).open_files()]
        return next((path.parent for path in held if path.name == ".lock"), None)
    return None


def listening(pids: list[int]) -> set[str]:
    """The addresses at which the processes wait for connections."""
    found = set()
    for pid in pids:
        with suppress(psutil.Error):
            connections = psutil.Process(pid).net_connections("inet")
            found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    return found


def parent(pid: int) -> int:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("", 0))
        return int(taken.getsockname()[1])
