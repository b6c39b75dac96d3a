"""`cucb sweep NAME_OR_TOML`: run an experiment, several runs at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from contrastive_ucb.cli.options import emit, parse
from contrastive_ucb.cli.run_table import LiveTable, counted, summary_of, table_of
from contrastive_ucb.core.checks import check_size, hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Grid, Job, experiment, experiments, read_grid
from contrastive_ucb.runs.pool import Errors, cores, run_local
from contrastive_ucb.runs.ray import check_address, check_installed, run_ray
from contrastive_ucb.runs.status import RunState, Watched, states_of, watched_jobs

HELP = f"""usage: cucb sweep EXPERIMENT [options]
       cucb sweep GRID.toml [options]

Run an experiment, several runs at once. A repeated command skips finished runs, resumes the others
and tries failed ones again.

experiments:
{chr(10).join(f"  {name:10} {about}" for name, about in experiments().items())}

`cucb sweep EXPERIMENT --help` lists the options, for example
  cucb sweep theory --dry-run
  cucb sweep grid.toml --workers 2 --out runs/grid
  cucb sweep grid.toml --backend ray --address auto --out /shared/runs/grid
"""


@dataclass(frozen=True)
class Sweep:
    """Run an experiment; the summary has the state and the score of each run."""

    backend: str = "local"
    """local: processes on this machine with one thread each; ray: the same on the nodes of a Ray
    cluster."""
    address: str | None = None
    """Ray: HOST:PORT of a running cluster that this machine is a node of, or auto, which finds it.
    By default Ray is started on this machine for this sweep."""
    workers: int | None = None
    """Number of runs at once; by default one per core, or as many as Ray has resources for."""
    out: Path = Path("runs")
    """Folder of the runs, including those of `cucb solve` and `cucb train`. All nodes of a Ray
    cluster must see it under the same absolute path."""
    dry_run: bool = False
    """List the runs and their states only."""
    checkpoint_seconds: float | None = None
    """Seconds between checkpoints; by default 30 for `solve` and 60 for `train`."""
    json: bool = False
    """Print the summary as one JSON object on stdout and everything else on stderr."""

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_size("workers", self.workers)
        if self.address is not None:
            if self.backend != "ray":
                raise ValueError(f"--address needs --backend ray, got --backend {self.backend}")
            check_address(self.address)
        if self.checkpoint_seconds is not None and not self.checkpoint_seconds >= 0:
            raise ValueError(
                f"checkpoint_seconds must be at least 0, got {self.checkpoint_seconds}"
            )


class Runner(Protocol):
    """Runs the jobs that are not finished; returns the errors."""

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
        raise ValueError(f"name an experiment before {arguments[0]}: {', '.join(experiments())}")
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
    """The first error, and whether repeating the command tries the failed runs again."""
    first = failed[0]
    # A run with DONE is not tried again; its error says what to do.
    n_again = sum(not (out / state.run / "DONE").exists() for state in failed)
    message = f"{len(failed)} of {n_runs} runs failed; {first.run}: {first.error}"
    if n_again == len(failed):
        return f"{message}; repeat the command to try them again"
    again = f"; repeat the command to try {n_again} of them again" if n_again else ""
    return message + again


def backend_of(options: Sweep) -> Runner:
    """The backend by its name."""
    backends: dict[str, Runner] = {
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


def _sweep(grid: Grid, runs: Sequence[Watched], backend: Runner, options: Sweep) -> list[RunState]:
    """Run the jobs with a live table; returns their final states."""
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
    """What happened to the running runs; a second Ctrl-C does not wait until they are saved."""
    if isinstance(stop.__context__, KeyboardInterrupt):
        return "the running runs were killed; they have their last checkpoints"
    return "the running runs are saved"


def _at_once(options: Sweep) -> str:
    if options.workers is None and options.backend == "ray":
        return "as many at once as Ray has resources for"
    return f"{options.workers or cores()} at once"


def _with_error(state: RunState, error: str | None) -> RunState:
    """The state with the error of the worker, which may not have been able to write it."""
    if error is None or state.state in ("finished", "failed"):
        return state
    return replace(state, state="failed", error=error)


def _print(grid: Grid, states: list[RunState], options: Sweep) -> None:
    summary = summary_of(states, name=grid.name, out=str(options.out))
    emit(summary, options.json, table_of(states))
