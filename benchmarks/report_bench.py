"""How long a grid of 260 toy runs takes to be listed and to be reported.

    .venv/bin/python benchmarks/report_bench.py [--keep]

Two grids of 260 runs: deep agents on 26 games, and finite agents on 13 locks. Their folders are
made up (a curve of 200 points each) and written with the package's own writers. Timed is what a
person waits for: `cucb sweep GRID --dry-run` and `cucb report` as processes of their own, with all
that they import. The last line is one JSON object; --keep writes it to results/report-bench.json:

    clock, processor   seconds, the shortest of three turns
    ..._of_mark        the same as parts of the mark, which is for the clock of a machine that has
                       nothing else to do; on a busy one the processor says more
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from contrastive_ucb.core.events import Event, JsonlListener
from contrastive_ucb.envs.atari_names import ATARI_100K
from contrastive_ucb.experiments.grid import Grid, grid_of
from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.stats.published import atari100k

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results" / "report-bench.json"
CUCB = (sys.executable, "-c", "import sys; from contrastive_ucb.cli import main; sys.exit(main())")
MARKS = {"list": 1.0, "report": 10.0}  # seconds
RUNS, POINTS, TURNS = 260, 200, 3
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


def main(keep: bool) -> None:
    measured = {}
    with TemporaryDirectory() as folder:
        for name, table in GRIDS.items():
            grid, place = grid_of(table, name), Path(folder) / name
            assert len(grid.jobs) == RUNS, len(grid.jobs)
            write_grid(table, place)
            make_up(grid, place / "runs")
            listed = ("sweep", "grid.toml", "--dry-run", "--json", "--out", "runs")
            reported = ("report", "runs", "--out", "report.html")
            measured[name] = {
                "list": timed(listed, place, MARKS["list"]),
                "report": timed(reported, place, MARKS["report"]),
            }
            for what, times in measured[name].items():
                print(f"{name:7} {what:7}", times, file=sys.stderr)
    names = ("contrastive-ucb", "numpy", "matplotlib")
    result = {
        "command": "python benchmarks/report_bench.py",
        "runs": RUNS,
        "points_a_run": POINTS,
        "seconds": measured,
        "versions": {"python": platform.python_version()} | {n: version(n) for n in names},
        "cores": os.cpu_count(),
    }
    if keep:
        KEPT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


def timed(words: tuple[str, ...], place: Path, mark: float) -> dict[str, float]:
    """What the command takes, and what part of the mark that is."""
    clock, processor = [], []
    for _ in range(TURNS):
        began, used = time.perf_counter(), children()
        subprocess.run((*CUCB, *words), cwd=place, check=True, stdout=subprocess.DEVNULL)
        clock.append(time.perf_counter() - began)
        processor.append(children() - used)
    seconds = {"clock": min(clock), "processor": min(processor)}
    parts = {f"{name}_of_mark": value / mark for name, value in seconds.items()}
    return {"mark": mark} | {k: round(v, 3) for k, v in (seconds | parts).items()}


def children() -> float:
    """Processor seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_grid(table: Mapping[str, Any], place: Path) -> None:
    """The grid as TOML; the values of these tables are written as JSON writes them."""
    place.mkdir()
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items() if key != "part"]
    for part in table.get("part", []):
        own = ", ".join(f"{key} = {json.dumps(v)}" for key, v in part["settings"].items())
        lines.append(f"[[part]]\nsettings = {{ {own} }}")
    (place / "grid.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_up(grid: Grid, root: Path) -> None:
    """All runs of the grid, finished."""
    random = np.random.default_rng(0)
    for job in grid.jobs:
        noise = random.normal(0, 0.1, POINTS)
        with RunFolder(job.spec(), root) as run:
            listener = JsonlListener(run.metrics)
            for at in range(POINTS):
                step, values = measurement(job, at, float(noise[at]))
                listener.on_event(Event(step, values))
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


if __name__ == "__main__":
    main(keep="--keep" in sys.argv[1:])
