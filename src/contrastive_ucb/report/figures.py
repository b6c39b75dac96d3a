"""Figures as pure functions of groups: curves over rounds, and who opened the lock."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.errors import UserError
from contrastive_ucb.report.interval import mean_interval
from contrastive_ucb.report.read import Group, agent_order
from contrastive_ucb.report.style import (
    FIRST_AGENT,
    GREY,
    EndLabel,
    colour,
    freeze_layout,
    house_style,
    label_ends,
    line_style,
    new_figure,
    plain_ticks,
    save_png,
    to_svg,
)
from contrastive_ucb.report.tables import solved_seeds

__all__ = ["BAND", "curves", "lock_figure", "save_png", "to_svg"]

BAND = (
    "Lines are means over seeds, bands 95 % intervals of the mean"
    " (percentile bootstrap over seeds, 2,000 resamples)."
)
# What the theorem promises: the power of k, and how it is written.
SLOPES = {
    "average_regret": (-0.5, "slope $k^{-1/2}$"),
    "zeta": (-1.0, "slope $k^{-1}$"),
    "xi": (-1.0, "slope $k^{-1}$"),
}
WINDOW = 30  # slopes are looked at from K / 30 on
ROUNDING = 1e-9  # smaller numbers are rounding and would only stretch a log axis
ROW = 0.24  # inches an agent in the panel of opened locks


def curves(groups: list[Group], name: str, *, title: str, ylabel: str, log: bool = True) -> Figure:
    """What was measured under `name` over the rounds: mean and 95 % band of each agent.

    With `log` both axes are logarithmic, and a dotted line has the slope of the theorem, if there
    is one for `name`. It starts on the first agent's curve, so that steeper is seen at a glance.
    """
    height = 3.3
    with house_style():
        figure = new_figure(height)
        axes = figure.add_subplot()
        drawn = []
        for group in _ordered(groups):
            steps, values = group.series(name)
            if steps.size:
                drawn.append((group, steps, _draw_mean(axes, group.agent, steps, values)))
        if not drawn:
            raise UserError(
                f"no finished run has measured {name!r}; run again the commands of these runs"
            )
        ends = [_end(group.agent, steps, mean) for group, steps, mean in drawn]
        axes.margins(x=0)
        if log:
            _set_log(axes, drawn[0][1], max(float(mean.max()) for _, _, mean in drawn))
            if name in SLOPES and axes.get_yscale() == "log":
                ends += _draw_slope(axes, name, drawn[0][1], drawn[0][2])
        axes.set_title(title)
        axes.set_xlabel("round $k$")
        axes.set_ylabel(ylabel)
        label_ends(axes, ends, height - 0.8)
        freeze_layout(figure)
    return figure


def lock_figure(groups: list[Group]) -> Figure:
    """The value of each policy as a part of V*, above the seeds that opened the lock."""
    groups = _ordered(groups)
    upper, lower = 2.7, 0.3 + ROW * len(groups)
    with house_style():
        figure = new_figure(upper + lower)
        above, below = figure.subplots(2, 1, height_ratios=[upper, lower])
        ends = []
        for group in groups:
            steps, values = worth(group)
            if steps.size:
                above.plot(
                    steps, values.T, color=colour(group.agent), linewidth=0.6, alpha=0.35, label="_"
                )
                mean = values.mean(0)
                above.plot(steps, mean, label=group.agent, **line_style(group.agent))
                ends.append(_end(group.agent, steps, mean))
        if not ends:
            raise UserError("no lock run is finished; run again the commands of these runs")
        above.set_title("Value of the policy")
        above.set_xlabel("round $k$")
        above.set_ylabel("part of $V^*$")
        above.set_ylim(-0.03, 1.05)
        above.margins(x=0)
        above.yaxis.set_major_formatter(PercentFormatter(1.0))
        label_ends(above, ends, upper - 0.8)
        _draw_opened(below, groups)
        freeze_layout(figure)
    return figure


def worth(group: Group) -> tuple[IntArray, Array]:
    """The value of the policy as a part of V*, 1 - gap / V*: steps (n,), values (n_seeds, n)."""
    steps, gaps = group.series("gap")
    optimal = [run.number("optimal_value") for run in group.finished]
    for run, value in zip(group.finished, optimal, strict=True):
        if not value or value < 0:
            raise UserError(
                f"{run.path / 'DONE'} has optimal_value {value}, which must be positive;"
                f" remove {run.path} and run again"
            )
    return steps, 1 - gaps / np.array(optimal, dtype=np.float64).reshape(-1, 1)


def _ordered(groups: list[Group]) -> list[Group]:
    """The first agent first; two settings of one agent would look the same, so they are refused."""
    agents = [group.agent for group in groups]
    for agent in agents:
        if agents.count(agent) > 1:
            folders = ", ".join(str(g.folder) for g in groups if g.agent == agent)
            raise UserError(
                f"{agent} has {agents.count(agent)} settings of this task ({folders});"
                " a figure shows one: remove the others or write new runs elsewhere with --out"
            )
    return sorted(groups, key=lambda group: agent_order(group.agent))


def _draw_mean(axes: Axes, agent: str, steps: IntArray, values: Array) -> Array:
    mean, low, high = mean_interval(values)
    if len(values) > 1:  # one seed says nothing about the spread
        shade = 0.22 if agent == FIRST_AGENT else 0.08  # seven bands at full strength are mud
        axes.fill_between(steps, low, high, color=colour(agent), alpha=shade, linewidth=0)
    axes.plot(steps, mean, label=agent, **line_style(agent))
    return mean


def _set_log(axes: Axes, steps: IntArray, largest: float) -> None:
    """Logarithmic axes; the second only if there is something to see on it."""
    axes.set_xscale("log")
    axes.set_xlim(max(int(steps[0]), 1), max(int(steps[-1]), 2))
    if largest > ROUNDING:
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], ROUNDING))
    plain_ticks(axes)


def _draw_slope(axes: Axes, name: str, steps: IntArray, mean: Array) -> list[EndLabel]:
    """The dotted line y k^power through the curve's point at K / WINDOW, and its label."""
    power, text = SLOPES[name]
    start = int(np.searchsorted(steps, steps[-1] / WINDOW))
    if mean[start] <= ROUNDING:
        return []
    span = np.array([steps[start], steps[-1]], dtype=np.float64)
    line = mean[start] * (span / span[0]) ** power
    axes.plot(span, line, ":", color=GREY, linewidth=1.5, zorder=4, label=text)
    return [EndLabel(text, span[1], line[1], GREY)]


