"""Time to list and to report a grid of 260 runs.

There are two grids of 260 runs: deep agents on 26 games, and finite agents on 13 locks. The run
folders contain artificial results (200 points per curve) and are written with the package's own
writers. `cucb sweep GRID --dry-run` and `cucb report` run as processes of their own, including all
imports. Times are the shortest of three turns. The targets apply to an otherwise idle machine; on a
busy one the processor time is more informative.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.timing import Figures, Targets
from contrastive_ucb.core.events import JsonlListener
from contrastive_ucb.envs.atari import ATARI_100K
from contrastive_ucb.runs.grid import Grid, Job, grid_of
from contrastive_ucb.runs.store import RunFolder
from contrastive_ucb.stats.published import atari100k

CUCB = (sys.executable, "-c", "import sys; from contrastive_ucb.cli import main; sys.exit(main())")
COMMANDS = {  # words and target in seconds
    "list": (("sweep", "grid.toml", "--dry-run", "--json", "--out", "runs"), 1.0),
    "report": (("report", "runs", "--out", "report.html"), 10.0),
}
RUNS, POINTS = 260, 200
DEEP = {
    "kind": "train",
    "env": list(ATARI_100K),
    "algo": ["spr", "spr-ucb"],
    "seeds": 5,
    "steps": 100_000,
}
FINITE = {
    "kind": "solve",
    "env": "lock",
    "algo": ["contrastive-ucb", "uniform"],
    "seeds": 10,
    "rounds": 800,
    "part": [{"settings": {"horizon": horizon}} for horizon in range(2, 15)],
}
GRIDS: Mapping[str, Mapping[str, Any]] = {"deep": DEEP, "finite": FINITE}


@dataclass(frozen=True)
class Options:
    """Time to list and to report 260 runs of deep and of finite agents."""

    turns: int = 3
    """Repetitions of each command; the shortest counts."""


def measure(options: Options) -> Figures:
    """Seconds by the clock and of the processor, by grid and command."""
    figures: Figures = {}
    with TemporaryDirectory() as folder:
        for name, table in GRIDS.items():
            grid, place = grid_of(table, name), Path(folder) / name
            assert len(grid.jobs) == RUNS, len(grid.jobs)
            write_grid(table, place)
            write_runs(grid, place / "runs")
            for command, (words, _) in COMMANDS.items():
                print(f"measuring: {command} of 260 runs ({name} agents)", file=sys.stderr)
                clock, processor = timed(words, place, options.turns)
                figures[f"{name}_{command}_clock"] = clock
                figures[f"{name}_{command}_processor"] = processor
    return figures


def targets(options: Options) -> Targets:
    return {
        f"{name}_{command}_clock": ("<=", target)
        for name in GRIDS
        for command, (_, target) in COMMANDS.items()
    }


def record(figures: Figures) -> dict[str, Any]:
    """The content of results/report-bench.json."""
    seconds: dict[str, Any] = {}
    for name in GRIDS:
        for command, (_, target) in COMMANDS.items():
            times = {kind: figures[f"{name}_{command}_{kind}"] for kind in ("clock", "processor")}
            shares = {f"{kind}_of_mark": value / target for kind, value in times.items()}
            rounded = {key: round(value, 3) for key, value in (times | shares).items()}
            seconds.setdefault(name, {})[command] = {"mark": target, **rounded}
    return {"runs": RUNS, "points_a_run": POINTS, "seconds": seconds, "cores": os.cpu_count()}


def timed(words: tuple[str, ...], place: Path, turns: int) -> tuple[float, float]:
    """Shortest wall-clock and processor seconds of a command."""
    clock, processor = [], []
    for _ in range(turns):
        start, start_processor = time.perf_counter(), processor_seconds()
        subprocess.run((*CUCB, *words), cwd=place, check=True, stdout=subprocess.DEVNULL)
        clock.append(time.perf_counter() - start)
        processor.append(processor_seconds() - start_processor)
    return min(clock), min(processor)


def processor_seconds() -> float:
    """Processor time of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_grid(table: Mapping[str, Any], place: Path) -> None:
    """Write the grid as TOML; JSON and TOML agree on the values used here."""
    place.mkdir()
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items() if key != "part"]
    for part in table.get("part", []):
        settings = ", ".join(f"{key} = {json.dumps(v)}" for key, v in part["settings"].items())
        lines.append(f"[[part]]\nsettings = {{ {settings} }}")
    (place / "grid.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_runs(grid: Grid, root: Path) -> None:
    """Write finished run folders for all runs of the grid."""
    random = np.random.default_rng(0)
    for job in grid.jobs:
        noise = random.normal(0, 0.1, POINTS)
        with RunFolder(job.spec(), root) as run:
            listener = JsonlListener(run.metrics)
            for at in range(POINTS):
                step, values = measurement(job, at, float(noise[at]))
                listener.write(step, values)
            listener.close()
            run.finish(summary(job, float(abs(noise[0]))))


def measurement(job: Job, at: int, noise: float) -> tuple[int, dict[str, float]]:
    if job.kind == "solve":
        gap = (1 + abs(noise)) / (at + 1)
        values = {"gap": gap, "average_regret": gap**0.5, "bonus/mean": gap}
        return at + 1, values
    values = {"charts/episodic_return": at + noise}
    bonus = {"bonus/mean": 1 / (at + 1)} if job.spec().agent == "spr-ucb" else {}
    return 500 * (at + 1), values | bonus


def summary(job: Job, level: float) -> dict[str, Any]:
    if job.kind == "solve":
        finite = {"optimal_value": 1.0, "final_gap": level / 9, "average_regret": level}
        return {"rounds": 800, "seconds": 1.0, **finite}
    table, game = atari100k(), job.spec().task
    at = table.games.index(game)
    score = table.random[at] + level * (table.human[at] - table.random[at])
    return {"steps": 100_000, "seconds": 1.0, "evaluation": {"mean": float(score), "episodes": 100}}
