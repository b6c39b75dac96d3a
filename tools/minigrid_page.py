"""The page, the tables and the figure of MiniGrid, from results/minigrid/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
    """A row per task and bonus: steps, solved seeds and the difference from `BONUS`."""
    rows = []
    for task, own in groups.items():
        for label, record in own.items():
            runs, rates = record["runs"], successes(record)
            row = {
                "task": task,
                "bonus": label,
                "steps": f"{runs[0]['steps']:,}",
                f"seeds above {SOLVED}": f"{int((rates > SOLVED).sum())} of {len(runs)}",
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
        if len(own) == 1:  # nothing to compare with
            continue
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


def tuning_table(record: Record) -> str:
    """The best of the settings that were tried for each bonus, and the range of all of them."""
    rows = []
    tried = record["tried"]
    for bonus in dict.fromkeys(one["bonus"] for one in tried):
        own = [one for one in tried if one["bonus"] == bonus]
        best, level = max(own, key=_level), [one["mean_success"] for one in own]
        rows.append({
            "bonus": bonus,
            "settings tried": str(len(own)),
            "mean success rate over the run": f"{min(level):.2f} to {max(level):.2f}",
            "best scale": f"{best['scale']:g}",
            "best entropy": f"{best['entropy']:g}",
            "its final success rate": f"{best['final_success']:.2f}",
        })  # fmt: skip
    return markdown_table(rows)


def _level(one: Mapping[str, Any]) -> tuple[float, float]:
    return one["mean_success"], one["final_success"]


def cost_table(summary: Mapping[str, float]) -> str:
    """Processor time per 1,000 environment steps of PPO and of each bonus."""
    rows = []
    for key, value in summary.items():
        name = key.removesuffix("_ms_per_1000_steps")
        if name in (key, "ppo_with_contrastive"):
            continue
        ratio = summary.get(f"{name}_over_ppo", 1.0)
        rows.append({
            "bonus": "PPO itself" if name == "ppo" else name,
            "ms per 1,000 steps": f"{value:.3g}",
            "relative to PPO": f"{ratio:.2f}",
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


def minigrid_page(records: Records) -> dict[str, Any]:
    """What the template needs."""
    groups = minigrid_groups(records)
    tuned, costs = records.get("minigrid/tuning"), records.get("minigrid/bench-bonus")
    first = next(iter(groups.values()))
    return {
        "successes": success_table(groups),
        "details": seeds_table(groups),
        "best": best_table(groups),
        "n_seeds": min(len(one["runs"]) for own in groups.values() for one in own.values()),
        "example": next(iter(first.values()))["command"],
        "bonus": BONUS,
        "tuning": tuning_table(tuned) if tuned else "",
        "costs": cost_table(costs["summary"]) if costs else "",
    }
