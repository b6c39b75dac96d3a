"""All figures in one style: one color and dash per agent, labeled axes, the same bytes each time.

A figure on a logarithmic axis draws values below its range (for example a gap of 0) at the lower
edge; `LOG_NOTE` says so in captions.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    PercentFormatter,
)

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.scores import MIN_RUNS, SEED_RESAMPLES, STATISTICS, mean_interval
from contrastive_ucb.stats.aggregate import Scores, performance_profile
from contrastive_ucb.stats.bootstrap import interval

WIDTH = 4.3  # inches, so that 9-point labels have 10 pixels on a screen 400 pixels wide
LINE_HEIGHT = 0.155  # inches between two labels at the ends of lines
ROW = 0.24  # inches per agent in lists of seeds
BAR = 0.23  # inches per method in bar and dot charts
PANEL = 1.35  # inches per panel, with its title
MIN_CONTRAST = 4.5  # of small text: WCAG 2, level AA
ROUNDING = 1e-9  # smaller values are rounding errors
BAND_NOTE = (
    "Lines are means over seeds, bands 95% intervals of the mean (percentile bootstrap over seeds,"
    f" {SEED_RESAMPLES:,} resamples); there is no band for fewer than {MIN_RUNS} runs."
)
LOG_NOTE = "Values below the range of the logarithmic axis, such as 0, are drawn at its lower edge."
MAIN_AGENTS = ("contrastive-ucb", "contrastive-ulcb", "spr-ucb", "SPR-UCB (paper)")
GRAY, INK, PUBLISHED = "#666666", "#222222", "#7C8A99"
# Okabe and Ito's palette for color-blind readers; three colors are darker so that text is legible.
COLORS = {
    "contrastive-ucb": "#D55E00",
    "rep-ucb": "#0072B2",
    "lsvi-ucb": "#009E73",
    "ucbvi": "#B0508A",
    "no-bonus": "#333333",
    "epsilon-greedy": "#B07A00",
    "uniform": "#2B8CC4",
    "midpoint-nash": "#6A3D9A",
    "tight-cce": "#7A6A00",
}
COUNTERPARTS = {  # agents for games and deep agents have the color of their tabular counterpart
    "contrastive-ulcb": "contrastive-ucb",
    "rep-ulcb": "rep-ucb",
    "omni-vi": "lsvi-ucb",
    "spr-ucb": "contrastive-ucb",
    "SPR-UCB (paper)": "contrastive-ucb",
    "spr": "no-bonus",
}
SPARE = ("#332288", "#117733", "#882255", "#88562B", "#4477AA", "#AA3377")
DASHES = {
    "no-bonus": (4, 1.5),
    "spr": (4, 1.5),
    "epsilon-greedy": (6, 1.5, 1, 1.5),
    "uniform": (2, 1),
    "midpoint-nash": (7, 1.5),
    "tight-cce": (5, 1, 1, 1, 1, 1),
}
SPARE_DASHES = ((5, 1.5), (2, 1), (6, 1.5, 1, 1.5), (1, 0.8))
CONTROL_STYLES: dict[str, dict[str, Any]] = {
    "random policy": {"color": "#999999", "linewidth": 0.9},
    "best constant action": {"color": "#C49102", "linewidth": 0.9},
}
SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # part of matplotlib, so it is the same everywhere
    "font.size": 10,
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "svg.hashsalt": "contrastive-ucb",
    "svg.fonttype": "path",  # text as shapes: it looks the same in every browser
}

Curves = Mapping[str, Mapping[str, tuple[IntArray, Array]]]  # task -> agent -> steps, values
Levels = Mapping[str, Mapping[str, float]]  # task -> control -> score


# --- Style ----------------------------------------------------------------------------------------


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of this package; the user's own settings are restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


@contextmanager
def drawn(height: float) -> Iterator[Figure]:
    """An empty figure, `height` inches high, in the style of this package.

    At the end the layout is computed once; each drawing would change it a little otherwise.
    """
    with house_style():
        figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
        yield figure
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def color_of(agent: str) -> str:
    """The color of an agent; it depends on the name only."""
    agent = COUNTERPARTS.get(agent, agent)
    return COLORS.get(agent, SPARE[zlib.crc32(agent.encode()) % len(SPARE)])


def line_style(agent: str) -> dict[str, Any]:
    """Color, width and dashes of the line of an agent."""
    main = agent in MAIN_AGENTS
    style = {"color": color_of(agent), "linewidth": 2.2 if main else 1.4, "zorder": 2.5 + main / 2}
    return style | ({"dashes": DASHES[agent]} if agent in DASHES else {})


def palette(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Distinct line styles for `names`; names that are no agent get unused colors and dashes."""
    styles = {name: line_style(name) for name in names}
    known = [name for name in names if COUNTERPARTS.get(name, name) in COLORS]
    used = {styles[name]["color"] for name in known}
    free = [color for color in (*SPARE, *COLORS.values()) if color not in used] or list(SPARE)
    for at, name in enumerate(name for name in names if name not in known):
        dashes = SPARE_DASHES[at % len(SPARE_DASHES)]
        styles[name] |= {"color": free[at % len(free)], "dashes": dashes}
    return styles


