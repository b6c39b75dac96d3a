"""`cucb sweep NAME_OR_TOML`: run an experiment, several runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from contrastive_ucb.cli.options import Json, parse, say
from contrastive_ucb.cli.status import LiveTable, counted, emit_states
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Grid, experiment, experiments, read_grid
from contrastive_ucb.runs.pool import cores, run_local
from contrastive_ucb.runs.ray import check_address, check_installed, run_ray
from contrastive_ucb.runs.status import RunState, states_of, watched_jobs


@dataclass(frozen=True)
class Sweep:
    """Run an experiment, several runs at once. A repeated command skips finished runs, resumes the
    others and tries failed ones again. The summary has the state and the score of each run.

    examples:
      cucb sweep theory --dry-run
      cucb sweep grid.toml --workers 2 --out runs/grid
      cucb sweep grid.toml --backend ray --address auto --out /shared/runs/grid
    """

    experiment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT|GRID.toml")]
    """The name of an experiment, or a TOML file."""
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
    lines = [f"  {name:10} {about}" for name, about in experiments().items()]
    options = parse(Sweep, arguments, "cucb sweep", more="\n".join(["experiments:", *lines]))
    if options.backend == "ray":
        check_installed()
    grid = find_grid(options.experiment)
    states = _sweep(grid, options)
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


def _sweep(grid: Grid, options: Sweep) -> list[RunState]:
    """Run the jobs with a live table; returns their final states."""
    runs = watched_jobs(grid.jobs, options.out)
    if options.dry_run:
        return states_of(runs)
    grid.remember(options.out)
    start, at_once = run_local, f"{options.workers or cores()} at once"
    if options.backend == "ray":
        start = partial(run_ray, address=options.address)
        if options.workers is None:
            at_once = "as many at once as Ray has resources for"
    with LiveTable(lambda: states_of(runs)) as table:
        say(f"{counted(states_of(runs))}; {at_once}")
        try:
            errors = start(
                grid.jobs, options.out, options.workers, table.tick, options.checkpoint_seconds
            )
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
