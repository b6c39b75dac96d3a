"""Curves of many tasks in one figure: one small panel per task, one legend for all of them.

One figure with many panels is drawn several times faster than one figure per task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.report.interval import FEWEST, mean_interval
from contrastive_ucb.report.read import Group
from contrastive_ucb.report.scores import Entry
from contrastive_ucb.report.style import WIDTH, house_style, legend_columns, plain_ticks

BINS = 40  # points of a curve of episodes, which end at other steps in every run
POINTS = 100  # that are drawn of a curve, at most; a panel has not many more pixels
PANEL = 1.35  # inches of a panel, with its title
LETTERS = (40, 18)  # of a line of a title that fits above one panel, or two side by side
TITLE_LINE = 0.14  # inches
ROUNDING = 1e-9

Curves = Mapping[str, Mapping[str, tuple[IntArray, Array]]]  # task -> agent -> steps, values
Levels = Mapping[str, Mapping[str, float]]  # task -> control -> score
CONTROL_STYLES: dict[str, dict[str, Any]] = {
    "random policy": {"color": "#999999", "linewidth": 0.9},
    "best constant action": {"color": "#C49102", "linewidth": 0.9},
}


def curves_of(entries: Sequence[Entry], name: str) -> Curves:
    """What the finished runs measured under `name`, by task and agent; what none did is left out.

    Values are (n_seeds, n). Episodes are averaged in `BINS` stretches of equal length. Of other
    curves at most `POINTS` points are kept, among them the first and the last.
    """
    found: dict[str, dict[str, tuple[IntArray, Array]]] = {}
    for entry in entries:
        if entry.group.finished:
            binned = name == "charts/episodic_return"
            steps, values = (binned_series if binned else Group.series)(entry.group, name)
            if steps.size:
                kept = np.unique(np.linspace(0, steps.size - 1, POINTS).round().astype(np.int64))
                found.setdefault(entry.task, {})[entry.agent] = steps[kept], values[:, kept]
    return found


def binned_series(group: Group, name: str) -> tuple[IntArray, Array]:
    """The mean of what each run measured in stretches of equal length, (n,) and (n_seeds, n).

    A stretch without an episode has the value of the one before; the curve begins where all have
    one.
    """
    measured = [
        np.array([(line["step"], line[name]) for line in run.lines if name in line])
        for run in group.finished
    ]
    if not measured or not all(len(one) for one in measured):
        return np.empty(0, dtype=np.int64), np.empty((len(measured), 0))
    last = max(one[-1, 0] for one in measured)
    edges = np.linspace(0, last, BINS + 1)[1:]
    values = np.array([_binned(one, edges) for one in measured])
    whole = ~np.isnan(values).any(0)
    return np.ceil(edges[whole]).astype(np.int64), values[:, whole]


def panels(
    curves: Curves,
    styles: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    log: bool = False,
    levels: Levels | None = None,
) -> Figure:
    """One panel per task with the mean of each agent over its seeds and a 95% band.

    styles  of the agents, by name, as `palette` gives them
    levels  scores of controls, drawn as horizontal lines (see `CONTROL_STYLES`)
    """
    levels = {task: (levels or {}).get(task, {}) for task in curves}
    agents = list(dict.fromkeys(agent for one in curves.values() for agent in one))
    shown = {agent: styles[agent] for agent in agents}
    controls = {control for one in levels.values() for control in one}
    shown |= {name: style for name, style in CONTROL_STYLES.items() if name in controls}
    n_columns = 1 if len(curves) == 1 else 2
    n_rows = math.ceil(len(curves) / n_columns)
    legend = 0.18 * math.ceil(len(shown) / legend_columns(list(shown))) + 0.15
    titles = {task: _title(task, LETTERS[n_columns - 1]) for task in curves}
    more = TITLE_LINE * max(title.count("\n") for title in titles.values())
    above, below = legend + 0.25 + more, 0.45  # inches
    height = legend + below + ((2.2 if n_columns == 1 else PANEL + 0.2) + more) * n_rows
    with house_style():
        figure = Figure(figsize=(WIDTH, height), facecolor="white")
        # One axis for all where they are as long, which is also drawn faster.
        ends = {steps[-1] for one in curves.values() for steps, _ in one.values()}
        alike = max(ends) <= 1.1 * min(ends)
        grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=alike)
        for axes, (task, lines) in zip(grid.flat, curves.items(), strict=False):
            axes.set_title(titles[task], fontsize=9, pad=3, y=1)  # found by itself, y costs seconds
            _draw(axes, lines, styles, log)
            for control, score in levels[task].items():
                axes.axhline(score, label=control, **CONTROL_STYLES[control])
        _trim(grid, len(curves))
        # Fixed distances: a layout that measures all texts takes seconds with so many panels.
        figure.subplots_adjust(
            left=0.17,
            right=0.97,
            top=1 - above / height,
            bottom=below / height,
            wspace=0.36,
            hspace=(0.35 if alike else 0.5) + more / PANEL,
        )
        figure.supxlabel(xlabel, fontsize=9, y=0.06 / height, verticalalignment="bottom")
        middle = (below + height - above) / 2  # of the panels, so that it keeps off the legend
        figure.supylabel(ylabel, fontsize=9, x=0.005, y=middle / height)
        _legend(figure, shown)
    return figure


def _trim(grid: Any, n_panels: int) -> None:
    """Leave out the panels (rows, columns) that have no task, and number the lowest of a column."""
    for axes in grid.flat[n_panels:]:
        axes.remove()
    for axes in grid.flat[max(0, n_panels - grid.shape[1]) : n_panels]:
        axes.tick_params(labelbottom=True)


def _draw(
    axes: Axes,
    lines: Mapping[str, tuple[IntArray, Array]],
    styles: Mapping[str, Any],
    log: bool,
) -> None:
    positive = False
    for agent, (steps, values) in lines.items():
        style = styles[agent]
        mean, low, high = mean_interval(values)
        if len(values) >= FEWEST:  # one seed or two say nothing about the spread
            band: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
            axes.fill_between(steps, low, high, color=style["color"], **band)
        dot = "o" if len(steps) == 1 else ""  # one point has no line to be seen
        axes.plot(steps, mean, label=agent, marker=dot, markersize=4, **style)
        positive = positive or bool(mean.max() > ROUNDING)
    axes.tick_params(labelsize=8)
    axes.margins(x=0)
    if log:
        axes.set_xscale("log")
    if log and positive:
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], ROUNDING))
    if log:
        plain_ticks(axes)
        for axis in (axes.xaxis, axes.yaxis):  # half of the time went into small ticks
            axis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def _title(task: str, letters: int) -> str:
    """The name of a task on one line or two; the end of one that is longer still is left out."""
    return "\n".join(wrap(task, letters, max_lines=2, placeholder="…"))


def short(value: float) -> str:
    """A number in few letters: 100k, 2.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _legend(figure: Figure, styles: Mapping[str, Any]) -> None:
    handles = [Line2D([], [], label=agent, **style) for agent, style in styles.items()]
    figure.legend(
        handles=handles,
        loc="upper left",
        ncols=legend_columns(list(styles)),
        fontsize=8.5,
        frameon=False,
        borderaxespad=0.2,
        columnspacing=1.2,
    )


def _binned(measured: Array, edges: Array) -> Array:
    """The mean of the values (n, 2: step and value) in each stretch, carried over empty ones."""
    index = np.searchsorted(edges, measured[:, 0])
    total = np.bincount(index, measured[:, 1], len(edges))
    count = np.bincount(index, minlength=len(edges))
    filled = np.flatnonzero(count)
    means = np.full(len(edges), np.nan)
    means[filled] = total[filled] / count[filled]
    # The number of stretches with an episode so far points to the last of them.
    latest = np.cumsum(count > 0) - 1
    return np.where(latest < 0, np.nan, means[filled[np.maximum(latest, 0)]])
