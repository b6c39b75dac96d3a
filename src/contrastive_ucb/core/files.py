"""Atomic files and folders with checksums, also if the machine stops while they are written.

They are written under a name with a leading dot, synced, and renamed. A JSON object contains its
own SHA-256 (`sealed`). Of a file that grows, a mark (`mark_of`) stores the length and SHA-256.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from contrastive_ucb.core.errors import DamageError, UserError

if TYPE_CHECKING:
    from hashlib import _Hash

FULL = (errno.ENOSPC, errno.EDQUOT)  # disk full or quota exceeded
DRAFT = re.compile(r"\..+\.([0-9a-f]{32}|old)")  # names of unfinished or half removed files
START_AGAIN = "remove the run folder to start again"


@contextmanager
def draft(path: Path, ending: str = "") -> Iterator[Path]:
    """The name of a new file or folder, which is renamed to `path` at the end of the context.

    ending  of the draft of a file, for libraries that choose the format by it
    """
    new = path.with_name(f".{path.name}.{uuid4().hex}{ending}")
    try:
        yield new
        for part in [*new.rglob("*"), new]:
            sync_to_disk(part)
        new.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)
        if new.is_dir():
            shutil.rmtree(new, ignore_errors=True)
        else:
            new.unlink(missing_ok=True)
        raise
    sync_to_disk(path.parent)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write `content` to the file `path`; readers see the old file or the new one."""
    with draft(path) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes left in the folder; only the process that writes to it may."""
    for path in [path for path in folder.rglob(".*") if DRAFT.fullmatch(path.name)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Wait until the file or folder is on the disk, so that a rename follows its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Checksums


def checksum(data: bytes) -> str:
    """The SHA-256 of the data."""
    return sha256(data).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object with its checksum, which does not depend on white space."""
    return {**content, "sha256": checksum(json.dumps(content, separators=(",", ":")).encode())}


def unsealed(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The object without its checksum; None if it was changed.

    Objects of earlier versions have no checksum and are returned unverified.
    """
    plain = {key: value for key, value in content.items() if key != "sha256"}
    return plain if content in (plain, sealed(plain)) else None


def mark_of(running: _Hash, length: int) -> dict[str, Any]:
    """The mark of the first `length` bytes of a file, from their running SHA-256."""
    return {"offset": length, "sha256": running.hexdigest()}


def check_mark(
    path: Path, mark: Mapping[str, Any], remedy: str = START_AGAIN, whole: bool = False
) -> _Hash:
    """The running SHA-256 of the marked part of a file; an error if it was changed.

    whole  whether the marked part must be the whole file
    """
    try:
        data = path.read_bytes() if mark["offset"] or path.exists() else b""
    except OSError as error:
        raise DamageError(f"{path} cannot be read ({error.strerror})", remedy) from error
    length = mark["offset"]
    if len(data) < length or (whole and len(data) > length):
        raise DamageError(f"{path} has {len(data)} bytes instead of {length}", remedy)
    running = sha256(memoryview(data)[:length])
    if mark.get("sha256", running.hexdigest()) != running.hexdigest():  # earlier versions: none
        raise DamageError(f"{path} was changed after it was written (checksum differs)", remedy)
    return running


# Errors


def remedy_of(error: OSError) -> str:
    """What to do if a folder of runs cannot be written to."""
    if error.errno in FULL:
        return "free some disk space and repeat the command, which resumes from what is saved"
    return "pass --out FOLDER with a writable folder"


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Report a failure to write to `path` in one line with the remedy."""
    try:
        yield
    except OSError as error:
        named = isinstance(error.filename, str) and not DRAFT.search(error.filename)
        place = error.filename if named else path
        problem = f"cannot write to {place} ({error.strerror or error})"
        raise UserError(f"{problem}; {remedy_of(error)}") from error


def refuse_links(folder: Path) -> None:
    """Raise an error if the folder is or contains a symbolic link, which may lead out of it."""
    inside = (Path(at, name) for at, *names in os.walk(folder) for name in (*names[0], *names[1]))
    for path in (folder, *inside):
        if path.is_symlink():
            raise UserError(
                f"{path} is a symbolic link to {os.readlink(path)}, and a run does not follow links"
                " within its folder; replace it by what it links to, or remove it"
            )
