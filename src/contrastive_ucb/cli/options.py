"""Options as frozen dataclasses, parsed with tyro, and the output of results."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from inspect import getdoc
from typing import IO, Annotated, Any, TypeVar, cast

import tyro

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError

T = TypeVar("T")
# Options that several commands share.
Threads = Annotated[
    int | None,
    tyro.conf.arg(help="Threads of torch; by default 2 for large images (Atari), otherwise 1."),
]
Json = Annotated[
    bool,
    tyro.conf.arg(help="Print the result as one JSON object on stdout, everything else on stderr."),
]
_json_output: list[IO[str]] = []  # the stdout of a command with --json


def parse(
    kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None, more: str = ""
) -> T:
    """The arguments as a `kind`; wrong ones are an error of one line, --help prints and exits.

    Without arguments, the help is printed if the command needs some.

    more   follows the docstring of `kind` in the help
    """
    needed = [field for field in fields(cast(Any, kind)) if field.default is MISSING]
    if needed and default is None and not arguments:
        arguments = ["--help"]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(
                kind,
                args=list(arguments),
                prog=prog,
                description="\n\n".join(filter(None, (getdoc(kind), more))),
                default=tyro.MISSING_NONPROP if default is None else default,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(f"{_one_line(printed.getvalue())} (see '{prog} --help')") from None


def check_counts(options: object, *names: str, least: int = 1) -> None:
    """Raise an error if an option that was given is not an integer of at least `least`."""
    for name in names:
        if getattr(options, name) is not None:
            check_size(name, getattr(options, name), least)


def check_seconds(seconds: float | None) -> None:
    """Raise an error if the time between checkpoints is negative or NaN."""
    if seconds is not None and not seconds >= 0:
        raise UserError(f"checkpoint_seconds must be at least 0, got {seconds}")


def check_fraction(name: str, value: float | None) -> None:
    """Raise an error if a given number is not in [0, 1]."""
    if value is not None and not 0 <= value <= 1:
        raise UserError(f"{name} must be in [0, 1], got {value}")


def say(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr)


@contextlib.contextmanager
def json_on_stdout() -> Iterator[None]:
    """Everything that is printed goes to stderr, except the JSON object of `emit`."""
    _json_output.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _json_output.pop()


def emit(summary: dict[str, Any], as_json: bool, text: str) -> None:
    """Print the result: with --json one JSON object on stdout, otherwise text."""
    if text:
        print(text)
    if as_json:
        print(json.dumps(summary, allow_nan=False), file=_json_output[-1] if _json_output else None)
    sys.stdout.flush()


def text_of(summary: dict[str, Any]) -> str:
    """The summary of a deep run as text, one line per entry."""
    lines = [f"{summary['algo']} on {summary['env']}, seed {summary['seed']}"]
    for name, value in summary.items():
        if name in ("algo", "env", "seed", "scores"):
            continue
        if isinstance(value, dict):
            value = ", ".join(_entry(key, part) for key, part in value.items())
        text = f"{value:.5g}" if isinstance(value, float) else str(value)
        missing = "never" if name == "solved_at" else "-"
        lines.append(f"  {name.replace('_', ' '):24} {text if value is not None else missing}")
    return "\n".join(lines)


def _entry(name: str, value: Any) -> str:
    """One entry of a nested part of the summary, such as the mean of the evaluations."""
    if name == "points":
        return f"at steps {', '.join(str(point['step']) for point in value)}"
    return f"{name} {value:.5g}"


def _one_line(boxed: str) -> str:
    """The message of tyro without its frame and the help that it repeats."""
    _title, _, body = boxed.partition("\n")
    message = re.split("Argument helptext|For full helptext", re.sub(r"[╭╮╰╯─│]|-{3,}", " ", body))[
        0
    ]
    # Options start with dashes; a name without them is a group of options.
    return re.sub(r"^Error parsing [^-\s]\S*: ", "", " ".join(message.split())).rstrip(".")
