"""Run the experiment `minigrid` and write its results to results/minigrid/.

    .venv/bin/python benchmarks/minigrid_results.py [FOLDER [NAME ...]]

FOLDER is the folder of the run folders, `runs` by default. NAMEs select results, such as
doorkey-8x8-rnd, or all that begin with them, such as multiroom-n4-s5; `tuning` is the grid
`benchmarks/minigrid_tuning.toml`, whose runs have other seeds. Finished runs in the folder are
reused, also those of `cucb sweep minigrid`. Each file has the command and, for every seed, the
summary with the success rate at 20 points of the run.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from finite_results import ROOT, versions

from contrastive_ucb.runs.grid import Job, experiment, read_grid
from contrastive_ucb.runs.pool import cores, run_local
from contrastive_ucb.runs.spec import commands
from contrastive_ucb.runs.store import RunFolder

RESULTS = ROOT / "results" / "minigrid"
TUNING = ROOT / "benchmarks" / "minigrid_tuning.toml"
RATE, POINTS = "charts/success_rate", 20  # the metric of the curves and their length


def main() -> None:
    runs, *chosen = sys.argv[1:] or ["runs"]
    groups: dict[str, list[Job]] = {}
    for job in experiment("minigrid").jobs:
        groups.setdefault(name_of(job), []).append(job)
    groups["tuning"] = list(read_grid(TUNING).jobs)
    wanted = list(groups)
    if chosen:
        wanted = [name for word in chosen for name in named(word, groups)]
    for name in wanted:
        print(name, flush=True)
        jobs = groups[name]
        if errors := run_local(jobs, Path(runs), min(len(jobs), cores())):
            sys.exit("\n".join(f"{path}: {error}" for path, error in errors.items()))
        RESULTS.mkdir(parents=True, exist_ok=True)
        found = (tuning if name == "tuning" else record)(jobs, Path(runs))
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def named(word: str, groups: Iterable[str]) -> list[str]:
    """The result of this name, or those whose names begin with it."""
    found = [word] if word in groups else [name for name in groups if name.startswith(word)]
    if not found:
        sys.exit(f"unknown result {word!r}; choose from {', '.join(groups)}")
    return found


def name_of(job: Job) -> str:
    """The task and the bonus, such as doorkey-8x8-counts-product."""
    task = re.sub(r"^MiniGrid-|^contrastive_ucb/|-v\d+$", "", job.task.env)
    return "-".join(re.findall("[a-z0-9]+", f"{task} {job.label}".lower()))


def record(jobs: Sequence[Job], runs: Path) -> dict[str, Any]:
    """What is kept of the runs of one task and bonus."""
    (command,) = commands(jobs[0].words(), [job.seed for job in jobs], None)
    return {
        "command": f"{command} --json",
        "label": jobs[0].label,
        "runs": [with_curve(RunFolder(job.spec(), runs)) for job in jobs],
        "versions": versions(),
    }


def tuning(jobs: Sequence[Job], runs: Path) -> dict[str, Any]:
    """The settings that were tried, with the mean success rate over the run and at its end."""
    rows = []
    for job in jobs:
        run = with_curve(RunFolder(job.spec(), runs))
        rates = [rate or 0.0 for rate in run["curve"]]
        bonus, scale, entropy = job.label.rsplit(", ", 2)
        rows.append({
            "bonus": bonus,
            "scale": float(scale.removeprefix("scale ")),
            "entropy": float(entropy.removeprefix("entropy ")),
            "seed": job.seed,
            "mean_success": round(sum(rates) / len(rates), 4),
            "final_success": rates[-1],
        })  # fmt: skip
    return {
        "command": "cucb sweep benchmarks/minigrid_tuning.toml",
        "env": jobs[0].task.env,
        "tried": rows,
        "versions": versions(),
    }


def with_curve(folder: RunFolder) -> dict[str, Any]:
    """The summary of a run with its success rates instead of its folder."""
    summary = {key: value for key, value in folder.summary().items() if key != "run_dir"}
    return {**summary, "curve": curve(folder.metrics, summary["steps"])}


def curve(metrics: Path, steps: int) -> list[float | None]:
    """The success rate of the last 100 episodes at each twentieth of the run."""
    rates: list[float | None] = [None] * POINTS
    for line in metrics.read_text().splitlines():
        event = json.loads(line)
        first = -(-event["step"] * POINTS // steps) - 1  # the first point that is not earlier
        if RATE in event:
            rates[first:] = [round(event[RATE], 4)] * (POINTS - first)
    return rates


if __name__ == "__main__":
    main()
