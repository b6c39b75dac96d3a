"""RunFolder: the folder of one run. One process at a time writes to it.

spec.json         the specification        metrics.jsonl   measured values
checkpoints/      states to resume from    tensorboard/    the same values for TensorBoard
versions.json     package versions of the process that finished the run
DONE              the summary; exists if and only if the run is finished
FAILED            why the last attempt failed; removed when the next one begins
log.txt           the output of all attempts of a worker
.lock             held by the process that writes to the folder
"""

from __future__ import annotations

import errno
import fcntl
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from contrastive_ucb.core.checkpoint import CheckpointError, latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.core.runtime import versions
from contrastive_ucb.runs.spec import Kind, RunSpec, kind_of

KEPT = 2  # checkpoints per run: if the newest is damaged, the one before it can be used
FULL = (errno.ENOSPC, errno.EDQUOT)  # disk full or quota exceeded
LOCK_SECONDS = 0.5  # how long to wait for a lock; readers hold it for much less
VERSIONS = "versions.json"
FAILED, LOG = "FAILED", "log.txt"


class RunBusyError(UserError):
    """Another process works in the run folder."""


class RunFolder:
    """The folder of `spec` under `root`. Writing requires `with`, reading does not."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        self.spec = spec
        self.path = spec.folder(root)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self._done = self.path / "DONE"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        with self._one_line_errors(), ExitStack() as undo:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = undo.enter_context((self.path / ".lock").open("a"))
            until = time.monotonic() + LOCK_SECONDS
            while not _locks(lock, fcntl.LOCK_EX):
                if time.monotonic() >= until:
                    raise RunBusyError(
                        f"run folder {self.path} is in use by another process;"
                        " wait until that run ends, or pass --out FOLDER to write elsewhere"
                    )
                time.sleep(LOCK_SECONDS / 50)
            self._claim()
            undo.pop_all()
            self._lock = lock
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock; the kernel also releases it when the process dies."""
        if self._lock is not None:
            self._lock.close()

    @property
    def finished(self) -> bool:
        return self._done.exists()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which marks the run as finished."""
        with self._one_line_errors():
            content = json.dumps(summary, indent=2, allow_nan=False)
            write_atomically(self.path / VERSIONS, json.dumps(versions(), indent=2) + "\n")
            write_atomically(self._done, content + "\n")

    def summary(self, *required: str) -> dict[str, Any]:
        """The summary of the finished run and its folder; a missing field is an error."""
        if not self.finished:
            raise UserError(f"{self.path} is not finished; repeat its command to continue it")
        summary = read_object(self._done, f"remove {self._done} and repeat the command")
        if missing := set(required) - summary.keys():
            raise UserError(
                f"{self._done} has no {min(missing)!r}; remove it and repeat the command"
            )
        return {**summary, "run_dir": str(self.path)}

    def _claim(self) -> None:
        """Write spec.json into a new folder; in an existing one it must describe this run."""
        file, wanted = self.path / "spec.json", self.spec.to_json()
        if not file.exists():
            write_atomically(file, json.dumps(wanted, indent=2) + "\n")
            return
        stored = read_object(file, "remove it, and the next attempt writes it again")
        # Different inputs, such as a default that was given, may resolve to the same run.
        keys = sorted((wanted.keys() | stored.keys()) - {"inputs"})
        if differ := [key for key in keys if stored.get(key) != wanted.get(key)]:
            raise UserError(
                f"{file} belongs to another run ({', '.join(differ)} differ);"
                f" move {self.path} elsewhere or pass --out FOLDER to write elsewhere"
            )

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write to run folder {self.path} ({error.strerror}); {remedy_of(error)}"
            ) from error


def find_run(path: Path, *kinds: Kind) -> tuple[Path, RunSpec]:
    """The only run of these commands in or below the folder `path`, and its specification."""
    if not path.is_dir():
        raise UserError(f"there is no folder {path}; name a run folder or the --out of its command")
    files = sorted(path.rglob("spec.json"))
    specs = {file: read_object(file, "name another run") for file in files}
    runs = [file for file, spec in specs.items() if kind_of(spec.get("config")) in kinds]
    if not runs:
        names = " or ".join(f"'cucb {kind}'" for kind in kinds)
        raise UserError(f"there is no run of {names} in {path}; name the --out of such a command")
    if len(runs) > 1:
        some = ", ".join(str(file.parent) for file in runs[:3])
        raise UserError(f"there are {len(runs)} runs in {path}; name one of them, such as {some}")
    with checkpoint_errors(runs[0]):
        return runs[0].parent, RunSpec(**specs[runs[0]])


class Failure(NamedTuple):
    """The content of FAILED."""

    error: str
    log: str | None


def mark_failed(folder: Path, error: str) -> None:
    """Write FAILED, if the folder is writable."""
    note = {"error": error, "log": LOG}  # a relative path, so that the folder can be moved
    try:
        write_atomically(folder / FAILED, json.dumps(note) + "\n")
    except OSError:
        print(f"{folder / FAILED} cannot be written", file=sys.stderr)


def failure_of(folder: Path) -> Failure | None:
    """Why the last attempt failed; None if it did not."""
    try:
        note = json.loads((folder / FAILED).read_text(encoding="utf-8"))
        error, log = str(note["error"]), folder / (Path(note["log"]).name or LOG)
        return Failure(error, str(log) if log.is_file() else None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return Failure(f"{folder / FAILED} cannot be read", None)


def is_busy(folder: Path) -> bool:
    """Whether a process works in the run folder now."""
    try:
        with (folder / ".lock").open() as lock:
            # A shared lock for a moment does not disturb other readers.
            return not _locks(lock, fcntl.LOCK_SH)
    except OSError:  # no folder yet, or not readable
        return False


def _locks(file: IO[str], kind: int) -> bool:
    """Lock the file unless another process has locked it.

    The kernel releases a lock with its owner, so it never outlives a killed process.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def checkpoint_errors(
    checkpoint: Path, remedy: str = "remove the run folder to start again"
) -> Iterator[None]:
    """Report a checkpoint that does not fit, such as one of another version, in one line."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CheckpointError(
            f"{checkpoint} does not fit this version ({what}); {remedy}"
        ) from error


@contextmanager
def newest_checkpoint(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The state in the newest checkpoint of a run, to be loaded within the context."""
    newest = latest_checkpoint(run_dir / "checkpoints")
    if newest is None:
        raise UserError(f"{run_dir} has no checkpoint yet; repeat its command")
    with checkpoint_errors(newest):
        yield load_checkpoint(newest)


def remedy_of(error: OSError) -> str:
    """What to do if a folder of runs cannot be written to."""
    if error.errno in FULL:
        return "free some disk space and repeat the command, which resumes from what is saved"
    return "pass --out FOLDER with a writable folder"


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in the file; an error says what is wrong with it in one line."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged (not valid JSON); {remedy}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged (no JSON object); {remedy}")
    return content
