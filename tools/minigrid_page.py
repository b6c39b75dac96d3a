"""The page, the tables and the figure of MiniGrid, from results/minigrid/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.plots import palette, panels
from contrastive_ucb.stats.aggregate import Scores, iqm
from contrastive_ucb.stats.bootstrap import Interval, difference_interval, interval
from results import RESAMPLES, Record, Records, markdown_table, of_folder

FIGURE = Path("minigrid", "curves.svg")
BONUS = "contrastive"  # that the others are compared with
SOLVED = 0.8  # success rate of a seed that solved its task
Groups = Mapping[str, Mapping[str, Record]]  # task: bonus: record


def minigrid_groups(records: Records) -> Groups:
    """The records by task and bonus, both in the order of the experiment as far as it was run."""
    groups: dict[str, dict[str, Record]] = {}
    for record in of_folder(records, "minigrid"):
        groups.setdefault(task_of(record), {})[record["label"]] = record
    return dict(sorted(groups.items()))


def task_of(record: Record) -> str:
    """Such as "DoorKey-8x8"."""
    name = record["runs"][0]["env"].rpartition("-")[0]
    return str(name.removeprefix("MiniGrid-").removeprefix("contrastive_ucb/"))


def successes(record: Record) -> Array:
    """The success rate of the last 100 training episodes of each run, (seeds,)."""
    return np.array([run["success_of_last_100"] for run in record["runs"]], dtype=np.float64)


def scores(record: Record) -> Scores:
    return Scores(record["label"], ("task",), (successes(record),))


def success_table(groups: Groups) -> str:
    """A row per bonus, a column per task: interquartile means of success rates."""
    labels = dict.fromkeys(label for own in groups.values() for label in own)
    rows = []
    for label in labels:
        row = {"bonus": label}
        for task, own in groups.items():
            if label in own:
                row[task] = shown(interval(iqm, scores(own[label]), RESAMPLES))
        rows.append(row)
    return markdown_table(rows)


def seeds_table(groups: Groups) -> str:
    """A row per task and bonus: steps, solved seeds, the difference from `BONUS`, and the time."""
    rows = []
    for task, own in groups.items():
        for label, record in own.items():
            runs, rates = record["runs"], successes(record)
            pace = fmean(1000 * run["seconds"] / run["steps"] for run in runs)
            row = {
                "task": task,
                "bonus": label,
                "steps": f"{runs[0]['steps']:,}",
                f"seeds above {SOLVED}": f"{int((rates > SOLVED).sum())} of {len(runs)}",
                "seconds per 1,000 steps": f"{pace:.2f}",
            }
            if label != BONUS and BONUS in own:
                found = difference_interval(iqm, scores(own[BONUS]), scores(record), RESAMPLES)
                row[f"IQM of {BONUS} minus this"] = shown(found)
            rows.append(row)
    return markdown_table(rows)


def best_table(groups: Groups) -> str:
    """The bonus to use per task: the largest interquartile mean, and bonuses not worse than it.

    Not worse: the interval of the difference contains 0.
    """
    rows = []
    for task, own in groups.items():
        level = {label: float(iqm(scores(record).matrix)) for label, record in own.items()}
        best = max(level, key=lambda label: level[label])
        others = [
            label
            for label, record in own.items()
            if label != best
            and difference_interval(iqm, scores(own[best]), scores(record), RESAMPLES).low <= 0
        ]
        rows.append({
            "task": task,
            "largest IQM": f"{best} ({level[best]:.2f})",
            "not distinguishable from it": ", ".join(others) or "none",
        })  # fmt: skip
    return markdown_table(rows)


def shown(found: Interval) -> str:
    return f"{float(found.estimate):.2f} ({float(found.low):.2f} to {float(found.high):.2f})"


def success_curves(groups: Groups) -> Figure:
    """Success rates over steps: a panel per task, a line with its interval per bonus."""
    curves: dict[str, dict[str, Any]] = {}
    for task, own in groups.items():
        for label, record in own.items():
            runs = record["runs"]
            values = np.array([run["curve"] for run in runs], dtype=np.float64)  # None: NaN
            steps = np.linspace(0, runs[0]["steps"], values.shape[1] + 1)[1:].round()
            known = ~np.isnan(values).any(0)  # before, some seed has not finished an episode
            line = steps[known].astype(np.int64), values[:, known]
            curves.setdefault(task, {})[label] = line
    styles = palette(sorted({label for own in curves.values() for label in own}))
    return panels(curves, styles=styles, xlabel="steps", ylabel="success rate")


def minigrid_page(groups: Groups) -> dict[str, Any]:
    """What the template needs."""
    first = next(iter(groups.values()))
    return {
        "successes": success_table(groups),
        "details": seeds_table(groups),
        "best": best_table(groups),
        "n_seeds": min(len(one["runs"]) for own in groups.values() for one in own.values()),
        "example": next(iter(first.values()))["command"],
        "bonus": BONUS,
    }