def contrast(first: str, second: str) -> float:
    """WCAG contrast ratio of two colors, from 1 (equal) to 21 (black on white)."""

    def luminance(color: str) -> float:
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in to_rgb(color)
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def readable(color: str) -> str:
    """The color, darkened until it is legible as small text on white."""
    while contrast(color, "white") < MIN_CONTRAST:
        red, green, blue = to_rgb(color)
        color = to_hex((0.98 * red, 0.98 * green, 0.98 * blue))
    return color


def plain_ticks(axes: Axes) -> None:
    """Plain numbers on logarithmic axes, with ticks at 2 and 5 if the range is small."""
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            low, high = sorted(axis.get_view_interval())
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
            axis.set_minor_formatter(NullFormatter())


def log_floor(means: Sequence[Array]) -> float | None:
    """The lower end of a logarithmic axis: below the smallest positive mean; None if all are 0."""
    positive = [mean[mean > ROUNDING] for mean in means]
    smallest = min((float(mean.min()) for mean in positive if mean.size), default=None)
    return None if smallest is None else max(smallest / 2, ROUNDING)


def to_svg(figure: Figure) -> str:
    """The figure as an <svg> element for a page; ids are prefixed so that figures do not mix."""
    buffer = io.StringIO()
    no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with house_style():
        figure.savefig(buffer, format="svg", metadata=no_metadata)
    text = buffer.getvalue()
    svg = text[text.index("<svg") :].strip()
    prefix = f"f{hashlib.sha256(svg.encode()).hexdigest()[:10]}"
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = svg.replace(">*{", f">#{prefix} *{{", 1)  # the style sheet applies to this figure only
    return svg.replace("<svg", f'<svg id="{prefix}"', 1) + "\n"


def save_svg(figure: Figure, path: Path) -> None:
    """Write the figure as an SVG file."""
    write_atomically(path, '<?xml version="1.0" encoding="utf-8"?>\n' + to_svg(figure))


