"""RaySession: the connection to Ray, on this machine or to a cluster that runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from typing import Any
from uuid import uuid4

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.local import cores
from contrastive_ucb.experiments.resources import Resources
from contrastive_ucb.experiments.worker import one_line

INSTALL = "pip install 'contrastive-ucb[ray]'"
CONNECT_SECONDS = 5  # for the port to be there
ANSWER_SECONDS = 60  # for Ray to answer there
STORE_BYTES = 100_000_000  # for Ray's objects, of which there are almost none here
# What there is to see is the table.
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
# Ray's worker would kill its children at its end; a run ends by itself, and saves before.
WORKERS = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "0"}}
JOIN = "import sys, ray; ray.init(sys.argv[1], logging_level='ERROR'); ray.shutdown()"


def check_installed() -> None:
    """Stop where there is no Ray; it is not imported."""
    if importlib.util.find_spec("ray") is None:
        raise UserError(f"Ray is not installed; {INSTALL}, or use --backend local")


def check_address(address: str) -> None:
    """Stop unless it is "auto", or HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if address != "auto" and ("/" in host or not (host and colon and port.isdigit())):
        raise UserError(
            f"address must be HOST:PORT of the cluster's head, such as 10.0.0.1:6379, or auto,"
            f" got {address!r}"
        )


class RaySession:
    """Starts Ray, or joins a cluster, when it is first asked for.

    address   None: Ray on this machine, for us alone, which ends with `close`
              HOST:PORT of a cluster that this machine is a node of, or "auto", which finds it
    """

    def __init__(self, address: str | None = None) -> None:
        check_installed()
        self._address = address
        self._ray: Any = None
        self._files = ""  # the folder of a Ray of our own

    def ray(self) -> Any:
        """The module `ray`, connected."""
        if self._ray is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            if self._address is None:
                self._connect("local", **self._alone())
            else:
                _check_cluster(self._address)
                self._connect(self._address)
        return self._ray

    def missing(self, wanted: Resources) -> str | None:
        """What to say where no node has room for such a run; an error where none can join."""
        nodes = [node["Resources"] for node in self.ray().nodes() if node["Alive"]]
        if any(_has_room(node, wanted) for node in nodes):
            return None
        asked = f"a run asks for {wanted.cpus:g} cpus and {wanted.gpus:g} gpus, and"
        if self._address is not None:
            return f"{asked} no node has them now; such runs wait for one"
        there = " and ".join(f"{nodes[0].get(kind, 0):g}" for kind in ("CPU", "GPU"))
        raise UserError(f"{asked} there are {there} here; ask for less under [resources]")

    def close(self) -> None:
        """Leave the cluster; a Ray of our own ends, and nothing is left of it."""
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None
        if self._files:
            shutil.rmtree(self._files, ignore_errors=True)
            self._files = ""

    def _alone(self) -> dict[str, Any]:
        """Options of a Ray that nobody else can reach, and that writes in one folder only."""
        os.environ |= {
            # Despite its name this says on any system: listen on the loopback interface alone.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            # Else Ray would leave a token in the home of the user.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": uuid4().hex,
            "RAY_worker_niceness": "0",  # as processes of our own would have
        }
        self._files = tempfile.mkdtemp(prefix="cucb-ray-")
        own = {"num_cpus": cores(), "object_store_memory": STORE_BYTES, "_temp_dir": self._files}
        return {**own, "include_dashboard": False}

    def _connect(self, address: str, **options: Any) -> None:
        import ray  # takes a second, and reads the variables

        self._ray = ray  # from now on there is something to close
        try:
            ray.init(address, runtime_env=WORKERS, **QUIET, **options)
        except Exception as error:
            said = f"Ray does not start ({one_line(error)}); use --backend local"
            raise UserError(said) from error


def _check_cluster(address: str) -> None:
    """Stop unless there is a cluster that can be joined.

    Where there is none, Ray would wait for minutes, talk, and not listen to Ctrl-C. So a process of
    its own is the first to join, and is not waited for so long.
    """
    check_address(address)
    way_out = "start one with ray start --head, or leave --address out for Ray on this machine"
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UserError(f"nothing answers at {address} ({error}); {way_out}") from error
    if (said := _why_not(address)) is not None:
        if "AuthenticationError" in said:
            way_out = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to what the cluster has"
        last = said.strip().splitlines()[-1:] or ["it does not say why"]
        raise UserError(f"no Ray cluster can be joined at {address} ({last[0]}); {way_out}")


def _why_not(address: str) -> str | None:
    """What a process says that cannot join the cluster; None: it can."""
    impatient = {"RAY_gcs_server_port_wait_time_s": str(CONNECT_SECONDS)}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", JOIN, address],
            env={**os.environ, **impatient},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {ANSWER_SECONDS} s"
    return tried.stderr if tried.returncode else None


def _has_room(node: dict[str, float], wanted: Resources) -> bool:
    return node.get("CPU", 0) >= wanted.cpus and node.get("GPU", 0) >= wanted.gpus
