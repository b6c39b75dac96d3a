"""Figures as pure functions of groups: curves over rounds, and who solved a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.contrast import readable
from contrastive_ucb.report.interval import mean_interval
from contrastive_ucb.report.read import Group, agent_order
from contrastive_ucb.report.style import (
    FIRST_AGENTS,
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

__all__ = [
    "BAND",
    "Curve",
    "curves",
    "lock_figure",
    "plot",
    "save_png",
    "solving_figure",
    "to_svg",
]

BAND = (
    "Lines are means over seeds, bands 95 % intervals of the mean"
    " (percentile bootstrap over seeds, 2,000 resamples)."
)
# What the theorem promises: the power of k, and how it is written.
SLOPES = {
    "average_regret": (-0.5, "slope $k^{-1/2}$"),
    "average_gap": (-0.5, "slope $k^{-1/2}$"),
    "zeta": (-1.0, "slope $k^{-1}$"),
    "xi": (-1.0, "slope $k^{-1}$"),
}
WINDOW = 30  # slopes are looked at from K / 30 on
ROUNDING = 1e-9  # smaller numbers are rounding and would only stretch a log axis
ROW = 0.24  # inches an agent in the panel of seeds that solved the task


@dataclass(frozen=True)
class Curve:
    """One measure of one agent over the rounds, and how it is drawn."""

    label: str
    steps: IntArray  # (n,)
    values: Array  # (n_seeds, n)
    style: Mapping[str, Any]  # of the mean's line, with its "color"
    first: bool = False  # the one that stands out


def curves(groups: list[Group], name: str, *, title: str, ylabel: str, log: bool = True) -> Figure:
    """What was measured under `name` over the rounds: mean and 95 % band of each agent.

    With `log` both axes are logarithmic, and a dotted line has the slope of the theorem, if there
    is one for `name`. It starts on the first agent's curve, so that steeper is seen at a glance.
    """
    measured = []
    for group in _ordered(groups):
        steps, values = group.series(name)
        if steps.size:
            first = group.agent in FIRST_AGENTS
            measured.append(Curve(group.agent, steps, values, line_style(group.agent), first))
    if not measured:
        raise UserError(
            f"no finished run has measured {name!r}; run again the commands of these runs"
        )
    return plot(measured, title=title, ylabel=ylabel, log=log, slope=SLOPES.get(name))


def plot(
    measured: list[Curve],
    *,
    title: str,
    ylabel: str,
    log: bool = True,
    slope: tuple[float, str] | None = None,
) -> Figure:
    """The mean of each curve with its band, and `slope` (power, label) through the first one."""
    height = 3.3
    with house_style():
        figure = new_figure(height)
        axes = figure.add_subplot()
        means = [_draw_mean(axes, curve) for curve in measured]
        ends = [_end(curve, mean) for curve, mean in zip(measured, means, strict=True)]
        axes.margins(x=0)
        if log:
            _set_log(axes, measured[0].steps, max(float(mean.max()) for mean in means))
            if slope and axes.get_yscale() == "log":
                ends += _draw_slope(axes, slope, measured[0].steps, means[0])
        axes.set_title(title)
        axes.set_xlabel("round $k$")
        axes.set_ylabel(ylabel)
        label_ends(axes, ends, height - 0.8)
        freeze_layout(figure)
    return figure


def lock_figure(groups: list[Group]) -> Figure:
    """The value of each policy as a part of V*, above the seeds that opened the lock."""

    def dress(axes: Axes) -> None:
        axes.set_title("Value of the policy")
        axes.set_ylabel("part of $V^*$")
        axes.set_ylim(-0.03, 1.05)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))

    return solving_figure(groups, worth, dress, "Seeds that opened the lock")


def solving_figure(
    groups: list[Group],
    measure: Callable[[Group], tuple[IntArray, Array]],
    dress: Callable[[Axes], None],
    solved: str,
) -> Figure:
    """A measure of every seed and its mean, above the seeds that solved the task.

    measure  steps (n,) and values (n_seeds, n) of a group
    dress    gives the upper panel its title, label and limits
    solved   the title of the lower panel
    """
    groups = _ordered(groups)
    upper, lower = 2.7, 0.3 + ROW * len(groups)
    with house_style():
        figure = new_figure(upper + lower)
        above, below = figure.subplots(2, 1, height_ratios=[upper, lower])
        ends = []
        for group in groups:
            steps, values = measure(group)
            if steps.size:
                style, first = line_style(group.agent), group.agent in FIRST_AGENTS
                thin = {"color": style["color"], "linewidth": 0.6, "alpha": 0.35}
                above.plot(steps, values.T, label="_", **thin)
                mean = values.mean(0)
                above.plot(steps, mean, label=group.agent, **style)
                ends.append(_end(Curve(group.agent, steps, values, style, first), mean))
        if not ends:
            task = groups[0].task if groups else "such"
            raise UserError(f"no {task} run is finished; run again the commands of these runs")
        above.set_xlabel("round $k$")
        above.margins(x=0)
        dress(above)
        label_ends(above, ends, upper - 0.8)
        _draw_solved(below, groups, solved)
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
                f" remove {run.path / 'DONE'} and run again"
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


def _draw_mean(axes: Axes, curve: Curve) -> Array:
    mean, low, high = mean_interval(curve.values)
    if len(curve.values) > 1:  # one seed says nothing about the spread
        shade = 0.22 if curve.first else 0.08  # seven bands at full strength are mud
        colour = curve.style["color"]
        axes.fill_between(curve.steps, low, high, color=colour, alpha=shade, linewidth=0)
    axes.plot(curve.steps, mean, label=curve.label, **curve.style)
    return mean


def _set_log(axes: Axes, steps: IntArray, largest: float) -> None:
    """Logarithmic axes; the second only if there is something to see on it."""
    axes.set_xscale("log")
    axes.set_xlim(max(int(steps[0]), 1), max(int(steps[-1]), 2))
    if largest > ROUNDING:
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], ROUNDING))
    plain_ticks(axes)


def _draw_slope(
    axes: Axes, slope: tuple[float, str], steps: IntArray, mean: Array
) -> list[EndLabel]:
    """The dotted line y k^power through the curve's point at K / WINDOW, and its label."""
    power, text = slope
    start = int(np.searchsorted(steps, steps[-1] / WINDOW))
    if mean[start] <= ROUNDING:
        return []
    span = np.array([steps[start], steps[-1]], dtype=np.float64)
    line = mean[start] * (span / span[0]) ** power
    axes.plot(span, line, ":", color=GREY, linewidth=1.5, zorder=4, label=text)
    return [EndLabel(text, span[1], line[1], GREY)]


