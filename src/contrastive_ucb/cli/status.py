"""`cucb status FOLDER`: the states of runs, as a table and as a live table on a terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

import tyro
from rich.console import Console
from rich.live import Live
from rich.table import Table

from contrastive_ucb.cli.options import Json, emit, parse, say
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.pool import run_local
from contrastive_ucb.runs.status import STATES, RunState, states_of, watched_folder, watched_jobs

ENDED = ("finished", "failed")


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
    emit_states(states, options.json, folder=str(options.folder))


def emit_states(states: Sequence[RunState], as_json: bool, **more: Any) -> None:
    """Print the states: a line per run with its state and score, then the errors."""
    counts = Counter(state.state for state in states)
    runs = [asdict(state) for state in states]
    summary = {**more, "counts": {name: counts[name] for name in STATES}, "runs": runs}
    emit(summary, as_json, table_of(states))


def table_of(states: Sequence[RunState]) -> str:
    rows = [("run", "state", measure_of(states))]
    errors = []
    for state in states:
        begun = state.state in ("running", "waiting") and state.step and state.steps
        share = f" {state.step / state.steps:.0%}" if begun and state.steps else ""
        rows.append((state.run, f"{state.state}{share}", _number(state.score)))
        if state.error:
            log = f" (log: {state.log})" if state.log else ""
            errors.append(f"{state.run}: {state.error}{log}")
    return "\n".join([aligned(rows), *errors, counted(states)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def measure_of(states: Sequence[RunState]) -> str:
    """The heading of the numbers: the score of `train`, the gap of `solve`, or both."""
    return " or ".join(sorted({state.measure for state in states})) or "score"


def counted(states: Sequence[RunState]) -> str:
    """The number of runs in each state, such as "6 runs: 4 finished, 2 failed"."""
    counts = Counter(state.state for state in states)
    parts = ", ".join(f"{counts[name]} {name}" for name in STATES if counts[name])
    return f"{len(states)} run{'s' * (len(states) != 1)}" + (f": {parts}" if parts else "")


def run_shown(jobs: Sequence[Job], out: Path, workers: int | None = None) -> None:
    """Run the jobs on this machine with a live table; an error if some fail."""
    runs = watched_jobs(jobs, out)
    with LiveTable(lambda: states_of(runs)) as table:
        say(counted(states_of(runs)))
        errors = run_local(jobs, out, workers, table.tick)
    for folder, error in errors.items():
        name = folder.relative_to(out)
        failed = f"{len(errors)} run{'s' * (len(errors) != 1)} failed"
        raise UserError(f"{failed}; {name}: {error}; repeat the command")


class LiveTable:
    """A live table on a terminal; elsewhere one line per run that has ended.

    look      returns the states of all runs
    console   default: stderr, because stdout is for results
    """

    DRAW_SECONDS = 1.0

    def __init__(self, look: Callable[[], list[RunState]], console: Console | None = None) -> None:
        self._look = look
        self._console = console or Console(stderr=True)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False
        )
        self._next = 0.0
        self._before = {state.run: state.state for state in look()}

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def tick(self) -> None:
        """Update the table, at most about once per second."""
        if (now := time.monotonic()) < self._next:
            return
        states = self._look()
        self._next = time.monotonic() + max(self.DRAW_SECONDS, 20 * (time.monotonic() - now))
        if self._console.is_terminal:
            self._live.update(self._drawn(states), refresh=True)
            return
        for state in states:
            if state.state in ENDED and state.state != self._before.get(state.run):
                message = state.error or f"{state.measure} {_number(state.score)}"
                line = f"{state.run}: {state.state}, {message}"
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._before = {state.run: state.state for state in states}

    def _drawn(self, states: list[RunState]) -> Table:
        table = Table(title=counted(states), box=None, title_justify="left")
        for name in ("run", "state", "progress", measure_of(states), "left"):
            table.add_column(name, overflow="fold" if name == "run" else "ellipsis")
        room = max(3, self._console.height - 4)
        # Running runs come first, since the screen may not have room for all.
        order = ("running", "failed", "finished", "waiting")
        for state in sorted(states, key=lambda state: order.index(state.state))[:room]:
            done = f"{state.step:,} / {state.steps:,}" if state.steps else ""
            seconds = state.seconds_left
            left = "" if seconds is None else str(timedelta(seconds=round(seconds)))
            score = state.latest if state.score is None else state.score
            table.add_row(state.run, state.state, done, _number(score), left)
        return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
