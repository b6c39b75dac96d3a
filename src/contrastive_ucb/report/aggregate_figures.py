"""Figures over all tasks: the bar chart of the mean, aggregates with intervals, profiles, chances.

What was published is drawn with round marks and plain bars, what was run here with diamonds and
hatched bars, and the two stand apart. Long figures hold one method a line, so that names can be
read on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from textwrap import fill as wrapped
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from contrastive_ucb.report.aggregates import STATISTICS, Comparison, Estimate, Row
from contrastive_ucb.report.contrast import readable
from contrastive_ucb.report.interval import FEWEST
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.style import (
    GREY,
    INK,
    freeze_layout,
    house_style,
    legend_columns,
    new_figure,
)
from contrastive_ucb.stats.aggregate import Scores, performance_profile
from contrastive_ucb.stats.bootstrap import interval

LINE = 0.23  # inches a method
LONG = 22  # letters of a name on one line
WIDE = 36  # letters below a drawing
THRESHOLDS = 61
PROFILE_RESAMPLES = 1000
GAP = 1.3  # lines between what was published and what was run here


def mean_figure(
    rows: Sequence[Row],
    title: str = "Mean human-normalised score",
    label: str = "in brackets: runs a game",
) -> Figure:
    """A bar a method, the highest first, those run here below the published ones."""
    ordered = [*_falling(row for row in rows if not row.here), *_falling(r for r in rows if r.here)]
    spots = _spots(ordered)
    with house_style():
        figure = new_figure(0.95 + _line(ordered) * (spots[-1] + 1.5))
        axes = figure.add_subplot()
        for row, spot in zip(ordered, spots, strict=True):
            _bar(axes, row, spot)
        _name_lines(axes, ordered, spots)
        axes.set_xlim(*_room([row.values["mean"] for row in ordered]))
        axes.set_title(title)
        axes.set_xlabel(wrapped(label, WIDE))
        axes.grid(axis="y", visible=False)
        freeze_layout(figure)
    return figure


def aggregates_figure(
    rows: Sequence[Row],
    names: Sequence[str] = tuple(STATISTICS),
    score: str = "human-normalised score",
) -> Figure:
    """A panel a statistic, a line a method: dots with the bars of their 95 % intervals."""
    spots = _spots(rows)
    inches = 0.62 + _line(rows) * (spots[-1] + 1)
    with house_style():
        figure = new_figure(inches * len(names) + 0.2)
        panels = figure.subplots(len(names), 1, squeeze=False)[:, 0]
        for axes, name in zip(panels, names, strict=True):
            for row, spot in zip(rows, spots, strict=True):
                _dot(axes, row, spot, name)
            _name_lines(axes, rows, spots)
            title = STATISTICS[name][0]
            less = " (less is better)" if name == "optimality_gap" else ""
            axes.set_title(f"{title[0].upper()}{title[1:]}{less}")
            axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            axes.margins(x=0.08)
        panels[-1].set_xlabel(wrapped(score, WIDE))
        freeze_layout(figure)
    return figure


def profile_figure(scores: Sequence[Scores], score: str = "human-normalised score") -> Figure:
    """The part of the runs above each score, with 95 % bands; higher is better."""
    levels = _levels(scores)
    styles = palette([one.name for one in scores])
    with house_style():
        columns = legend_columns([one.name for one in scores])
        figure = new_figure(2.9 + 0.18 * ceil(len(scores) / columns))
        axes = figure.add_subplot()
        for one in scores:
            share = interval(lambda runs: performance_profile(runs, levels), one, PROFILE_RESAMPLES)
            style = styles[one.name]
            if one.n_runs.min() >= FEWEST:
                band: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
                axes.fill_between(levels, share.low, share.high, color=style["color"], **band)
            axes.plot(levels, share.estimate, label=one.name, **style)
        axes.set(xlim=(levels[0], levels[-1]), ylim=(0, 1.03), xlabel=wrapped(score, WIDE))
        axes.set_ylabel("part of the runs above it")
        axes.set_title("Performance profiles")
        look: dict[str, Any] = {"ncols": columns, "fontsize": 8.5, "frameon": False}
        figure.legend(loc="outside upper left", **look)  # above: nothing is hidden behind it
        freeze_layout(figure)
    return figure


def improvement_figure(found: Sequence[Comparison], styles: Mapping[str, Any]) -> Figure:
    """The probability of improvement of each pair, with its 95 % interval and a line at 1/2.

    styles  of the methods, by name, as `palette` gives them
    """
    with house_style():
        figure = new_figure(0.85 + 2 * LINE * len(found))
        axes = figure.add_subplot()
        for spot, one in enumerate(found):
            shade = styles[one.x]["color"]
            _interval_bar(axes, one.chance.low, one.chance.high, spot, shade)
            axes.plot([one.chance.value], [spot], "D", color=shade, markersize=6, label=one.x)
            text: dict[str, Any] = {"fontsize": 8.5, "verticalalignment": "bottom"}
            axes.text(0, spot - 0.22, f"{one.x} over {one.y}", **text)
        axes.axvline(0.5, color=GREY, linewidth=1, linestyle=":", zorder=1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_ylim(len(found) - 0.6, -0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_title("Probability of improvement")
        axes.set_xlabel("chance that a run beats a run of the other")
        freeze_layout(figure)
    return figure


def _falling(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: -row.values["mean"].value)


def _spots(rows: Sequence[Row]) -> list[float]:
    """Where each row stands, from the top; the first one that was run here leaves a gap."""
    spots, at, before = [], 0.0, None
    for row in rows:
        if before is False and row.here:
            at += GAP
        spots.append(at)
        at, before = at + 1, row.here
    return spots


def _room(means: Sequence[Estimate]) -> tuple[float, float]:
    """The ends of the axis: zero, all bars and intervals, and on the right the numbers."""
    low = min(0.0, *(_end(one.low, one.value) for one in means))
    high = max(0.0, *(_end(one.high, one.value) for one in means))
    width = (high - low) or 1.0
    return low - 0.04 * width * (low < 0), high + 0.16 * width


def _end(end: float | None, value: float) -> float:
    return value if end is None else end


def _bar(axes: Axes, row: Row, spot: float) -> None:
    value = row.values["mean"]
    look: dict[str, Any] = {"color": row.shade, "height": 0.7, "label": row.name}
    if row.here:
        look |= {"hatch": "////", "edgecolor": "white", "linewidth": 0}
    axes.barh([spot], [value.value], **look)
    _interval_bar(axes, value.low, value.high, spot, INK, width=1.2)
    axes.annotate(
        f"{value.value:.3f}",
        (max(_end(value.high, value.value), 0), spot),
        (4, 0),
        textcoords="offset points",
        fontsize=9,
        verticalalignment="center",
    )


def _dot(axes: Axes, row: Row, spot: float, name: str) -> None:
    value = row.values.get(name)
    if value is None:
        axes.annotate(
            "not published",
            (0.02, spot),
            xycoords=axes.get_yaxis_transform(),
            fontsize=8,
            color=GREY,
            style="italic",
            verticalalignment="center",
        )
        return
    shade = row.shade
    _interval_bar(axes, value.low, value.high, spot, shade)
    mark = "D" if row.here else "o"
    # Hollow: a number without an interval.
    inside = "white" if value.low is None else shade
    axes.plot([value.value], [spot], mark, color=shade, markerfacecolor=inside, label=row.name)


def _interval_bar(
    axes: Axes, low: float | None, high: float | None, spot: float, shade: str, width: float = 3
) -> None:
    if low is not None and high is not None:
        axes.plot([low, high], [spot, spot], color=shade, linewidth=width, alpha=0.75, label="_")


def _name_lines(axes: Axes, rows: Sequence[Row], spots: Sequence[float]) -> None:
    axes.set_yticks(spots, [_wrapped(row) for row in rows])
    for row, tick in zip(rows, axes.get_yticklabels(), strict=True):
        tick.set_color(readable(row.shade) if row.here or row.first else INK)
        tick.set_fontweight("bold" if row.first else "normal")
    axes.set_ylim(spots[-1] + 0.6, -0.6)
    axes.tick_params(axis="y", length=0)
    here = [spot for row, spot in zip(rows, spots, strict=True) if row.here]
    if here and len(here) < len(rows):
        line = here[0] - 0.45 - 0.8 * GAP
        axes.axhline(line, color=GREY, linewidth=0.8)
        axes.annotate(
            "run here",
            (0.995, line + 0.05),
            xycoords=axes.get_yaxis_transform(),
            fontsize=8,
            color=GREY,
            horizontalalignment="right",
            verticalalignment="top",
        )


def _wrapped(row: Row) -> str:
    """The name and its runs, on several lines if need be, to leave room for the drawing."""
    return wrapped(f"{row.name} ({row.runs})", LONG)


def _line(rows: Sequence[Row]) -> float:
    """Inches a method needs."""
    return LINE * (0.3 + 0.7 * max(_wrapped(row).count("\n") + 1 for row in rows))


def _levels(scores: Sequence[Scores]) -> np.ndarray[Any, Any]:
    """Thresholds over nearly all scores; the few highest would squeeze the rest together."""
    every = np.concatenate([runs for one in scores for runs in one.runs])
    low, high = float(min(0.0, every.min())), float(np.quantile(every, 0.98))
    return np.linspace(low, high if high > low else low + 1, THRESHOLDS)