def save_png(figure: Figure, path: Path) -> None:
    """Write the figure as a PNG file with 200 dots per inch."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    write_atomically(path, buffer.getvalue())


# --- Labels at the ends of lines ------------------------------------------------------------------


@dataclass(frozen=True)
class EndLabel:
    """A name at the end (x, y) of a line."""

    text: str
    x: float
    y: float
    color: str
    bold: bool = False


def label_ends(axes: Axes, labels: Sequence[EndLabel], height: float) -> None:
    """Write the labels right of the axes (`height` inches high), without overlap.

    Call it last: the limits of the axes must not change afterwards.
    """
    axes.get_xlim(), axes.get_ylim()  # applies pending autoscaling, which transData does not
    to_axes = axes.transAxes.inverted()
    places = [to_axes.transform(axes.transData.transform((one.x, one.y))) for one in labels]
    ends = [(float(x), float(np.clip(y, 0, 1))) for x, y in places]
    spots = spread(np.array([y for _, y in ends]), LINE_HEIGHT / height)
    for label, (x, y), spot in zip(labels, ends, spots, strict=True):
        leader: Any = {"color": label.color, "linewidth": 0.7, "clip_on": False, "label": "_leader"}
        axes.plot([x, 1.01, 1.05, 1.065], [y, y, spot, spot], transform=axes.transAxes, **leader)
        axes.text(
            1.08,
            spot,
            label.text,
            transform=axes.transAxes,
            color=readable(label.color),
            fontsize=9,
            fontweight="bold" if label.bold else "normal",
            verticalalignment="center_baseline",
        )


def spread(wanted: Array, distance: float) -> Array:
    """Positions close to `wanted` (n,), in the same order and at least `distance` apart."""

    def ends(block: list[int]) -> tuple[float, float]:
        half = distance * (len(block) - 1) / 2
        center = float(wanted[block].mean())
        return center - half, center + half

    blocks: list[list[int]] = []  # indices from low to high that touch each other
    for index in np.argsort(wanted, kind="stable"):
        blocks.append([int(index)])
        while len(blocks) > 1 and ends(blocks[-1])[0] < distance + ends(blocks[-2])[1]:
            top = blocks.pop()
            blocks[-1] += top
    spots = np.empty(len(wanted))
    for block in blocks:
        spots[block] = ends(block)[0] + distance * np.arange(len(block))
    return spots


# --- Curves over rounds or steps ------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """One measure of one agent: steps (n,), values (n_seeds, n)."""

    label: str
    steps: IntArray
    values: Array
    style: Mapping[str, Any]
    main: bool = False

    @staticmethod
    def of(agent: str, steps: IntArray, values: Array) -> Curve:
        return Curve(agent, steps, values, line_style(agent), agent in MAIN_AGENTS)


def curve_figure(
    curves: Sequence[Curve],
    *,
    title: str,
    ylabel: str,
    xlabel: str = "round $k$",
    log: bool = True,
    slope: tuple[float, str] | None = None,
) -> Figure:
    """The mean of each curve with its 95% band, and a dotted line with `slope` (power, label).

    The dotted line starts on the first curve at K / 30, so that steeper curves end below it.
    """
    height = 3.3
    with drawn(height) as figure:
        axes = figure.add_subplot()
        means = [mean_interval(curve.values)[0] for curve in curves]
        floor = log_floor(means) if log else None
        ends = [_draw_curve(axes, curve, floor, 0.22 if curve.main else 0.08) for curve in curves]
        axes.margins(x=0)
        if log:
            steps = curves[0].steps
            _set_log_scales(axes, floor)
            axes.set_xlim(max(int(steps[0]), 1), max(int(steps[-1]), 2))
            if slope and floor is not None:
                start = int(np.searchsorted(steps, steps[-1] / 30))
                if means[0][start] > floor:
                    span = np.array([steps[start], steps[-1]], dtype=np.float64)
                    line = means[0][start] * (span / span[0]) ** slope[0]
                    axes.plot(span, line, ":", color=GRAY, linewidth=1.5, zorder=4, label=slope[1])
                    ends.append(EndLabel(slope[1], span[1], line[1], GRAY))
            plain_ticks(axes)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        label_ends(axes, ends, height - 0.8)
    return figure


def solving_figure(
    curves: Sequence[Curve],
    solved: Mapping[str, tuple[int, int]],
    *,
    title: str,
    ylabel: str,
    solved_title: str,
    xlabel: str = "round $k$",
    percent: bool = False,
    limit: float | None = None,
) -> Figure:
    """A line per seed and the mean of each agent, above the number of seeds that solved the task.

    solved   (solved seeds, seeds) of each agent
    percent  whether values are fractions, shown as percentages up to 100%
    limit    a value to mark with a dotted line
    """
    upper, lower = 2.7, 0.4 + ROW * len(solved)
    with drawn(upper + lower) as figure:
        above, below = figure.subplots(2, 1, height_ratios=[upper, lower])
        ends = [_draw_seeds(above, curve) for curve in curves]
        above.margins(x=0)
        above.set(title=title, xlabel=xlabel, ylabel=ylabel)
        most = 1.0 if percent else max(1.0, float(above.dataLim.y1))
        above.set_ylim(-0.03 * most, 1.05 * most)
        if percent:
            above.yaxis.set_major_formatter(PercentFormatter(1.0))
        if limit is not None:
            above.axhline(limit, color=GRAY, linestyle=":", linewidth=1.2)
        label_ends(above, ends, upper - 0.8)
        draw_solved(below, solved)
        below.set_title(solved_title)
    return figure


def draw_solved(axes: Axes, solved: Mapping[str, tuple[int, int]]) -> None:
    """A row of dots per agent, one dot per seed, filled if the seed solved the task."""
    widest = max(total for _, total in solved.values())
    for row, (agent, (count, total)) in enumerate(solved.items()):
        color, seeds = color_of(agent), np.arange(1, total + 1)
        dots: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": color}
        dots["markersize"] = min(8.0, 150 / max(widest, 1))  # points; a row has about 200
        axes.plot(seeds, np.full(total, row), markerfacecolor="none", label="_", **dots)
        axes.plot(seeds[:count], np.full(count, row), label=agent, **dots)
        text: dict[str, Any] = {"fontsize": 9, "va": "center", "color": readable(color)}
        text["fontweight"] = "bold" if agent in MAIN_AGENTS else "normal"
        axes.text(0.8 + total, row, f"{count} of {total}", **text)
        axes.text(1.08, row, agent, transform=axes.get_yaxis_transform(), **text)
    axes.set_ylim(len(solved) - 0.5, -0.5)
    axes.set_xlim(0.4, 0.6 + 1.35 * widest)
    axes.axis("off")


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

    styles  of the agents, by name (see `palette`)
    levels  scores of controls, drawn as horizontal lines (see `CONTROL_STYLES`)
    """
    levels = {task: (levels or {}).get(task, {}) for task in curves}
    names = {agent: styles[agent] for lines in curves.values() for agent in lines}
    controls = {control for one in levels.values() for control in one}
    names |= {name: style for name, style in CONTROL_STYLES.items() if name in controls}
    n_columns = 1 if len(curves) == 1 else 2
    n_rows = math.ceil(len(curves) / n_columns)
    legend = 0.18 * math.ceil(len(names) / _legend_columns(names)) + 0.15
    letters = 40 if n_columns == 1 else 18
    titles = {t: "\n".join(wrap(t, letters, max_lines=2, placeholder="…")) for t in curves}
    more = 0.14 * max(title.count("\n") for title in titles.values())
    above, below = legend + 0.25 + more, 0.45  # inches
    height = legend + below + ((2.2 if n_columns == 1 else PANEL + 0.2) + more) * n_rows
    with house_style():
        figure = Figure(figsize=(WIDTH, height), facecolor="white")
        last = {steps[-1] for lines in curves.values() for steps, _ in lines.values()}
        shared = max(last) <= 1.1 * min(last)
        grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=shared)
        for axes, (task, lines) in zip(grid.flat, curves.items(), strict=False):
            axes.set_title(titles[task], fontsize=9, pad=3, y=1)  # automatic y takes seconds
            _draw_panel(axes, lines, styles, log)
            for control, score in levels[task].items():
                axes.axhline(score, label=control, **CONTROL_STYLES[control])
        for axes in grid.flat[len(curves) :]:
            axes.remove()
        for axes in grid.flat[max(0, len(curves) - n_columns) : len(curves)]:
            axes.tick_params(labelbottom=True)
        # Fixed distances: a layout that measures all texts takes seconds with many panels.
        figure.subplots_adjust(
            left=0.17,
            right=0.97,
            top=1 - above / height,
            bottom=below / height,
            wspace=0.36,
            hspace=(0.35 if shared else 0.5) + more / PANEL,
        )
        figure.supxlabel(xlabel, fontsize=9, y=0.06 / height, verticalalignment="bottom")
        figure.supylabel(ylabel, fontsize=9, x=0.005, y=(below + height - above) / 2 / height)
        handles = [Line2D([], [], label=name, **style) for name, style in names.items()]
        look: dict[str, Any] = {"fontsize": 8.5, "frameon": False, "ncols": _legend_columns(names)}
        figure.legend(
            handles=handles, loc="upper left", borderaxespad=0.2, columnspacing=1.2, **look
        )
    return figure


