"""The file of --out: looked at before any work, and written with errors that people understand."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import draft_of
from contrastive_ucb.runs.store import FULL

if TYPE_CHECKING:
    from contrastive_ucb.report.read import Damage


def check_file(out: Path, endings: Sequence[str]) -> None:
    """Stop before any work if the file cannot be written or has no ending that is known."""
    if out.suffix not in endings:
        raise UserError(f"--out {out} must end in one of {' '.join(endings)}")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} for --out; make it first")
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file")
    draft = draft_of(out)
    with explained(out):  # by trying: permissions do not tell of file systems without writing
        draft.touch()
        draft.unlink()


@contextmanager
def explained(out: Path) -> Iterator[None]:
    """Errors of the disk while `out` is written, as one line with a way out."""
    try:
        yield
    except OSError as error:
        way_out = "name a file with --out in a folder that can be written to"
        if error.errno in FULL:
            way_out = "make room on the disk, or name a file with --out on another one"
        raise UserError(f"cannot write {out} ({error.strerror}); {way_out}") from error


def say_damage(damaged: Iterable[Damage]) -> None:
    """A line on stderr for each run that could not be read."""
    for one in damaged:
        print(f"left out: {one.problem}", file=sys.stderr)
