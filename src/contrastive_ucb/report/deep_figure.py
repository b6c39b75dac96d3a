"""Learning curves of the deep tier's kept results: the deep sea, MinAtar, Atari.

A kept curve is the mean return of the training episodes that ended in each stretch of a run, with
exploration on; the tables have the scores at the end, without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.panels import Curves, panels
from contrastive_ucb.report.readme_deep import agent_name

Record = Mapping[str, Any]

BONUS_AGENTS = ("spr", "spr-ucb")
FIGURES = {  # by the beginning of the names of tasks
    "DeepSea-": Path("deep", "deepsea.svg"),
    "MinAtar/": Path("minatar", "curves.svg"),
    "": Path("deep", "atari.svg"),  # all others
}


def kept_curves(records: Iterable[Record]) -> dict[Path, Curves]:
    """The curves of SPR and of SPR-UCB with each bonus, for each figure; smaller tasks first.

    Runs whose curve was not kept are left out. Where a task has runs of several lengths, each
    length is a task of its own.
    """
    kept = [[run for run in record.get("runs", []) if "curve" in run] for record in records]
    groups = [runs for runs in kept if runs and runs[0]["algo"] in BONUS_AGENTS]
    lengths: dict[str, set[int]] = {}
    for runs in groups:
        lengths.setdefault(runs[0]["env"], set()).add(runs[0]["steps"])
    found: dict[Path, dict[str, dict[str, tuple[IntArray, Array]]]] = {}
    for runs in sorted(groups, key=lambda runs: _place(runs[0])):
        env, steps = runs[0]["env"], runs[0]["steps"]
        start = next(start for start in FIGURES if env.startswith(start))
        name = env.removeprefix("MinAtar/").removesuffix("-v1")
        task = name if len(lengths[env]) == 1 else f"{name}, {steps:,}"
        lines = found.setdefault(FIGURES[start], {}).setdefault(task, {})
        lines[agent_name(runs[0])] = _filled([run["curve"] for run in runs], steps)
    return dict(found)


def curves_figure(curves: Curves) -> Figure:
    """A panel a task, a line an agent."""
    agents = sorted({agent for lines in curves.values() for agent in lines})
    return panels(curves, palette(agents), xlabel="steps", ylabel="return of training episodes")


def _filled(curves: Sequence[Sequence[float | None]], steps: int) -> tuple[IntArray, Array]:
    """Where each stretch ends (n,), and the values (n_seeds, n).

    A stretch in which no episode ended has the value of the one before; the curve begins where all
    seeds have one.
    """
    values = np.array(curves, dtype=np.float64)  # None becomes NaN
    for at in range(1, values.shape[1]):
        gap = np.isnan(values[:, at])
        values[gap, at] = values[gap, at - 1]
    ends = np.linspace(0, steps, values.shape[1] + 1)[1:].round().astype(np.int64)
    whole = ~np.isnan(values).any(0)
    return ends[whole], values[:, whole]


def _place(run: Mapping[str, Any]) -> tuple[str, int, int, str]:
    """Kind of the task, size of a sea, steps, agent: the order of panels and lines."""
    kind, _, size = run["env"].partition("-")
    return kind, int(size) if size.isdigit() else 0, run["steps"], agent_name(run)