def _end(agent: str, steps: IntArray, mean: Array) -> EndLabel:
    return EndLabel(agent, steps[-1], mean[-1], colour(agent), agent == FIRST_AGENT)


def _draw_opened(axes: Axes, groups: list[Group]) -> None:
    """A row of dots an agent, one dot a seed, filled where the lock was opened."""
    widest = max(len(group.finished) for group in groups)
    size = min(8.0, 150 / widest)  # points; the row has about 200 of them
    for row, group in enumerate(groups):
        opened, total = solved_seeds(group)
        shade, seeds = colour(group.agent), np.arange(1, total + 1)
        dots: dict[str, Any] = {
            "marker": "o",
            "linestyle": "none",
            "color": shade,
            "markersize": size,
        }
        axes.plot(seeds, np.full(total, row), markerfacecolor="none", label="_", **dots)
        axes.plot(seeds[:opened], np.full(opened, row), label=group.agent, **dots)
        text: dict[str, Any] = {"color": shade, "fontsize": 9, "verticalalignment": "center"}
        if group.agent == FIRST_AGENT:
            text["fontweight"] = "bold"
        axes.text(0.8 + total, row, f"{opened} of {total}", **text)
        axes.text(1.08, row, group.agent, transform=axes.get_yaxis_transform(), **text)
    axes.set_title("Seeds that opened the lock")
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(0.4, 0.6 + 1.35 * widest)
    axes.axis("off")
