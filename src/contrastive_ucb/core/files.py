"""Atomic files and folders, also if the machine stops while they are written.

They are written under a name with a leading dot, synced, and renamed.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


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
    except BaseException:
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


def sync_to_disk(path: Path) -> None:
    """Wait until the file or folder is on the disk, so that a rename follows its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
