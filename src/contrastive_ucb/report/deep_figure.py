"""Learning curves of the stored results of the deep tier: DeepSea, MinAtar, Atari.

A stored curve is the mean return of the training episodes, with exploration, that ended in each
interval of a run. The tables have the scores of evaluations, without exploration. The scores of the
controls are drawn as horizontal lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.panels import Curves, Levels, panels
from contrastive_ucb.report.readme_deep import agent_name, run_scores
from contrastive_ucb.stats.control_scores import NAMES

Record = Mapping[str, Any]

BONUS_AGENTS = ("spr", "spr-ucb")
FIGURES = {  # by the beginning of the names of tasks
    "DeepSea-": Path("deep", "deepsea.svg"),
    "MinAtar/": Path("minatar", "curves.svg"),
    "": Path("deep", "atari.svg"),  # all others
}


def kept_curves(records: Iterable[Record]) -> dict[Path, Curves]:
    """The curves of SPR and of SPR-UCB with each bonus, for each figure; smaller tasks first.

    Runs without a stored curve are left out.
    """
    found: dict[Path, dict[str, dict[str, tuple[IntArray, Array]]]] = {}
    for task, runs in _tasks(records):
        env, steps = runs[0]["env"], runs[0]["steps"]
        start = next(start for start in FIGURES if env.startswith(start))
        lines = found.setdefault(FIGURES[start], {}).setdefault(task, {})
        lines[agent_name(runs[0])] = _filled([run["curve"] for run in runs], steps)
    return dict(found)


def kept_levels(records: Iterable[Record]) -> Levels:
    """The mean score of each control, by the task names of `kept_curves`."""
    stored = list(records)
    scores: dict[str, dict[str, float]] = {}
    for record in stored:
        if record.get("runs") and record["runs"][0]["algo"] in NAMES:
            run = record["runs"][0]
            scores.setdefault(run["env"], {})[agent_name(run)] = float(run_scores(record).mean())
    return {task: scores.get(runs[0]["env"], {}) for task, runs in _tasks(stored)}


def curves_figure(curves: Curves, levels: Levels | None = None) -> Figure:
    """One panel per task, one line per agent, and horizontal lines for the controls."""
    agents = sorted({agent for lines in curves.values() for agent in lines})
    label = "return of training episodes"
    return panels(curves, palette(agents), xlabel="steps", ylabel=label, levels=levels)


def _tasks(records: Iterable[Record]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The runs with curves of each record and the name of their task, in the order of panels.

    If there are runs of several lengths in one environment, each length is a separate task.
    """
    kept = [[run for run in record.get("runs", []) if "curve" in run] for record in records]
    groups = [runs for runs in kept if runs and runs[0]["algo"] in BONUS_AGENTS]
    lengths: dict[str, set[int]] = {}
    for runs in groups:
        lengths.setdefault(runs[0]["env"], set()).add(runs[0]["steps"])
    tasks = []
    for runs in sorted(groups, key=lambda runs: _place(runs[0])):
        env, steps = runs[0]["env"], runs[0]["steps"]
        name = env.removeprefix("MinAtar/").removesuffix("-v1")
        tasks.append((name if len(lengths[env]) == 1 else f"{name}, {steps:,}", runs))
    return tasks


def _filled(curves: Sequence[Sequence[float | None]], steps: int) -> tuple[IntArray, Array]:
    """The end of each interval (n,), and the values (n_seeds, n).

    An interval in which no episode ended has the value of the one before. The curve begins at the
    first interval for which all seeds have a value.
    """
    values = np.array(curves, dtype=np.float64)  # None becomes NaN
    for at in range(1, values.shape[1]):
        gap = np.isnan(values[:, at])
        values[gap, at] = values[gap, at - 1]
    ends = np.linspace(0, steps, values.shape[1] + 1)[1:].round().astype(np.int64)
    whole = ~np.isnan(values).any(0)
    return ends[whole], values[:, whole]


def _place(run: Mapping[str, Any]) -> tuple[str, int, int, str]:
    """Kind of the task, size of DeepSea, steps, agent: the order of panels and lines."""
    kind, _, size = run["env"].partition("-")
    return kind, int(size) if size.isdigit() else 0, run["steps"], agent_name(run)
