"""`cucb demo`: Contrastive UCB and its peers in a few minutes, ending with a page of figures.

The runs are those of experiments/demo.toml; the page is made by `report/demo.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_ucb.cli.options import Json, emit, parse

if TYPE_CHECKING:
    from contrastive_ucb.runs.grid import Grid, Job

LENGTHS = {  # option: environment
    "rounds": "lowrank",
    "lock_rounds": "lock",
    "game_rounds": "lowrank-game",
    "lock_game_rounds": "lock-game",
    "sea_steps": "DeepSea-8",
}


@dataclass(frozen=True)
class Demo:
    """Low-rank MDPs and games, and a lock, a vault and DeepSea, which need the bonus.
    `cucb sweep demo --dry-run` lists the runs with their default sizes."""

    seed: int = 0
    """The first seed."""
    seeds: int | None = None
    """The number of seeds, except for DeepSea; by default 5 for the lock and 3 for the others."""
    rounds: int | None = None
    """Rounds on the low-rank MDP; by default 800."""
    lock_rounds: int | None = None
    """Rounds on the lock; by default 400."""
    game_rounds: int | None = None
    """Rounds on the low-rank game; by default 300."""
    lock_game_rounds: int | None = None
    """Rounds on the vault, the lock for two players; by default 1200."""
    sea_steps: int | None = None
    """Steps of the deep agents in DeepSea, 8 per episode; by default 960."""
    sea_seeds: int | None = None
    """The number of seeds in DeepSea; by default 2."""
    out: Path = Path("runs")
    """The folder for run folders and the page."""
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    options = parse(Demo, arguments, "cucb demo", Demo())
    from contrastive_ucb.cli.status import run_shown
    from contrastive_ucb.report.demo import write_demo_page

    grid = demo_grid(options)
    grid.remember(options.out)
    run_shown(grid.jobs, options.out)
    page = write_demo_page(options.out, options.out / "demo" / "index.html", grid)
    summary = {"page": str(page.resolve()), "results": results_of(grid, options.out)}
    emit(summary, options.json, f"\nThe page with the figures: {page.resolve()}")


def demo_grid(options: Demo) -> Grid:
    """The experiment `demo` with the seeds and lengths of the options."""
    from contrastive_ucb.runs.grid import experiment_table, grid_of

    table = experiment_table("demo")
    given = {env: getattr(options, name) for name, env in LENGTHS.items()}
    parts = []
    for part in table["part"]:
        is_deep = part.get("kind") == "train"
        seeds = options.sea_seeds if is_deep else options.seeds
        seeds = seeds or part.get("seeds", table["seeds"])
        length = "steps" if is_deep else "rounds"
        sizes = {"seeds": list(range(options.seed, options.seed + seeds))}
        parts.append({**part, **sizes, length: given[part["env"]] or part[length]})
    return grid_of({**table, "part": parts}, "demo")


def results_of(grid: Grid, root: Path) -> list[dict[str, Any]]:
    """The means over seeds of the summaries of each agent on each environment."""
    from contrastive_ucb.runs.loop import overall
    from contrastive_ucb.runs.store import RunFolder

    groups: dict[str, list[Job]] = {}
    for job in grid.jobs:
        groups.setdefault(job.spec().identity(), []).append(job)
    results = []
    for jobs in groups.values():
        folders = [RunFolder(spec, root) for job in jobs for spec in job.specs]
        means = overall([folder.summary() for folder in folders])
        results.append({name: value for name, value in means.items() if name != "runs"})
    return results
