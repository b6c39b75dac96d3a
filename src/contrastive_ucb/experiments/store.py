"""RunFolder: the place of one run on the disk, used by one process at a time.

spec.json         what the run is           metrics.jsonl   what was measured
checkpoints/      where it can go on        tensorboard/    the same for TensorBoard
versions.json     the versions of the packages that finished it
DONE              the summary; there when the run is finished, and only then
.lock             held by the process that works here
"""

import errno
import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.core.versions import versions
from contrastive_ucb.experiments.spec import RunSpec, plain_json

FULL = (errno.ENOSPC, errno.EDQUOT)  # of a disk, or of one's share of it
LOCK_SECONDS = 0.5  # to wait for a lock; those who only look hold it for much less
VERSIONS = "versions.json"  # of the packages that finished the run


class RunBusyError(UserError):
    """Another process works in the run folder."""


class RunFolder:
    """The folder of `spec` under `root`; open it (`with`) to write, reading needs no opening."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        self.spec = spec
        self.path = spec.folder(root)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self._done = self.path / "DONE"
        self._spec_file = self.path / "spec.json"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        with self._explained_errors():
            self.path.mkdir(parents=True, exist_ok=True)
            self._acquire_lock()
            try:
                self._claim()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes in; the lock also goes when the process dies."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def finished(self) -> bool:
        return self._done.exists()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Mark the run as finished with its summary; this happens once."""
        if self._lock is None:
            raise RuntimeError(
                f"{self.path} is not open; call finish() inside `with RunFolder(...)`"
            )
        if self.finished:
            raise RuntimeError(f"{self.path} is finished already; check `finished` before a run")
        with self._explained_errors():
            content = _to_text(plain_json(summary, "summary"))
            write_atomically(self.path / VERSIONS, _to_text(versions()))
            write_atomically(self._done, content)

    def summary(self) -> dict[str, Any]:
        """The summary that the run was finished with."""
        if not self.finished:
            raise UserError(f"{self.path} is not finished; run its command again to continue it")
        return _read_object(self._done, f"remove {self._done} and run again to finish it anew")

    def _acquire_lock(self) -> None:
        if self._lock is not None:
            raise RuntimeError(f"{self.path} is open already")
        lock = (self.path / ".lock").open("a")
        until = time.monotonic() + LOCK_SECONDS
        while not _locked(lock):
            if time.monotonic() >= until:
                lock.close()
                raise RunBusyError(
                    f"run folder {self.path} is in use by another process;"
                    " wait until that run ends, or pass --out FOLDER to write elsewhere"
                )
            time.sleep(LOCK_SECONDS / 50)
        self._lock = lock

    def _claim(self) -> None:
        """Write spec.json into a new folder; in an old one it must be that of this run."""
        if not self._spec_file.exists():
            write_atomically(self._spec_file, _to_text(self.spec.to_json()))
            return
        anew = "remove it, and the next try writes it anew"
        found, wanted = _read_object(self._spec_file, anew), self.spec.to_json()
        if found != wanted:
            names = [key for key in sorted(wanted | found) if found.get(key) != wanted.get(key)]
            raise UserError(
                f"{self._spec_file} belongs to another run ({', '.join(names)} differ);"
                f" move {self.path} elsewhere or pass --out FOLDER to write elsewhere"
            )

    @contextmanager
    def _explained_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write to run folder {self.path} ({error.strerror}); {way_out_of(error)}"
            ) from error


def way_out_of(error: OSError) -> str:
    """What to do where a folder of runs cannot be written to."""
    if error.errno in FULL:
        return "make room on the disk and repeat the command, which goes on from what is saved"
    return "pass --out FOLDER with a folder that can be written to"


def _locked(lock: IO[str]) -> bool:
    """Lock the file, unless somebody else has."""
    try:
        # A lock of the kernel, not the mere presence of a file: it never outlives its owner.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _to_text(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _read_object(path: Path, way_out: str) -> dict[str, Any]:
    """The JSON object in the file, or one line on what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {way_out}") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged (not valid JSON); {way_out}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged (no JSON object); {way_out}")
    return content
