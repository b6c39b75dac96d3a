"""Trajectories that the rich lock takes, against its horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.style import (
    FIRST_AGENTS,
    colour,
    freeze_layout,
    house_style,
    new_figure,
    plain_ticks,
)

Runs = Sequence[Mapping[str, Any]]
Locks = Mapping[tuple[str, int], Runs]  # by algorithm and horizon
MARKS = "xv+1"  # of algorithms that spent all of their budget


class Growth(NamedTuple):
    """How trajectories grow with H: lines through the logarithms of their means."""

    power: float  # of a power law
    power_error: float  # root mean square of what it leaves
    exponential_error: float  # the same of an exponential in H


def growth_of(locks: Locks) -> Growth | None:
    """Of the means over the seeds that opened the lock; None where there are not three horizons."""
    means = {
        h: float(np.mean(found))
        for (algo, h), runs in locks.items()
        if algo in FIRST_AGENTS and (found := _spent(runs, solved=True))
    }
    if len(means) < 3:
        return None
    horizons, logs = np.array(list(means)), np.log(list(means.values()))
    (power, _), by_power = _line(np.log(horizons), logs)
    _, by_exponential = _line(horizons, logs)
    return Growth(power, by_power, by_exponential)


def trajectories_figure(locks: Locks) -> Figure:
    """A dot for every seed that opened the lock, a mark for the budget of those that did not."""
    with house_style():
        figure = new_figure(3.3)
        axes = figure.add_subplot()
        algos = sorted({algo for algo, _ in locks}, key=lambda one: (one not in FIRST_AGENTS, one))
        for number, algo in enumerate(algos):
            own = {h: runs for (name, h), runs in locks.items() if name == algo}
            _draw(axes, algo, own, MARKS[number % len(MARKS)])
        horizons = sorted({h for _, h in locks})
        axes.set(xscale="log", yscale="log", xlabel="horizon $H$", ylabel="trajectories")
        axes.set_title("Trajectories to open the rich lock")
        plain_ticks(axes)
        axes.set_xticks(horizons, [str(h) for h in horizons])
        axes.set_xticks([], minor=True)
        axes.set_ylim(top=axes.get_ylim()[1] * 6)  # room for the legend
        axes.legend(frameon=False, fontsize=9, loc="upper left")
        freeze_layout(figure)
    return figure


def _line(x: Array, y: Array) -> tuple[Array, float]:
    """Slope and height of the line of least squares, and the root mean square of what it leaves."""
    line = np.polyfit(x, y, 1)
    return line, float(np.sqrt(np.mean((np.polyval(line, x) - y) ** 2)))


def _draw(axes: Axes, algo: str, own: Mapping[int, Runs], mark: str) -> None:
    shade = colour(algo)
    opened = {h: found for h, runs in sorted(own.items()) if (found := _spent(runs, solved=True))}
    for h, found in opened.items():
        axes.plot([h] * len(found), found, ".", color=shade, alpha=0.4, markersize=4)
    if opened:
        means = [float(np.mean(found)) for found in opened.values()]
        axes.plot(list(opened), means, "o-", color=shade, markersize=5, label=algo)
    shut = {h: max(found) for h, runs in own.items() if (found := _spent(runs, solved=False))}
    if shut:
        axes.plot(list(shut), list(shut.values()), mark, color=shade, label=f"{algo}: not opened")


def _spent(runs: Runs, *, solved: bool) -> list[int]:
    return [run["trajectories"] for run in runs if (run["solved_at"] is not None) == solved]