def _draw_curve(axes: Axes, curve: Curve, floor: float | None, shade: float) -> EndLabel:
    """Mean and band; on a logarithmic axis nothing is drawn below `floor`."""
    mean, low, high = mean_interval(curve.values)
    if floor is not None:
        mean, low, high = (np.maximum(one, floor) for one in (mean, low, high))
    color = curve.style["color"]
    if len(curve.values) >= MIN_RUNS:
        axes.fill_between(curve.steps, low, high, color=color, alpha=shade, linewidth=0)
    dot = "o" if len(curve.steps) == 1 else ""  # a single point has no line
    axes.plot(curve.steps, mean, label=curve.label, marker=dot, markersize=4, **curve.style)
    return EndLabel(curve.label, curve.steps[-1], mean[-1], color, curve.main)


def _set_log_scales(axes: Axes, floor: float | None) -> None:
    """Logarithmic axes that end at `floor`; without a floor all values are 0, and y is linear."""
    axes.set_xscale("log")
    if floor is not None:
        axes.set_yscale("log")
        axes.set_ylim(bottom=floor)


def _draw_seeds(axes: Axes, curve: Curve) -> EndLabel:
    """A thin line per seed and a thick line for their mean."""
    color, mean = curve.style["color"], curve.values.mean(0)
    axes.plot(curve.steps, curve.values.T, label="_", color=color, linewidth=0.6, alpha=0.35)
    axes.plot(curve.steps, mean, label=curve.label, **curve.style)
    return EndLabel(curve.label, curve.steps[-1], mean[-1], color, curve.main)


