"""`cucb sweep NAME_OR_TOML`: all runs of an experiment, several at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.commands.run_table import LiveTable, counted, summary_of, table_of
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.catalog import ABOUT, CATALOG, experiment
from contrastive_ucb.experiments.cluster import run_ray
from contrastive_ucb.experiments.grid import Grid, read_grid
from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.local import cores, run_local
from contrastive_ucb.experiments.pool import Errors
from contrastive_ucb.experiments.progress import RunState, Watched, states_of, watched_jobs
from contrastive_ucb.experiments.ray_session import check_address, check_installed
from contrastive_ucb.experiments.settings import hint

HELP = f"""usage: cucb sweep EXPERIMENT [options]
       cucb sweep GRID.toml [options]

Do all runs of an experiment, several at once; a repeated command skips what is finished, goes on
with the rest and tries again what failed.

experiments:
{chr(10).join(f"  {name:10} {about}" for name, about in ABOUT.items())}

`cucb sweep EXPERIMENT --help` lists the options, for example
  cucb sweep theory --dry-run
  cucb sweep grid.toml --workers 2 --out runs/grid
  cucb sweep grid.toml --backend ray --address auto --out /shared/runs/grid
"""


@dataclass(frozen=True)
class Sweep:
    """Do all runs of an experiment; the summary has the state and the score of each."""

    backend: str = "local"
    """Where the runs are done: local is processes on this machine, with one thread each; ray is
    the same on the nodes of a Ray cluster."""
    address: str | None = None
    """Ray: HOST:PORT of a running cluster that this machine is a node of, or auto, which finds it;
    by default Ray is started on this machine, for this sweep."""
    workers: int | None = None
    """How many runs at once; by default as many as there are cores, or as Ray has room for."""
    out: Path = Path("runs")
    """Where run folders go; those that `cucb solve` and `cucb train` left there count too. All
    nodes of a Ray cluster must see the folder, under the same absolute path."""
    dry_run: bool = False
    """Only list the runs and the states they are in."""
    checkpoint_seconds: float | None = None
    """Seconds between checkpoints; by default 30 for `solve` and 60 for `train`."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_size("workers", self.workers)
        if self.address is not None:
            if self.backend != "ray":
                raise ValueError(f"address is for --backend ray, got --backend {self.backend}")
            check_address(self.address)
        if self.checkpoint_seconds is not None and not self.checkpoint_seconds >= 0:
            raise ValueError(
                f"checkpoint_seconds must be at least 0, got {self.checkpoint_seconds}"
            )


class Backend(Protocol):
    """Does the jobs that are not finished, each through `run_job`; returns what went wrong."""

    def __call__(
        self,
        jobs: Sequence[Job],
        root: Path,
        workers: int | None,
        tick: Callable[[], None],
        checkpoint_seconds: float | None,
    ) -> Errors: ...


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return
    if arguments[0].startswith("-"):
        raise ValueError(f"name an experiment before {arguments[0]}: {', '.join(CATALOG)}")
    name, *rest = arguments
    options = parse(Sweep, rest, f"cucb sweep {name}", Sweep())
    backend, grid = backend_of(options), find_grid(name)
    runs = watched_jobs(grid.jobs, options.out)
    if options.dry_run:
        _print(grid, states_of(runs), options)
        return
    states = _sweep(grid, runs, backend, options)
    _print(grid, states, options)
    if failed := [state for state in states if state.state == "failed"]:
        raise UserError(_closing(failed, len(states), options.out))


def _closing(failed: Sequence[RunState], n_runs: int, out: Path) -> str:
    """What went wrong first, and what the same command would do about it and the others."""
    first = failed[0]
    # A run with a DONE is not tried again as it is; what is wrong with it says what to do.
    n_again = sum(not (out / state.run / "DONE").exists() for state in failed)
    said = f"{len(failed)} of {n_runs} runs failed; {first.run}: {first.error}"
    if n_again == len(failed):
        return f"{said}; the same command tries them again"
    return said + (f"; the same command tries {n_again} of them again" if n_again else "")


def backend_of(options: Sweep) -> Backend:
    """The backend by its name."""
    backends: dict[str, Backend] = {
        "local": run_local,
        "ray": partial(run_ray, address=options.address),
    }
    if options.backend not in backends:
        raise UserError(
            f"no backend is called {options.backend!r}; {hint(options.backend, backends)}"
        )
    if options.backend == "ray":
        check_installed()
    return backends[options.backend]


def find_grid(name: str) -> Grid:
    """The experiment of this name, or the grid in this file."""
    if name.endswith(".toml"):
        return read_grid(Path(name))
    return experiment(name)


def _sweep(grid: Grid, runs: Sequence[Watched], backend: Backend, options: Sweep) -> list[RunState]:
    """Do the jobs while a table shows how they do; the states they are in at the end."""
    grid.remember(options.out)
    with LiveTable(lambda: states_of(runs)) as table:
        print(f"{counted(states_of(runs))}; {_at_once(options)}", file=sys.stderr)
        try:
            errors = backend(
                grid.jobs, options.out, options.workers, table.tick, options.checkpoint_seconds
            )
        except KeyboardInterrupt as stop:
            print(_interrupted(stop), file=sys.stderr)
            raise
    return [
        _with_error(state, errors.get(run.path))
        for run, state in zip(runs, states_of(runs), strict=True)
    ]


def _interrupted(stop: KeyboardInterrupt) -> str:
    """What became of the runs under way; pressed again, Ctrl-C did not wait until they saved."""
    if isinstance(stop.__context__, KeyboardInterrupt):
        return "the runs that were under way were not waited for; they have their last checkpoints"
    return "the runs that were under way are saved"


def _at_once(options: Sweep) -> str:
    if options.workers is None and options.backend == "ray":
        return "as many at once as Ray has room for"
    return f"{options.workers or cores()} at once"


def _with_error(state: RunState, error: str | None) -> RunState:
    """A run whose folder could not be written to has its error from the worker alone."""
    if error is None or state.state in ("finished", "failed"):
        return state
    return replace(state, state="failed", error=error)


def _print(grid: Grid, states: list[RunState], options: Sweep) -> None:
    summary = summary_of(states, name=grid.name, out=str(options.out))
    emit(summary, options.json, table_of(states))
