"""`cucb status FOLDER`: the states of the runs in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from contrastive_ucb.cli.options import Json, emit, parse
from contrastive_ucb.cli.run_table import summary_of, table_of
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.status import states_of, watched_folder


@dataclass(frozen=True)
class Status:
    """Show the states of the runs at any depth below a folder, including those that a sweep has not
    begun yet: finished, running, waiting or failed, with progress and score."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """The --out of a command."""
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    options = parse(Status, arguments, "cucb status")
    states = states_of(watched_folder(options.folder))
    if not states:
        raise UserError(f"{options.folder} contains no runs; pass the --out of a command")
    emit(summary_of(states, folder=str(options.folder)), options.json, table_of(states))
