"""Figures over what is varied, instead of over rounds: dots with intervals, fits, solved seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.facts.plan import Run
from contrastive_ucb.facts.rules import floored_fit, sizes_of
from contrastive_ucb.report.interval import mean_interval
from contrastive_ucb.report.style import (
    GREY,
    colour,
    freeze_layout,
    house_style,
    new_figure,
    plain_ticks,
)

MINE, OTHER = colour("contrastive-ucb"), colour("rep-ucb")
ROW = 0.24  # inches an agent


@dataclass(frozen=True)
class Sweep:
    """One number a seed and run.   x (n,), values (B, n)"""

    variable: str
    x: Array
    values: Array

    @staticmethod
    def of(runs: Sequence[Run], values: Sequence[Array], variable: str) -> Sweep:
        """The labels of the runs are x, unless the variable is one that is computed from them."""
        computed = variable in ("d", "A", "1/C_S^-")
        x = [sizes_of(run)[variable] if computed else float(run.label) for run in runs]
        return Sweep(variable, np.array(x, dtype=float), np.stack(list(values), axis=-1))


def sweeps_figure(sweeps: Sequence[Sweep], title: str, ylabel: str, log: bool) -> Figure:
    """A panel a sweep, one below the other: means with 95% intervals."""
    with house_style():
        figure = new_figure(0.5 + 1.9 * len(sweeps))
        panels = np.atleast_1d(figure.subplots(len(sweeps), 1))
        for axes, sweep in zip(panels, sweeps, strict=True):
            _draw_means(axes, sweep)
            axes.set_xlabel(
                f"${sweep.variable}$" if sweep.variable == "1/C_S^-" else sweep.variable
            )
            axes.set_ylabel(ylabel)
            if log:
                axes.set_xscale("log")
                axes.set_yscale("log")
                plain_ticks(axes)
            _tick(axes, sweep.x)
        panels[0].set_title(title)
        freeze_layout(figure)
    return figure


def horizon_figure(sweeps: Sequence[Sweep], title: str) -> Figure:
    """Rounds to solve against H on logarithmic axes, where a power law is a line."""
    with house_style():
        figure = new_figure(3.3)
        axes = figure.add_subplot()
        every = {
            float(x): column for s in sweeps for x, column in zip(s.x, s.values.T, strict=True)
        }
        x = np.array(sorted(every))
        values = np.stack([every[float(at)] for at in x], axis=-1)
        spent = np.where(np.isnan(values), np.nan, values)
        axes.plot(x, spent.T, ".", color=MINE, alpha=0.35, markersize=3, label="_seeds")
        means = np.nanmean(spent, axis=0)
        axes.plot(x, means, "o", color=MINE, markersize=5, label="mean over seeds")
        fine = np.geomspace(x[0], x[-1], 100)
        for name, forward, dashes in (
            ("power law", np.log, (4, 1.5)),
            ("exponential", np.asarray, (1, 1)),
        ):
            fit = np.polyfit(forward(x), np.log(means), 1)
            line = np.exp(np.polyval(fit, forward(fine)))
            axes.plot(fine, line, color=GREY, dashes=dashes, linewidth=1.4, label=name)
        square = floored_fit(x**2, means, fine**2)
        axes.plot(fine, square, color=GREY, linewidth=1, label="$a + b H^2$")
        axes.set(xscale="log", yscale="log", xlabel="horizon $H$", ylabel="rounds", title=title)
        plain_ticks(axes)
        _tick(axes, x[(x < 9) | (x % 4 == 0)])  # the others would overlap
        axes.legend(frameon=False, fontsize=9)
        freeze_layout(figure)
    return figure


def solved_figure(groups: Mapping[str, Mapping[str, Array]], title: str) -> Figure:
    """A row of dots an agent, one a seed, filled where the task was solved (a finite round)."""
    n_rows = sum(len(group) + 1 for group in groups.values())
    with house_style():
        figure = new_figure(0.5 + ROW * n_rows)
        axes = figure.add_subplot()
        row = 0
        for name, group in groups.items():
            axes.text(0.5, row, name, fontsize=9, va="center", fontweight="bold")
            for agent, solved_at in group.items():
                row += 1
                _draw_seeds(axes, row, agent, np.isfinite(solved_at))
            row += 1
        axes.set_title(title)
        axes.set_ylim(row - 0.5, -0.5)
        axes.axis("off")
        freeze_layout(figure)
    return figure


def _draw_seeds(axes: Axes, row: int, agent: str, solved: Array) -> None:
    shade, seeds = colour(agent), np.arange(1, len(solved) + 1)
    count = int(solved.sum())
    axes.plot(
        seeds, np.full(len(seeds), row), "o", color=shade, markerfacecolor="none", label="_seeds"
    )
    axes.plot(seeds[:count], np.full(count, row), "o", color=shade, label=agent)
    text = f"{agent}: {count} of {len(seeds)}"
    axes.text(len(seeds) + 1, row, text, color=shade, fontsize=9, va="center")
    axes.set_xlim(0.4, 2.2 * len(seeds) + 2)


def _draw_means(axes: Axes, sweep: Sweep) -> None:
    mean, low, high = mean_interval(sweep.values)
    axes.errorbar(
        sweep.x,
        mean,
        yerr=[mean - low, high - mean],
        fmt="o-",
        color=MINE,
        linewidth=1.2,
        markersize=4,
        capsize=2,
    )


def _tick(axes: Axes, x: Array) -> None:
    """A tick at every value that was run."""
    axes.xaxis.set_major_locator(FixedLocator(list(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