def _draw_panel(
    axes: Axes,
    lines: Mapping[str, tuple[IntArray, Array]],
    styles: Mapping[str, Any],
    log: bool,
) -> None:
    floor = log_floor([values.mean(0) for _, values in lines.values()]) if log else None
    for agent, (steps, values) in lines.items():
        _draw_curve(axes, Curve(agent, steps, values, styles[agent]), floor, 0.15)
    axes.tick_params(labelsize=8)
    axes.margins(x=0)
    if log:
        _set_log_scales(axes, floor)
        plain_ticks(axes)
        for axis in (axes.xaxis, axes.yaxis):  # minor ticks take half of the time
            axis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


# --- Aggregates over tasks ------------------------------------------------------------------------


def mean_figure(aggregates: pd.DataFrame, title: str, label: str) -> Figure:
    """A bar per method with its mean, largest first; methods that were run here at the bottom."""
    rows = aggregates[aggregates["statistic"] == "mean"]
    rows = rows.sort_values(["here", "value"], ascending=[True, False]).reset_index(drop=True)
    spots, names, colors = _rows(rows)
    with drawn(0.95 + _row_height(names) * (spots[-1] + 1.5)) as figure:
        axes = figure.add_subplot()
        low = min(0.0, rows[["value", "low"]].min().min())
        high = max(0.0, rows[["value", "high"]].max().max())
        for row, spot, color in zip(rows.itertuples(), spots, colors, strict=True):
            look: dict[str, Any] = {"color": color, "height": 0.7, "label": row.method}
            if row.here:
                look |= {"hatch": "////", "edgecolor": "white", "linewidth": 0}
            axes.barh([spot], [row.value], **look)
            _interval_bar(axes, row.low, row.high, spot, INK, width=1.2)
            end = row.value if pd.isna(row.high) else row.high
            text: dict[str, Any] = {"fontsize": 9, "va": "center", "textcoords": "offset points"}
            axes.annotate(f"{row.value:.3f}", (max(end, 0), spot), (4, 0), **text)
        _name_rows(axes, rows, spots, names, colors)
        width = (high - low) or 1.0
        axes.set_xlim(low - 0.04 * width * (low < 0), high + 0.16 * width)
        axes.set(title=title, xlabel=fill(label, 36))
        axes.grid(axis="y", visible=False)
    return figure


