"""Files and folders that appear whole or not at all, even when the machine stops half-way.

All functions write under a dot-name, sync, and rename: a name without a leading dot is finished.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4


def publish(folder: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Let `write` fill a draft folder, then give it its name in one step."""
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
    """Put `content` in the file `path`: readers see the old file or the new one, never a part."""
    data = content.encode() if isinstance(content, str) else content
    publish_file(path, lambda draft: draft.write_bytes(data))


def publish_file(path: Path, write: Callable[[Path], object], ending: str = "") -> None:
    """Let `write` fill a draft file, whose name has the `ending`, then make it the file `path`."""
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
    """A fresh dot-name beside `path`, on the same file system so that the rename is one step."""
    return path.with_name(f".{path.name}.{uuid4().hex}")


def sync_to_disk(path: Path) -> None:
    """Wait until the file or folder is on the disk; a rename must not overtake its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
