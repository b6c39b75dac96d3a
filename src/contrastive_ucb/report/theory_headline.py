"""The measured exponents beside their marks, in one picture."""

from __future__ import annotations

import re
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from contrastive_ucb.facts.rows import Row
from contrastive_ucb.report.style import GREY, colour, freeze_layout, house_style, new_figure

SHOWN = {  # fact and part: what the exponent is of
    ("F1", "zeta"): "model error zeta, in k",
    ("F1", "xi"): "model error xi, in k",
    ("F2", "contrastive-ucb"): "average regret, in k",
    ("F11", "2x2"): "duality gap 2x2, in k",
    ("F11", "3x3"): "duality gap 3x3, in k",
    ("F15", "1/C_S^-"): "zeta, in $1/C_S^-$",
    ("F15", "A"): "zeta, in A",
    ("F15", "d"): "zeta, in d",
    ("F8", "exponent"): "rounds on the lock, in H",
}
LINE = 0.26  # inches an exponent
HELD, MISSED = colour("lsvi-ucb"), colour("contrastive-ucb")


def headline_figure(rows: Sequence[Row]) -> Figure:
    """Rates in the rounds k above, growth in the size of the problem below."""
    by_name = {(row.fact, row.part): row for row in rows}
    shown = [(text, by_name[key]) for key, text in SHOWN.items() if key in by_name]
    rates = [pair for pair in shown if limit_of(pair[1]) < 0]
    growths = [pair for pair in shown if limit_of(pair[1]) >= 0]
    parts = [part for part in (rates, growths) if part]
    with house_style():
        figure = new_figure(1.1 + 0.25 * len(parts) + LINE * len(shown))
        ratios = [len(part) for part in parts]
        panels = figure.subplots(len(parts), height_ratios=ratios, squeeze=False)[:, 0]
        for axes, part in zip(panels, parts, strict=True):
            _draw(axes, part)
        panels[0].set_title("Measured rates")
        panels[-1].set_xlabel("exponent; grey: the mark")
        freeze_layout(figure)
    return figure


def _draw(axes: Axes, shown: Sequence[tuple[str, Row]]) -> None:
    """A line an exponent: the mark, left of which the paper wants it, and the measured interval."""
    for at, (_, row) in enumerate(shown):
        shade = HELD if row.state == "holds" else MISSED
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [at, at], color=shade, linewidth=2.4, label="_")
        if row.value is not None:
            axes.plot([row.value], [at], "o", color=shade, markersize=5, label="_")
        limit = limit_of(row)
        axes.plot([limit, limit], [at - 0.36, at + 0.36], color=GREY, linewidth=2, label="_")
    axes.set_yticks(range(len(shown)), [text for text, _ in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def limit_of(row: Row) -> float:
    """The number of the mark, such as -1/2."""
    found = re.search(r"(-?\d+(?:\.\d+)?)(?:/(\d+))?", row.mark)
    assert found is not None
    return float(found[1]) / float(found[2] or 1)
