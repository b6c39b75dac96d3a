"""Reading options into frozen dataclasses with tyro, with errors of one line."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from contrastive_ucb.core.errors import UserError

T = TypeVar("T")


def parse(kind: type[T], arguments: Sequence[str], prog: str, default: T) -> T:
    """The options as a `kind`; unknown or wrong ones raise an error, --help prints and exits."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                kind,
                args=list(arguments),
                prog=prog,
                default=default,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(f"{_one_line(said.getvalue())} (see '{prog} --help')") from None


def run_and_rest(arguments: Sequence[str], help_text: str) -> tuple[str, list[str]] | None:
    """The run that is named first and the options after it; None: the help was asked for."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text, end="")
        return None
    if arguments[0].startswith("-"):
        raise ValueError(f"name a run before {arguments[0]}, such as runs/breakout")
    return arguments[0], list(arguments[1:])


def emit(summary: dict[str, Any], as_json: bool, text: str) -> None:
    """The result: text for people, and with --json one object as the last line of stdout."""
    if text:
        print(text)
    if as_json:
        print(json.dumps(summary, allow_nan=False))
    sys.stdout.flush()


def _one_line(boxed: str) -> str:
    """What tyro says, without the frame around it and the help it repeats."""
    _title, _, body = boxed.partition("\n")
    said = re.split("Argument helptext|For full helptext", re.sub(r"[╭╮╰╯─│]", " ", body))[0]
    # Options are named with dashes; a name without them is one of our own groups.
    return re.sub(r"^Error parsing [^-\s]\S*: ", "", " ".join(said.split())).rstrip(".")