def aggregates_figure(aggregates: pd.DataFrame, label: str) -> Figure:
    """A panel per statistic and a line per method: dots with 95% intervals."""
    methods = aggregates.drop_duplicates("method").reset_index(drop=True)
    statistics = [name for name in STATISTICS if name in set(aggregates["statistic"])]
    spots, names, colors = _rows(methods)
    inches = 0.85 + _row_height(names) * (spots[-1] + 1)
    with drawn(inches * len(statistics) + 0.2) as figure:
        grid = figure.subplots(len(statistics), 1, squeeze=False)[:, 0]
        for axes, name in zip(grid, statistics, strict=True):
            own = aggregates[aggregates["statistic"] == name].set_index("method")
            for row, spot, color in zip(methods.itertuples(), spots, colors, strict=True):
                _dot(axes, own, row.method, bool(row.here), spot, color)
            _name_rows(axes, methods, spots, names, colors)
            title = STATISTICS[name][0]
            less = " (less is better)" if name == "optimality_gap" else ""
            axes.set(title=f"{title[0].upper()}{title[1:]}{less}", xlabel=fill(label, 36))
            axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            axes.margins(x=0.08)
    return figure


def profile_figure(scores: Sequence[Scores], label: str) -> Figure:
    """Performance profiles: the fraction of runs above each score, with 95% bands."""
    every = np.concatenate([runs for one in scores for runs in one.runs])
    low, high = float(min(0.0, every.min())), float(np.quantile(every, 0.98))
    levels = np.linspace(low, high if high > low else low + 1, 61)
    names = [one.name for one in scores]
    styles, columns = palette(names), _legend_columns(names)
    with drawn(2.9 + 0.18 * math.ceil(len(scores) / columns)) as figure:
        axes = figure.add_subplot()
        for one in scores:
            share = interval(lambda runs: performance_profile(runs, levels), one, 1000)
            if one.n_runs.min() >= MIN_RUNS:
                band: dict[str, Any] = {"color": styles[one.name]["color"], "linewidth": 0}
                axes.fill_between(levels, share.low, share.high, alpha=0.15, **band)
            axes.plot(levels, share.estimate, label=one.name, **styles[one.name])
        axes.set(xlim=(levels[0], levels[-1]), ylim=(0, 1.03), xlabel=fill(label, 36))
        axes.set(ylabel="fraction of runs above", title="Performance profiles")
        figure.legend(loc="outside upper left", ncols=columns, fontsize=8.5, frameon=False)
    return figure


