"""The process of worker.py, seen from whoever starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from contrastive_ucb.experiments.pool import Ended
from contrastive_ucb.experiments.worker import THREADS

WORKER = [sys.executable, "-m", "contrastive_ucb.experiments.worker"]


class WorkerProcess:
    """One job in a process with one thread, which saves and stops when its stdin is closed.

    It is in a session of its own, so that Ctrl-C comes to those who started it alone. The kernel
    closes its stdin when they are killed, so it never outlives them for long.

    job   as JSON values
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        root: Path,
        checkpoint_seconds: float | None,
        cwd: Path | None = None,
    ) -> None:
        # What asks for no GPU must not see any: which device it uses would depend on where it runs.
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
        with suppress(BrokenPipeError):  # it died; `ended` says of what
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()

    def ended(self) -> Ended | None:
        """How it ended, once it has."""
        code = self._process.poll()
        return None if code is None else Ended(code, self._last_words())

    def let_go(self) -> None:
        """Tell it to save and stop."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self, seconds: float | None = None) -> None:
        """Until it has ended, or so long."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """End it at once, if it has not ended; nothing is saved any more."""
        self._process.kill()
        self._process.wait()
        self._last_words()

    def _last_words(self) -> str:
        """The last line that it said before or after its log; its pipes are closed."""
        assert self._process.stderr
        with self._process.stderr:
            said = self._process.stderr.read().strip().splitlines()
        self.let_go()
        return said[-1] if said else ""
