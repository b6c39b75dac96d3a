"""The output file of --out: checked before any work, with errors of one line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import draft_of
from contrastive_ucb.runs.store import FULL


def check_file(out: Path, endings: Sequence[str]) -> None:
    """Raise an error if the file has an unknown ending or cannot be written."""
    if out.suffix not in endings:
        raise UserError(f"--out {out} must end in one of {' '.join(endings)}")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} for --out; make it first")
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file")
    draft = draft_of(out)
    with explained(out):  # by trying, because permissions do not show read-only file systems
        draft.touch()
        draft.unlink()


@contextmanager
def explained(out: Path) -> Iterator[None]:
    """Report errors while `out` is written in one line with a remedy."""
    try:
        yield
    except OSError as error:
        remedy = "name a file in a writable folder with --out"
        if error.errno in FULL:
            remedy = "free some disk space, or name a file on another disk with --out"
        raise UserError(f"cannot write {out} ({error.strerror}); {remedy}") from error


def print_problems(problems: Iterable[str]) -> None:
    """Print a line on stderr for each run that could not be read."""
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
