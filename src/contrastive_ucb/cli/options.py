"""Options as frozen dataclasses, parsed with tyro, and the output of results."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeVar

import tyro

from contrastive_ucb.core.errors import UserError

T = TypeVar("T")
_json_output: list[IO[str]] = []  # the stdout of a command with --json


def parse(kind: type[T], arguments: Sequence[str], prog: str, default: T) -> T:
    """The options as a `kind`; wrong options are an error of one line, --help prints and exits."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
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
        raise UserError(f"{_one_line(printed.getvalue())} (see '{prog} --help')") from None


def run_and_rest(arguments: Sequence[str], help_text: str) -> tuple[str, list[str]] | None:
    """The run that is named first and the options after it; None: the help was printed."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text, end="")
        return None
    if arguments[0].startswith("-"):
        raise ValueError(f"name a run before {arguments[0]}, such as runs/breakout")
    return arguments[0], list(arguments[1:])


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
    message = re.split("Argument helptext|For full helptext", re.sub(r"[╭╮╰╯─│]", " ", body))[0]
    # Options start with dashes; a name without them is a group of options.
    return re.sub(r"^Error parsing [^-\s]\S*: ", "", " ".join(message.split())).rstrip(".")
