"""Atomic files and folders, also if the machine stops while they are written.

All functions write under a name with a leading dot, sync, and rename.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4


def publish(folder: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Let `write` fill a draft folder, then rename it to `name`."""
    final, draft = folder / name, draft_of(folder / name)
    draft.mkdir(parents=True)
    try:
        write(draft)
        for path in [*draft.rglob("*"), draft]:
            sync_to_disk(path)
        draft.rename(final)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_to_disk(folder)
    return final


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write `content` to the file `path`; readers see the old file or the new one."""
    data = content.encode() if isinstance(content, str) else content
    publish_file(path, lambda draft: draft.write_bytes(data))


def publish_file(path: Path, write: Callable[[Path], object], ending: str = "") -> None:
    """Let `write` fill a draft file with this `ending`, then rename it to `path`."""
    draft = draft_of(path)
    draft = draft.with_name(draft.name + ending)
    try:
        write(draft)
        sync_to_disk(draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_to_disk(path.parent)


def draft_of(path: Path) -> Path:
    """A new name with a leading dot in the folder of `path`, so that the rename is atomic."""
    return path.with_name(f".{path.name}.{uuid4().hex}")


def sync_to_disk(path: Path) -> None:
    """Wait until the file or folder is on the disk, so that a rename follows its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
