"""Options as frozen dataclasses, parsed with tyro, and the output of results and files."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any, Literal, TypeVar, cast

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
AllowImport = Annotated[
    bool,
    tyro.conf.arg(
        help="Import the Python module that the run names if its environment is module:Env-v0."
        " Importing runs its code, so allow it only if you trust the run."
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    tyro.conf.arg(help="Device of the networks; auto takes CUDA if it is available."),
]
LEAST = {  # smallest values of options that are integers
    **dict.fromkeys(("rounds", "steps", "seeds", "threads", "workers", "scale", "max_steps"), 1),
    **dict.fromkeys(("episodes", "eval_episodes", "sea_seeds"), 1),
    **dict.fromkeys(("lock_rounds", "game_rounds", "lock_game_rounds"), 1),
    **dict.fromkeys(("seed", "env_seed"), 0),
    "sea_steps": 100,  # after which an agent learns
}
PARSING = {  # part of an exception of Python: what the option takes
    "invalid literal for int() with base 10": "a whole number",
    "could not convert string to float": "a number",
}
_json_output: list[IO[str]] = []  # the stdout of a command with --json


def parse(
    kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None, more: str = ""
) -> T:
    """The arguments as a `kind`; wrong ones are an error of one line, --help prints and exits.

    The options may contain dataclasses, which are groups of options.

    Without arguments, the help is printed if the command needs some.

    more   follows the docstring of `kind` in the help
    """
    needed = [field for field in fields(cast(Any, kind)) if field.default is MISSING]
    if needed and default is None and not arguments:
        arguments = ["--help"]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            options = tyro.cli(
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
        # tyro draws a frame and repeats the help.
        _title, _, boxed = printed.getvalue().partition("\n")
        body = re.sub(r"[╭╮╰╯─│]|-{3,}", " ", boxed)
        message = " ".join(re.split("Argument helptext|For full helptext", body)[0].split())
        for exception, takes in PARSING.items():
            pattern = rf"Error parsing (-\S+): .*?{re.escape(exception)}: ('.*?').*"
            message = re.sub(pattern, rf"\1 takes {takes}, got \2", message)
        # Options start with dashes; a name without them is a group of options.
        message = re.sub(r"^Error parsing [^-\s]\S*: ", "", message).rstrip(".")
        raise UserError(f"{message} (see '{prog} --help')") from None
    groups = [value for value in vars(options).values() if is_dataclass(value)]
    for name, value in [item for group in (options, *groups) for item in vars(group).items()]:
        if name in LEAST and value is not None:
            check_size(name, value, LEAST[name])
        if name == "checkpoint_seconds" and value is not None and not value >= 0:
            raise UserError(f"checkpoint_seconds must be at least 0, got {value}")
        if name == "epsilon" and value is not None and not 0 <= value <= 1:
            raise UserError(f"epsilon must be in [0, 1], got {value}")
    return options


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
    """The summary of a run, or of several seeds, as text with one line per entry."""
    count = len(summary.get("runs", []))
    seeds = f"{count} seeds" if count > 1 else f"seed {summary['seed']}"
    lines = [f"{summary['algo']} on {summary['env']}, {seeds}"]
    for name, value in summary.items():
        if name not in ("algo", "env", "seed", "seeds", "runs") and name != "scores":
            lines.append(f"  {name.replace('_', ' '):28} {_text(value)}")
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(part)}" for key, part in value.items())
    if isinstance(value, list):  # the points of an evaluation, or numbers
        return ", ".join(str(part["step"] if isinstance(part, dict) else part) for part in value)
    return "never" if value is None else str(value)


def check_file(out: Path, endings: Sequence[str]) -> None:
    """Raise an error if the file of --out has an unknown ending or cannot be written."""
    if out.suffix not in endings:
        raise UserError(f"--out {out} must end in one of {' '.join(endings)}")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} for --out; make it first")
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file")
    # By trying, because permissions do not show read-only file systems
    with explained(out), TemporaryFile(dir=out.parent):
        pass


@contextlib.contextmanager
def explained(out: Path) -> Iterator[None]:
    """Report errors while the file of --out is written in one line with a remedy."""
    try:
        yield
    except OSError as error:
        from contrastive_ucb.runs.store import FULL

        remedy = "name a file in a writable folder with --out"
        if error.errno in FULL:
            remedy = "free some disk space, or name a file on another disk with --out"
        raise UserError(f"cannot write {out} ({error.strerror}); {remedy}") from error


def print_problems(problems: Iterable[str]) -> None:
    """Print a line on stderr for each run that could not be read."""
    for problem in problems:
        say(f"left out: {problem}")