def improvement_figure(pairs: pd.DataFrame, styles: Mapping[str, Any]) -> Figure:
    """The probability of improvement of each pair with its 95% interval, and a line at 1/2."""
    with drawn(0.85 + 2 * BAR * len(pairs)) as figure:
        axes = figure.add_subplot()
        for spot, row in enumerate(pairs.itertuples()):
            color = styles[row.x]["color"]
            _interval_bar(axes, row.low, row.high, spot, color)
            axes.plot([row.value], [spot], "D", color=color, markersize=6, label=row.x)
            axes.text(0, spot - 0.22, f"{row.x} over {row.y}", fontsize=8.5, va="bottom")
        axes.axvline(0.5, color=GRAY, linewidth=1, linestyle=":", zorder=1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set(xlim=(-0.02, 1.02), ylim=(len(pairs) - 0.6, -0.8))
        axes.set(
            title="Probability of improvement", xlabel="probability that a run beats the other"
        )
    return figure


def _rows(methods: pd.DataFrame) -> tuple[list[float], list[str], list[str]]:
    """Position, name and color of each method; a gap separates published from own results."""
    n_published = int((~methods["here"].astype(bool)).sum())
    gap = 1.3 if 0 < n_published < len(methods) else 0.0
    spots = [at + gap * (at >= n_published) for at in range(len(methods))]
    names = [fill(f"{row.method} ({row.runs})", 22) for row in methods.itertuples()]
    styles = palette([row.method for row in methods.itertuples() if row.here])
    colors = []
    for row in methods.itertuples():
        own = color_of(row.method.lower()) if row.method.lower() in MAIN_AGENTS else PUBLISHED
        colors.append(styles[row.method]["color"] if row.here else own)
    return spots, names, colors


def _row_height(names: Sequence[str]) -> float:
    return BAR * (0.3 + 0.7 * max(name.count("\n") + 1 for name in names))


def _name_rows(
    axes: Axes,
    methods: pd.DataFrame,
    spots: Sequence[float],
    names: Sequence[str],
    colors: Sequence[str],
) -> None:
    axes.set_yticks(spots, names)
    rows = zip(methods.itertuples(), axes.get_yticklabels(), colors, strict=True)
    for row, tick, color in rows:
        main = row.method in MAIN_AGENTS or row.method.lower() in MAIN_AGENTS
        tick.set_color(readable(color) if row.here or main else INK)
        tick.set_fontweight("bold" if main else "normal")
    axes.set_ylim(spots[-1] + 0.6, -0.6)
    axes.tick_params(axis="y", length=0)
    here = [spot for row, spot in zip(methods.itertuples(), spots, strict=True) if row.here]
    if here and len(here) < len(methods):
        line = here[0] - 1.49
        axes.axhline(line, color=GRAY, linewidth=0.8)
        text: dict[str, Any] = {"fontsize": 8, "color": GRAY, "ha": "right", "va": "top"}
        axes.annotate("run here", (0.995, line + 0.05), xycoords=axes.get_yaxis_transform(), **text)


def _dot(axes: Axes, own: pd.DataFrame, method: str, here: bool, spot: float, color: str) -> None:
    if method not in own.index:
        text: dict[str, Any] = {"fontsize": 8, "color": GRAY, "style": "italic", "va": "center"}
        axes.annotate("not published", (0.02, spot), xycoords=axes.get_yaxis_transform(), **text)
        return
    row = own.loc[method]
    _interval_bar(axes, row["low"], row["high"], spot, color)
    inside = "white" if pd.isna(row["low"]) else color  # hollow: there is no interval
    mark = "D" if here else "o"
    axes.plot([row["value"]], [spot], mark, color=color, markerfacecolor=inside, label=method)


def _interval_bar(
    axes: Axes, low: float, high: float, spot: float, color: str, width: float = 3
) -> None:
    if not (pd.isna(low) or pd.isna(high)):
        axes.plot([low, high], [spot, spot], color=color, linewidth=width, alpha=0.75, label="_")


def _legend_columns(names: Any) -> int:
    """The number of names that fit side by side on a phone."""
    return 2 if len(names) > 1 and max(len(name) for name in names) < 24 else 1


def _plain(value: float) -> str:
    return f"{value:,.10g}" if 1e-4 < value < 1e7 else f"{value:.0e}"


def _short(value: float) -> str:
    """A short number: 100k, 2.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
