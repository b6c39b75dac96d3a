"""How figures look: one colour and dash an agent, labels at the ends of the lines, fixed bytes."""

from __future__ import annotations

import hashlib
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.contrast import readable

WIDTH = 4.3  # inches, so that a label of 9 points keeps 10 pixels on a phone of 400
LINE_HEIGHT = 0.155  # inches between two labels
MANY_DECADES = 100  # a log axis up to this ratio also has ticks at 2 and 5
# What the package is about stands out.
FIRST_AGENTS = ("contrastive-ucb", "contrastive-ulcb", "spr-ucb", "SPR-UCB (paper)")
GREY = "#666666"
INK = "#222222"

# Okabe and Ito's palette, told apart with every common form of colour blindness.
COLOURS = {
    "contrastive-ucb": "#D55E00",
    "rep-ucb": "#0072B2",
    "lsvi-ucb": "#009E73",
    "ucbvi": "#B0508A",  # their pink, darker: it also has to be read as text
    "no-bonus": "#333333",
    "epsilon-greedy": "#B07A00",  # their orange, darker
    "uniform": "#2B8CC4",  # their sky blue, darker
    "midpoint-nash": "#6A3D9A",
    "tight-cce": "#7A6A00",
}
# In games and in deep agents the same idea has another name, and keeps its colour; no figure shows
# both.
SAME_IDEA = {
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

SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
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
    "svg.fonttype": "path",  # text as shapes: what was checked here is what everybody sees
}


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of this package whatever the user's own are, which come back afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def new_figure(height: float) -> Figure:
    """An empty figure, `height` inches high."""
    return Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")


def freeze_layout(figure: Figure) -> None:
    """Place everything now and for good: each later drawing would move it by a hair."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def colour(agent: str) -> str:
    """The colour of an agent; it depends on the name only."""
    agent = SAME_IDEA.get(agent, agent)
    return COLOURS.get(agent, SPARE[zlib.crc32(agent.encode()) % len(SPARE)])


def line_style(agent: str) -> dict[str, Any]:
    """How the mean of an agent is drawn; dashes say the same as colours, for print in grey."""
    first = agent in FIRST_AGENTS
    style: dict[str, Any] = {
        "color": colour(agent),
        "linewidth": 2.2 if first else 1.4,
        "zorder": 3 if first else 2.5,
    }
    if agent in DASHES:
        style["dashes"] = DASHES[agent]
    return style


def plain_ticks(axes: Axes) -> None:
    """Whole numbers and decimals on logarithmic axes, and enough of them when the range is small.

    Call it when the limits stand.
    """
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            low, high = sorted(axis.get_view_interval())
            subs = (1.0, 2.0, 5.0) if high / low < MANY_DECADES else (1.0,)
            axis.set_major_locator(LogLocator(subs=subs))
            axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
            axis.set_minor_formatter(NullFormatter())


def legend_columns(names: Sequence[str]) -> int:
    """How many names fit beside one another on a phone."""
    return 2 if len(names) > 1 and max(len(name) for name in names) < 24 else 1


@dataclass(frozen=True)
class EndLabel:
    """A name to be written at the end (x, y) of a line."""

    text: str
    x: float
    y: float
    colour: str
    bold: bool = False


def label_ends(axes: Axes, labels: list[EndLabel], height: float) -> None:
    """Write the labels right of the axes (`height` inches high), each tied to the end of its line.

    Call it last: the limits of the axes must not change any more.
    """
    ends = [_axes_fraction(axes, label) for label in labels]
    spots = spread(np.array([y for _, y in ends]), LINE_HEIGHT / height)
    for label, (x, y), spot in zip(labels, ends, spots, strict=True):
        axes.plot(
            [x, 1.01, 1.05, 1.065],
            [y, y, spot, spot],
            transform=axes.transAxes,
            color=label.colour,
            linewidth=0.7,
            clip_on=False,
            label="_leader",
        )
        axes.text(
            1.08,
            spot,
            label.text,
            transform=axes.transAxes,
            color=readable(label.colour),
            fontsize=9,
            fontweight="bold" if label.bold else "normal",
            verticalalignment="center_baseline",
        )


def spread(wanted: np.ndarray[Any, Any], distance: float) -> np.ndarray[Any, Any]:
    """Positions close to the wanted ones (n,), in the same order and at least `distance` apart."""
    spots = np.empty(len(wanted))
    blocks: list[list[int]] = []  # indices from low to high that stand shoulder to shoulder
    for index in np.argsort(wanted, kind="stable"):
        blocks.append([int(index)])
        while len(blocks) > 1 and _low(blocks[-1], wanted, distance) < distance + _high(
            blocks[-2], wanted, distance
        ):
            top = blocks.pop()
            blocks[-1] += top
    for block in blocks:
        spots[block] = _low(block, wanted, distance) + distance * np.arange(len(block))
    return spots


def to_svg(figure: Figure) -> str:
    """The figure as an <svg> element to stand inside a page: the same figure, the same bytes.

    All ids begin with a mark of the content, so that figures on one page do not mix.
    """
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with house_style():
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    svg = text[text.index("<svg") :].strip()
    mark = f"f{hashlib.sha256(svg.encode()).hexdigest()[:10]}"
    svg = re.sub(r'\bid="', f'id="{mark}-', svg)
    svg = re.sub(r'href="#', f'href="#{mark}-', svg)
    svg = svg.replace("url(#", f"url(#{mark}-")
    # The drawing's own style sheet must not reach the rest of the page.
    svg = svg.replace(">*{", f">#{mark} *{{", 1)
    return svg.replace("<svg", f'<svg id="{mark}"', 1) + "\n"


def save_png(figure: Figure, path: Path, dots_per_inch: int = 200) -> Path:
    """Write the figure as PNG, whole or not at all; the same figure gives the same bytes."""
    drawn = io.BytesIO()
    with house_style():
        figure.savefig(drawn, format="png", dpi=dots_per_inch, metadata={"Software": None})
    write_atomically(path, drawn.getvalue())
    return path


def _plain(value: float) -> str:
    return f"{value:,.10g}" if 1e-4 < value < 1e7 else f"{value:.0e}"


def _axes_fraction(axes: Axes, label: EndLabel) -> tuple[float, float]:
    at = axes.transData.transform((label.x, label.y))
    x, y = axes.transAxes.inverted().transform(at)
    return float(x), float(np.clip(y, 0, 1))


def _low(block: list[int], wanted: np.ndarray[Any, Any], distance: float) -> float:
    """The lowest spot of a block that stands around the mean of what it wants."""
    return float(wanted[block].mean()) - distance * (len(block) - 1) / 2


def _high(block: list[int], wanted: np.ndarray[Any, Any], distance: float) -> float:
    return float(wanted[block].mean()) + distance * (len(block) - 1) / 2
