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
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
    StrMethodFormatter,
)

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.scores import MIN_RUNS, SEED_RESAMPLES, STATISTICS, mean_interval
from contrastive_ucb.stats.aggregate import Scores, performance_profile
from contrastive_ucb.stats.bootstrap import interval

WIDTH = 4.3  # inches, so that 9-point labels have 10 pixels on a screen 400 pixels wide
ROW = 0.24  # inches per method
ROUNDING = 1e-9  # smaller values are rounding errors
BAND_NOTE = (
    "Lines are means over seeds, bands 95% intervals of the mean (percentile bootstrap over seeds,"
    f" {SEED_RESAMPLES:,} resamples); there is no band for fewer than {MIN_RUNS} runs."
)
LOG_NOTE = "Values below the range of the logarithmic axis, such as 0, are drawn at its lower edge."
MAIN_AGENTS = ("contrastive-ucb", "contrastive-ulcb", "spr-ucb", "SPR-UCB (paper)")
GRAY, INK, PUBLISHED = "#666666", "#222222", "#7C8A99"
# Okabe and Ito's palette for color-blind readers; three colors are darker.
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
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
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
    "legend.frameon": False,
    "svg.hashsalt": "contrastive-ucb",
    "svg.fonttype": "path",  # text as shapes: it looks the same in every browser
}

Lines = Mapping[str, tuple[IntArray, Array]]  # agent -> steps (n,), values (n_seeds, n)
Curves = Mapping[str, Lines]  # by task
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
        for text in figure.findobj(Text):
            if not _is_readable(text.get_text()):
                text.set_parse_math(False)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def _is_readable(text: str) -> bool:
    """Whether matplotlib can read the $formulas$ of the text; others are drawn as they are."""
    try:
        for line in text.split("\n"):
            if "$" in line:
                MathTextParser("path").parse(line)
    except ValueError:
        return False
    return True


def color_of(agent: str) -> str:
    """The color of an agent; it depends on the name only."""
    agent = COUNTERPARTS.get(agent, agent)
    return COLORS.get(agent, SPARE[zlib.crc32(agent.encode()) % len(SPARE)])


