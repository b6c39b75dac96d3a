"""The figures of the games: what is known and what is true, one equilibrium, and the vault."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.figures import Curve, plot, solving_figure
from contrastive_ucb.report.pair import Pair
from contrastive_ucb.report.read import Group
from contrastive_ucb.report.style import (
    GREY,
    freeze_layout,
    house_style,
    line_style,
    new_figure,
)

TRUTH = {"color": "#0072B2", "linewidth": 1.4, "dashes": (4, 1.5)}
# No darker, so that ink can be read on all of them, also where a dark page turns them round.
SHADES = LinearSegmentedColormap.from_list("probability", ["#F4F4F2", "#8CC4E8"])
STRIP = 0.25  # cells between the joint play and what each player does on their own


def certificate_figure(group: Group) -> Figure:
    """The certificate of each round, which the agent knows, and the gap, which it does not."""
    measured = []
    for name, label, style in (
        ("certificate", "certificate", line_style(group.agent)),
        ("gap", "true gap", TRUTH),
    ):
        steps, values = group.series(name)
        if not steps.size:
            raise UserError(
                f"no finished run of {group.agent} has measured {name!r};"
                " run again the commands of these runs"
            )
        measured.append(Curve(label, steps, values, style, first=name == "certificate"))
    return plot(measured, title="What is known, and what is true", ylabel="gap and its bound")


def vault_figure(groups: list[Group], limit: float) -> Figure:
    """The exploitability of each round's pair, above the seeds in which it stayed below `limit`."""

    def dress(axes: Axes) -> None:
        axes.set_title("Exploitability of the pair")
        axes.set_ylabel("gap of round $k$")
        axes.set_ylim(bottom=0)
        axes.axhline(limit, color=GREY, linestyle=":", linewidth=1.2, label="_limit")

    return solving_figure(groups, lambda group: group.series("gap"), dress, "Seeds that solved it")


def equilibrium_figure(learnt: Pair, exact: Pair) -> Figure:
    """The first move of two pairs of policies: probabilities of the joint actions, side by side."""
    rows, columns = learnt.joint.shape
    cell = 1.55 / (columns + 1 + STRIP)  # inches, so that two panels stand side by side
    with house_style():
        figure = new_figure(cell * (rows + 2 + 2 * STRIP) + 0.85)
        for axes, pair, title in zip(
            figure.subplots(1, 2), (learnt, exact), ("Learnt", "Nash equilibrium"), strict=True
        ):
            _draw_pair(axes, pair, min(9.0, 24 * cell))
            axes.set_title(title)
            axes.set_ylabel("row player", loc="top", fontsize=9)
            axes.set_xlabel("column player", loc="left", fontsize=9)
        freeze_layout(figure)
    return figure


def _draw_pair(axes: Axes, pair: Pair, fontsize: float) -> None:
    """The joint play as cells, the row player's own on the right, the column player's below."""
    rows, columns = pair.joint.shape
    _draw_cells(axes, pair.joint, 0, 0, fontsize)
    _draw_cells(axes, pair.row[:, None], columns + STRIP, 0, fontsize)
    _draw_cells(axes, pair.column[None, :], 0, rows + STRIP, fontsize)
    gap = max(pair.exploitability, 0.0)  # of an equilibrium it is zero up to rounding
    told = f"value {pair.value:.3f}\nexploitability {gap:.3f}"
    axes.text(0, rows + 1 + 2 * STRIP, told, fontsize=9, verticalalignment="top")
    axes.set_xlim(0, columns + 1 + STRIP)
    axes.set_ylim(rows + 2 + 2 * STRIP, 0)
    axes.set_aspect("equal")
    axes.set_xticks([*(at + 0.5 for at in range(columns))], [f"{b + 1}" for b in range(columns)])
    axes.set_yticks([*(at + 0.5 for at in range(rows))], [f"{a + 1}" for a in range(rows)])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_cells(axes: Axes, probs: Array, left: float, top: float, fontsize: float) -> None:
    """The probabilities (m, n) as shaded cells with their numbers, from (left, top) on."""
    n_rows, n_columns = probs.shape
    across = [left + at for at in range(n_columns + 1)]
    down = [top + at for at in range(n_rows + 1)]
    axes.pcolormesh(
        across, down, probs, cmap=SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=1.5
    )
    for a in range(n_rows):
        for b in range(n_columns):
            axes.text(
                left + b + 0.5,
                top + a + 0.5,
                f"{probs[a, b]:.2f}",
                fontsize=fontsize,
                horizontalalignment="center",
                verticalalignment="center",
            )
