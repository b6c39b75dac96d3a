"""Figures of the docs pages from results/: rich-lock trajectories and learning curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.report.plots import (
    color_of,
    drawn,
    palette,
    panels,
    plain_ticks,
)
from contrastive_ucb.report.scores import natural
from contrastive_ucb.stats.control_scores import control_scores
from results import Locks, Records, Runs, agent_name, of_folder, trajectories

MARKS = "xv+1"  # of algorithms that used their whole budget
FIGURES = {  # by the prefix of the task
    "DeepSea-": Path("deep", "deepsea.svg"),
    "MinAtar/": Path("minatar", "curves.svg"),
    "": Path("deep", "atari.svg"),
}


def trajectories_figure(locks: Locks) -> Figure:
    """A dot for every seed that solved the lock, a mark for the budget of those that did not."""
    with drawn(3.3) as figure:
        axes = figure.add_subplot()
        algos = sorted(
            {algo for algo, _ in locks}, key=lambda name: (name != "contrastive-ucb", name)
        )
        for number, algo in enumerate(algos):
            own = {h: runs for (name, h), runs in sorted(locks.items()) if name == algo}
            _draw(axes, algo, own, MARKS[number % len(MARKS)])
        horizons = sorted({h for _, h in locks})
        axes.set(xscale="log", yscale="log", xlabel="horizon $H$", ylabel="trajectories")
        axes.set_title("Trajectories to open the rich lock")
        plain_ticks(axes)
        axes.set_xticks(horizons, [str(h) for h in horizons])
        axes.set_xticks([], minor=True)
        axes.set_ylim(top=axes.get_ylim()[1] * 6)  # room for the legend
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def _draw(axes: Axes, algo: str, by_horizon: Mapping[int, Runs], mark: str) -> None:
    color = color_of(algo)
    opened = {h: own for h, runs in by_horizon.items() if (own := trajectories(runs, solved=True))}
    for h, own in opened.items():
        axes.plot([h] * len(own), own, ".", color=color, alpha=0.4, markersize=4)
    if opened:
        means = [float(np.mean(own)) for own in opened.values()]
        axes.plot(list(opened), means, "o-", color=color, markersize=5, label=algo)
    shut = {
        h: max(own) for h, runs in by_horizon.items() if (own := trajectories(runs, solved=False))
    }
    if shut:
        axes.plot(list(shut), list(shut.values()), mark, color=color, label=f"{algo}: not opened")


def learning_curves(records: Records) -> dict[Path, Figure]:
    """Training returns of SPR and of SPR-UCB with each bonus, one panel per task, by file."""
    trained = [*of_folder(records, "deep"), *of_folder(records, "minatar")]
    stored = [[run for run in one["runs"] if "curve" in run] for one in trained]
    groups = [runs for runs in stored if runs and runs[0]["algo"] in ("spr", "spr-ucb")]
    groups.sort(key=lambda runs: (natural(runs[0]["env"]), runs[0]["steps"], agent_name(runs[0])))
    lengths = Counter(env for env, _ in {(runs[0]["env"], runs[0]["steps"]) for runs in groups})
    curves: dict[Path, dict[str, dict[str, tuple[IntArray, Array]]]] = {}
    levels: dict[str, dict[str, float]] = {}
    for runs in groups:
        env, steps = runs[0]["env"], runs[0]["steps"]
        name = env.removeprefix("MinAtar/").removesuffix("-v1")
        task = name if lengths[env] == 1 else f"{name}, {steps:,}"
        file = FIGURES[next(prefix for prefix in FIGURES if env.startswith(prefix))]
        lines = curves.setdefault(file, {}).setdefault(task, {})
        lines[agent_name(runs[0])] = _filled([run["curve"] for run in runs], steps)
        controls = sorted(control_scores().get(env, {}).items())
        levels[task] = {name: float(scores.mean()) for name, scores in controls}
    labels: Any = {"xlabel": "steps", "ylabel": "return of training episodes", "levels": levels}
    return {
        file: panels(own, styles=palette(sorted(set().union(*own.values()))), **labels)
        for file, own in curves.items()
    }


def _filled(curves: Sequence[Sequence[Any]], steps: int) -> tuple[IntArray, Array]:
    """Interval ends (n,) and values (n_seeds, n); empty intervals repeat the one before."""
    values = pd.DataFrame(curves, dtype=float).ffill(axis="columns").to_numpy()
    ends = np.linspace(0, steps, values.shape[1] + 1)[1:].round().astype(np.int64)
    known = ~np.isnan(values).any(0)
    return ends[known], values[:, known]
