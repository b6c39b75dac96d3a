"""`cucb status FOLDER`: the states of the runs in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrastive_ucb.cli.options import emit, parse
from contrastive_ucb.cli.run_table import summary_of, table_of
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.status import states_of, watched_folder

HELP = """usage: cucb status FOLDER [--json]

The states of the runs at any depth below a folder, including those that a sweep has not begun yet:
finished, running, waiting or failed, with progress and score.
"""


@dataclass(frozen=True)
class Status:
    """Show the states of the runs in a folder."""

    json: bool = False
    """Print the states as one JSON object on stdout and everything else on stderr."""


def run(arguments: Sequence[str]) -> None:
    if not arguments or {"-h", "--help"} & {*arguments}:
        print(HELP, end="")
        return
    if arguments[0].startswith("-"):
        raise ValueError(f"name a folder before {arguments[0]}, such as runs")
    name, *rest = arguments
    options = parse(Status, rest, f"cucb status {name}", Status())
    folder = Path(name)
    states = states_of(watched_folder(folder))
    if not states:
        raise UserError(f"{folder} contains no runs; pass the --out of a command")
    emit(summary_of(states, folder=str(folder)), options.json, table_of(states))
