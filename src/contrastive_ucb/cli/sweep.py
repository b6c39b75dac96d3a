"""`cucb sweep NAME_OR_TOML`: run an experiment, several runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from contrastive_ucb.cli.options import Json, parse, say
from contrastive_ucb.cli.status import LiveTable, counted, emit_states
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Grid, experiment, experiments, read_grid
from contrastive_ucb.runs.pool import cores, run_local
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

    backend: Literal["local", "ray"] = "local"
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
    json: Json = False

    def __post_init__(self) -> None:
        if self.address is not None:
            if self.backend != "ray":
                raise ValueError(f"--address needs --backend ray, got --backend {self.backend}")
            check_address(self.address)


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return
    name, *rest = arguments
    if name.startswith("-"):
        raise ValueError(f"name an experiment before {name}: {', '.join(experiments())}")
    options = parse(Sweep, rest, f"cucb sweep {name}", Sweep())
    if options.backend == "ray":
        check_installed()
    grid = find_grid(name)
    runs = watched_jobs(grid.jobs, options.out)
    states = states_of(runs) if options.dry_run else _sweep(grid, runs, options)
    emit_states(states, options.json, name=grid.name, out=str(options.out))
    failed = [state for state in states if state.state == "failed"]
    if failed and not options.dry_run:
        # A run with DONE is not tried again; its error says what to do.
        n_again = sum(not (options.out / state.run / "DONE").exists() for state in failed)
        them = "them" if n_again == len(failed) else f"{n_again} of them"
        again = f"; repeat the command to try {them} again" if n_again else ""
        message = f"{len(failed)} of {len(states)} runs failed; {failed[0].run}: {failed[0].error}"
        raise UserError(message + again)


def find_grid(name: str) -> Grid:
    """The experiment of this name, or the grid in this file."""
    return read_grid(Path(name)) if name.endswith(".toml") else experiment(name)


def _sweep(grid: Grid, runs: Sequence[Watched], options: Sweep) -> list[RunState]:
    """Run the jobs with a live table; returns their final states."""
    grid.remember(options.out)
    at_once = f"{options.workers or cores()} at once"
    if options.workers is None and options.backend == "ray":
        at_once = "as many at once as Ray has resources for"
    every = options.checkpoint_seconds
    with LiveTable(lambda: states_of(runs)) as table:
        say(f"{counted(states_of(runs))}; {at_once}")
        try:
            if options.backend == "ray":
                errors = run_ray(
                    grid.jobs, options.out, options.workers, table.tick, every, options.address
                )
            else:
                errors = run_local(grid.jobs, options.out, options.workers, table.tick, every)
        except KeyboardInterrupt as stop:
            killed = isinstance(stop.__context__, KeyboardInterrupt)  # by a second Ctrl-C
            last = "were killed; they have their last checkpoints" if killed else "are saved"
            say(f"the running runs {last}")
            raise
    return [
        # The worker may not have been able to write its error to the folder.
        replace(state, state="failed", error=errors[run.path])
        if run.path in errors and state.state not in ("finished", "failed")
        else state
        for run, state in zip(runs, states_of(runs), strict=True)
    ]
