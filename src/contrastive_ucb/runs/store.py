"""RunFolder: the folder of one run. One process at a time writes to it.

Everything that is read again has a checksum. Folders of earlier versions have fewer of them, and
are read unverified.

spec.json         the specification        metrics.jsonl   measured values
checkpoints/      states to resume from    tensorboard/    the same values for TensorBoard
versions.json     package versions of the process that finished the run
DONE              the summary, and marks of the files that belong to it; exists if and only if the
                  run is finished
FAILED            why the last attempt failed; removed when the next one begins
log.txt           the output of all attempts of a worker
.lock             held by the process that writes to the folder
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from contrastive_ucb.core.checkpoint import (
    CheckpointError,
    finished_steps,
    latest_checkpoint,
    load_checkpoint,
)
from contrastive_ucb.core.errors import DamageError, UserError
from contrastive_ucb.core.files import FULL as FULL
from contrastive_ucb.core.files import (
    START_AGAIN,
    check_mark,
    checksum,
    refuse_links,
    remove_drafts,
    sealed,
    unsealed,
    write_atomically,
    write_errors,
)
from contrastive_ucb.core.files import remedy_of as remedy_of
from contrastive_ucb.core.runtime import versions
from contrastive_ucb.runs.spec import Kind, RunSpec

KEPT = 2  # checkpoints per run: if the newest is damaged, the one before it can be used
LOCK_SECONDS = 0.5  # how long to wait for a lock; readers hold it for much less
VERSIONS = "versions.json"
FAILED, LOG = "FAILED", "log.txt"
METRICS, EVALUATIONS = "metrics.jsonl", "eval.jsonl"
COVERS = "covers"  # the entry of DONE with the identity of the run and the marks of its files
SPEC_REMEDY = "remove it, and DONE if it exists, and repeat the run's command"
DONE_REMEDY = "remove DONE and repeat the run's command"


class RunBusyError(UserError):
    """Another process works in the run folder."""


class RunFolder:
    """The folder of `spec` under `root`. Writing requires `with`, reading does not."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        self.spec = spec
        self.path = spec.folder(root)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / METRICS
        self.tensorboard = self.path / "tensorboard"
        self._done = self.path / "DONE"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        with write_errors(self.path), ExitStack() as undo:
            refuse_links(self.path)
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
            remove_drafts(self.path)
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

    @property
    def owner(self) -> dict[str, Any]:
        """What the checkpoints and the summary of this run contain to be told from others."""
        return owner_of(self.spec)

    def repair(
        self, say: Callable[[str], None], check: Callable[[Any], None] = lambda state: None
    ) -> None:
        """Verify the newest checkpoint; if it is damaged, rename it to use the one before it.

        check   raises an error if the files to which the state refers are damaged
        """
        damaged: dict[Path, DamageError] = {}
        for step in reversed(finished_steps(self.checkpoints)):
            path = self.checkpoints / f"step_{step}"
            try:
                with checkpoint_errors(path):
                    state = load_checkpoint(path, self.owner)
                    check_mark(self.metrics, state["metrics"])
                    if "evaluations" in state:
                        check_mark(self.path / EVALUATIONS, state["evaluations"])
                    check(state)
            except DamageError as error:
                damaged[path] = error
                continue
            for other, why in damaged.items():
                aside = other.with_name(f"damaged_{other.name}")
                shutil.rmtree(aside, ignore_errors=True)
                other.rename(aside)
                say(f"{why.problem}; continuing from {path.name} instead")
            return
        if damaged:
            first = next(iter(damaged.values()))
            raise CheckpointError(
                f"{first.problem}, and there is no older checkpoint that fits",
                f"remove the run folder {self.path} and repeat the command to start again",
            )

    def finish(
        self, summary: Mapping[str, Any], marks: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Write the summary, which marks the run as finished.

        marks   of the files that belong to the summary, by name
        """
        used = (json.dumps(versions(), indent=2) + "\n").encode()
        files = {**(marks or {}), VERSIONS: {"offset": len(used), "sha256": checksum(used)}}
        content = sealed({**summary, COVERS: {**self.owner, "files": files}})
        with write_errors(self.path):
            text = json.dumps(content, indent=2, allow_nan=False)
            write_atomically(self.path / VERSIONS, used)
            write_atomically(self._done, text + "\n")

    def summary(self, *required: str) -> dict[str, Any]:
        """The summary of the finished run and its folder; a missing field is an error."""
        if not self.finished:
            raise UserError(f"{self.path} is not finished; repeat its command to continue it")
        self._claim()
        summary = read_done(self.path, self.spec)
        if missing := set(required) - summary.keys():
            raise UserError(
                f"{self._done} has no {min(missing)!r}; remove it and repeat the command"
            )
        return {**summary, "run_dir": str(self.path)}

    def _claim(self) -> None:
        """Write spec.json into a new folder; in an existing one it must describe this run."""
        file, wanted = self.path / "spec.json", self.spec.to_json()
        if not file.exists():
            write_atomically(file, json.dumps(sealed(wanted), indent=2) + "\n")
            return
        stored = read_spec(self.path).to_json()
        # Different inputs, such as a default that was given, may resolve to the same run.
        keys = sorted((wanted.keys() | stored.keys()) - {"inputs"})
        if differ := [key for key in keys if stored.get(key) != wanted.get(key)]:
            raise UserError(
                f"{file} belongs to another run ({', '.join(differ)} differ);"
                f" move {self.path} elsewhere or pass --out FOLDER to write elsewhere"
            )


def owner_of(spec: RunSpec) -> dict[str, Any]:
    """What identifies a run: the hash of its specification without the seed, and the seed."""
    return {"spec": spec.identity(), "seed": spec.seed}


def read_spec(folder: Path) -> RunSpec:
    """The specification of the run in this folder, verified; a damaged file is an error."""
    refuse_links(folder)
    file = folder / "spec.json"
    content = read_object(file, SPEC_REMEDY)
    try:
        spec = RunSpec(**content)
    except (TypeError, ValueError) as error:
        raise DamageError(f"{file} is damaged ({error})", SPEC_REMEDY) from error
    if re.fullmatch("seed_[0-9]+", folder.name) and folder.name != f"seed_{spec.seed}":
        remedy = f"rename the folder to seed_{spec.seed}, or remove it and repeat the run's command"
        raise DamageError(f"{file} describes the run of seed {spec.seed}", remedy)
    return spec


def read_done(folder: Path, spec: RunSpec) -> dict[str, Any]:
    """The summary of a finished run, verified together with the files that belong to it."""
    done = folder / "DONE"
    raw = read_object(done, DONE_REMEDY, sealed_by=COVERS)
    covers = raw.pop(COVERS, None)
    if covers is not None:
        if {key: covers.get(key) for key in ("spec", "seed")} != owner_of(spec):
            raise DamageError(f"{done} belongs to another run", DONE_REMEDY)
        for name, mark in covers["files"].items():
            check_mark(folder / name, mark, DONE_REMEDY, whole=True)
    return raw


def find_run(path: Path, *kinds: Kind) -> tuple[Path, RunSpec]:
    """The only run of these commands in or below the folder `path`, and its specification."""
    if not path.is_dir():
        raise UserError(f"there is no folder {path}; name a run folder or the --out of its command")
    files = [file for file in sorted(path.rglob("spec.json")) if not _is_foreign(file)]
    specs = {file.parent: read_spec(file.parent) for file in files}
    runs = [folder for folder, spec in specs.items() if spec.kind in kinds]
    if not runs:
        names = " or ".join(f"'cucb {kind}'" for kind in kinds)
        raise UserError(f"there is no run of {names} in {path}; name the --out of such a command")
    if len(runs) > 1:
        some = ", ".join(map(str, runs[:3]))
        raise UserError(f"there are {len(runs)} runs in {path}; name one of them, such as {some}")
    return runs[0], specs[runs[0]]


def _is_foreign(spec: Path) -> bool:
    """Whether another program wrote this spec.json."""
    try:
        content = json.loads(spec.read_bytes())
    except (OSError, ValueError):  # damaged
        return False
    return isinstance(content, dict) and not content.keys() & {"suite", "sha256"}


class Failure(NamedTuple):
    """The content of FAILED."""

    error: str
    log: str | None


def mark_failed(folder: Path, error: str) -> None:
    """Write FAILED, if the folder is writable and not a link."""
    if folder.is_symlink():
        return
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
def checkpoint_errors(checkpoint: Path, remedy: str = START_AGAIN) -> Iterator[None]:
    """Report a checkpoint that does not fit, such as one of another version, in one line."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        problem = f"{checkpoint} does not fit this version ({what})"
        raise CheckpointError(problem, remedy) from error


@contextmanager
def newest_checkpoint(run_dir: Path, spec: RunSpec) -> Iterator[dict[str, Any]]:
    """The state in the newest checkpoint of a run, to be loaded within the context."""
    newest = latest_checkpoint(run_dir / "checkpoints")
    if newest is None:
        raise UserError(f"{run_dir} has no checkpoint yet; repeat its command")
    with checkpoint_errors(newest):
        yield load_checkpoint(newest, owner_of(spec))


def read_object(path: Path, remedy: str, sealed_by: str | None = None) -> dict[str, Any]:
    """The JSON object in the file without its checksum; a damaged file is an error.

    sealed_by   an entry that only objects with a checksum have
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DamageError(f"{path} cannot be read ({error.strerror})", remedy) from error
    except ValueError as error:
        raise DamageError(f"{path} is damaged (not valid JSON)", remedy) from error
    if not isinstance(raw, dict):
        raise DamageError(f"{path} is damaged (no JSON object)", remedy)
    content = unsealed(raw)
    if content is None or (sealed_by in raw and "sha256" not in raw):
        raise DamageError(f"{path} is damaged (checksum differs)", remedy)
    return content