def _end(curve: Curve, mean: Array) -> EndLabel:
    return EndLabel(curve.label, curve.steps[-1], mean[-1], curve.style["color"], curve.first)


def _draw_solved(axes: Axes, groups: list[Group], title: str) -> None:
    """A row of dots an agent, one dot a seed, filled where the task was solved."""
    widest = max(len(group.finished) for group in groups)
    size = min(8.0, 150 / widest)  # points; the row has about 200 of them
    for row, group in enumerate(groups):
        solved, total = solved_seeds(group)
        shade, seeds = colour(group.agent), np.arange(1, total + 1)
        dots: dict[str, Any] = {
            "marker": "o",
            "linestyle": "none",
            "color": shade,
            "markersize": size,
        }
        axes.plot(seeds, np.full(total, row), markerfacecolor="none", label="_", **dots)
        axes.plot(seeds[:solved], np.full(solved, row), label=group.agent, **dots)
        text: dict[str, Any] = {"fontsize": 9, "verticalalignment": "center"}
        text["color"] = readable(shade)
        if group.agent in FIRST_AGENTS:
            text["fontweight"] = "bold"
        axes.text(0.8 + total, row, f"{solved} of {total}", **text)
        axes.text(1.08, row, group.agent, transform=axes.get_yaxis_transform(), **text)
    axes.set_title(title)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(0.4, 0.6 + 1.35 * widest)
    axes.axis("off")