def palette(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Distinct line styles for `names`; names that are no agent get unused colors and dashes."""
    styles: dict[str, dict[str, Any]] = {}
    for name in names:
        main = name in MAIN_AGENTS
        styles[name] = {"color": color_of(name), "linewidth": 2.2 if main else 1.4}
        styles[name] |= {"zorder": 2.5 + main / 2}
        styles[name] |= {"dashes": DASHES[name]} if name in DASHES else {}
    known = [name for name in names if COUNTERPARTS.get(name, name) in COLORS]
    used = {styles[name]["color"] for name in known}
    free = [color for color in (*SPARE, *COLORS.values()) if color not in used] or list(SPARE)
    for at, name in enumerate(name for name in names if name not in known):
        dashes = SPARE_DASHES[at % len(SPARE_DASHES)]
        styles[name] |= {"color": free[at % len(free)], "dashes": dashes}
    return styles


def plain_ticks(axes: Axes) -> None:
    """Plain numbers; logarithmic axes with a small range have ticks at 2 and 5."""
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            low, high = sorted(axis.get_view_interval())
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,)))
            axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def to_svg(figure: Figure) -> str:
    """The figure as an <svg> element for a page; ids are prefixed so that figures do not mix."""
    buffer = io.StringIO()
    no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with house_style():
        figure.savefig(buffer, format="svg", metadata=no_metadata)
    text = buffer.getvalue()
    svg = text[text.index("<svg") :].strip()
    prefix = f"f{hashlib.sha256(svg.encode()).hexdigest()[:10]}"
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
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


def _legend_columns(names: Sequence[str]) -> int:
    """The number of names that fit side by side on a phone."""
    longest = max(map(len, names))
    return 3 if longest < 16 else 2 if longest < 24 else 1


# --- Curves over rounds or steps ------------------------------------------------------------------


def panels(
    curves: Curves,
    *,
    xlabel: str,
    ylabel: str,
    styles: Mapping[str, Any] | None = None,
    log: bool = False,
    levels: Levels | None = None,
    slope: tuple[float, str] | None = None,
) -> Figure:
    """One panel per task with the mean of each agent over its seeds and a 95% band.

    styles  of the agents, by name; default: `palette`
    levels  scores of controls, drawn as horizontal lines (see `CONTROL_STYLES`)
    slope   power and label of a dotted line that starts on the first curve at K / 30, so that
            steeper curves end below it; on logarithmic axes
    """
    agents = list(dict.fromkeys(agent for lines in curves.values() for agent in lines))
    styles = styles or palette(agents)
    n_columns = 1 if len(curves) == 1 else 2
    n_rows = math.ceil(len(curves) / n_columns)
    letters = 40 if n_columns == 1 else 20
    titles = {t: "\n".join(wrap(t, letters, max_lines=2, placeholder="…")) for t in curves}
    more = 0.14 * max(title.count("\n") for title in titles.values())
    legend_rows = len(agents) / _legend_columns(agents) + (2 if levels else 0)
    height = (2.6 if n_columns == 1 else 1.6 + more) * n_rows
    whole = height + 0.4 + 0.18 * legend_rows
    with drawn(whole) as figure:
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for axes, (task, lines) in zip(grid.flat, curves.items(), strict=False):
            axes.set_title(titles[task], y=1)  # automatic y takes seconds
            _draw_means(axes, lines, styles, log, slope)
            for control, score in (levels or {}).get(task, {}).items():
                axes.axhline(score, label=control, **CONTROL_STYLES[control])
        for axes in grid.flat[len(curves) :]:
            axes.remove()
        if n_columns == 1:
            grid[0, 0].set(xlabel=xlabel, ylabel=ylabel)
        else:
            figure.supxlabel(xlabel, fontsize=9)
            figure.supylabel(ylabel, fontsize=9, y=(0.3 + height / 2) / whole)
        handles = {
            label: handle
            for axes in figure.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        place: Any = {"loc": f"outside {'lower' if n_columns == 1 else 'upper'} left"}
        columns = _legend_columns(list(handles))
        figure.legend(handles.values(), handles, ncols=columns, columnspacing=1.2, **place)
    return figure


def _draw_means(
    axes: Axes,
    lines: Lines,
    styles: Mapping[str, Any],
    log: bool,
    slope: tuple[float, str] | None,
) -> None:
    """Means and bands; on a logarithmic axis smaller values are drawn at its lower edge."""
    means = {agent: mean_interval(values) for agent, (_, values) in lines.items()}
    positive = np.concatenate([mean[mean > ROUNDING] for mean, _, _ in means.values()])
    floor = max(positive.min() / 2, ROUNDING) if log and positive.size else None
    for agent, (steps, values) in lines.items():
        mean, low, high = (x if floor is None else np.maximum(x, floor) for x in means[agent])
        if len(values) >= MIN_RUNS:
            color, shade = styles[agent]["color"], 0.2 if agent in MAIN_AGENTS else 0.1
            axes.fill_between(steps, low, high, color=color, alpha=shade, linewidth=0)
        dot = "o" if len(steps) == 1 else ""  # a single point has no line
        axes.plot(steps, mean, label=agent, marker=dot, markersize=4, **styles[agent])
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    if log:
        axes.set_xscale("log")
    if floor is not None:
        axes.set_yscale("log")
        axes.set_ylim(bottom=floor)
        steps, start = next(iter(lines.values()))[0], next(iter(means.values()))[0]
        first = int(np.searchsorted(steps, steps[-1] / 30))
        if slope and start[first] > floor:
            power, label = slope
            ends = np.array([steps[first], steps[-1]], dtype=np.float64)
            line = start[first] * (ends / ends[0]) ** power
            axes.plot(ends, line, ":", color=GRAY, linewidth=1.5, zorder=4, label=label)
    plain_ticks(axes)


def seeds_figure(
    lines: Lines,
    solved: Mapping[str, tuple[int, int]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    percent: bool = False,
    limit: float | None = None,
) -> Figure:
    """A thin line per seed and a thick line for the mean of each agent.

    solved   (solved seeds, seeds) of each agent, for the legend
    percent  whether values are fractions, shown as percentages up to 100%
    limit    a value to mark with a dotted line
    """
    styles = palette(list(lines))
    with drawn(3.0 + 0.18 * len(lines)) as figure:
        axes = figure.add_subplot()
        for agent, (steps, values) in lines.items():
            color, (count, total) = styles[agent]["color"], solved[agent]
            axes.plot(steps, values.T, label="_", color=color, linewidth=0.6, alpha=0.35)
            label = f"{agent}: solved by {count} of {total} seeds"
            axes.plot(steps, values.mean(0), label=label, **styles[agent])
        axes.margins(x=0)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        most = 1.0 if percent else max(1.0, float(axes.dataLim.y1))
        axes.set_ylim(-0.03 * most, 1.05 * most)
        plain_ticks(axes)
        if percent:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if limit is not None:
            axes.axhline(limit, color=GRAY, linestyle=":", linewidth=1.2)
        figure.legend(loc="outside lower left")
    return figure


# --- Aggregates over tasks ------------------------------------------------------------------------


def mean_figure(aggregates: pd.DataFrame, title: str, label: str) -> Figure:
    """A bar per method with its mean, largest first; methods that were run here at the bottom."""
    rows = aggregates[aggregates["statistic"] == "mean"]
    rows = rows.sort_values(["here", "value"], ascending=[True, False])
    with drawn(0.9 + ROW * (len(rows) + 1)) as figure:
        axes = figure.add_subplot()
        colors = _label_rows(axes, rows)
        hatches = ["////" if here else "" for here in rows["here"]]
        errors = [rows["value"] - rows["low"], rows["high"] - rows["value"]]  # NaN: no error bar
        look: Any = {"color": colors, "hatch": hatches, "edgecolor": "white", "linewidth": 0}
        look |= {"xerr": errors, "ecolor": INK}
        bars = axes.barh(range(len(rows)), rows["value"], height=0.7, **look)
        axes.bar_label(bars, fmt="{:.3f}", padding=4)
        axes.margins(x=0.16)
        axes.set(title=title, xlabel=fill(label, 36))
        axes.grid(axis="y", visible=False)
    return figure


def aggregates_figure(aggregates: pd.DataFrame, label: str) -> Figure:
    """A panel per statistic and a row per method: dots with 95% intervals."""
    methods = aggregates.drop_duplicates("method")
    statistics = [name for name in STATISTICS if name in set(aggregates["statistic"])]
    with drawn((0.8 + ROW * len(methods)) * len(statistics) + 0.2) as figure:
        grid = figure.subplots(len(statistics), 1, squeeze=False)[:, 0]
        for axes, name in zip(grid, statistics, strict=True):
            colors = _label_rows(axes, methods)
            own = aggregates[aggregates["statistic"] == name].set_index("method")
            for spot, (row, color) in enumerate(zip(methods.itertuples(), colors, strict=True)):
                if row.method not in own.index:
                    place = {"xycoords": axes.get_yaxis_transform(), "va": "center"}
                    axes.annotate("not published", (0.02, spot), color=GRAY, fontsize=8, **place)
                    continue
                value, low, high = own.loc[row.method, ["value", "low", "high"]]
                axes.plot([low, high], [spot, spot], color=color, linewidth=3, label="_")
                inside = "white" if pd.isna(low) else color  # hollow: there is no interval
                look: Any = {"color": color, "markerfacecolor": inside, "label": row.method}
                axes.plot([value], [spot], "D" if row.here else "o", **look)
            title = STATISTICS[name][0]
            less = " (less is better)" if name == "optimality_gap" else ""
            axes.set(title=f"{title[0].upper()}{title[1:]}{less}", xlabel=fill(label, 36))
            axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            axes.margins(x=0.08)
    return figure


def _label_rows(axes: Axes, methods: pd.DataFrame) -> list[str]:
    """Label a row per method, with a line between published and own ones; returns their colors."""
    names = [f"{row.method} ({row.runs})" for row in methods.itertuples()]
    axes.set_yticks(range(len(names)), [fill(name, 22) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    is_here = methods["here"].astype(bool)
    own = palette(list(methods.loc[is_here, "method"]))
    if 0 < len(own) < len(methods):
        axes.axhline(len(methods) - is_here.sum() - 0.5, color=GRAY, linewidth=0.8)
    known = {name: color_of(name.lower()) for name in methods["method"]}
    published = {name: known[name] if name.lower() in MAIN_AGENTS else PUBLISHED for name in known}
    return [own[name]["color"] if name in own else published[name] for name in methods["method"]]


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
        figure.legend(loc="outside lower left", ncols=columns)
    return figure


def improvement_figure(pairs: pd.DataFrame) -> Figure:
    """The probability of improvement of each pair with its 95% interval, and a line at 1/2."""
    styles = palette(list(pairs["x"]))
    with drawn(0.85 + 2 * ROW * len(pairs)) as figure:
        axes = figure.add_subplot()
        for spot, row in enumerate(pairs.itertuples()):
            color = styles[row.x]["color"]
            axes.plot([row.low, row.high], [spot, spot], color=color, linewidth=3, label="_")
            axes.plot([row.value], [spot], "D", color=color, markersize=6, label=row.x)
            interval_text = "" if pd.isna(row.low) else f" [{row.low:.2f}, {row.high:.2f}]"
            text = f"{row.x} over {row.y}: {row.value:.2f}{interval_text}"
            axes.text(0, spot - 0.22, text, fontsize=8.5, va="bottom")
        axes.axvline(0.5, color=GRAY, linewidth=1, linestyle=":", zorder=1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set(xlim=(-0.02, 1.02), ylim=(len(pairs) - 0.6, -0.8))
        axes.set(title="Probability of improvement")
        axes.set_xlabel("probability that a run beats the other")
    return figure
