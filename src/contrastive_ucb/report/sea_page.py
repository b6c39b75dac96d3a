"""The section of the demo's page about DeepSea: the same bonus in a deep agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.evaluation.rollouts import constant_control, random_control
from contrastive_ucb.report.html import Illustration, Section
from contrastive_ucb.report.panels import CONTROL_STYLES
from contrastive_ucb.report.read import Group, missing_seeds
from contrastive_ucb.report.style import (
    FIRST_AGENTS,
    EndLabel,
    freeze_layout,
    house_style,
    label_ends,
    line_style,
    new_figure,
)
from contrastive_ucb.report.tables import NOTHING, Table, left_out, solved_text
from contrastive_ucb.stats.control_scores import NAMES

SIZE = 8
SEA = f"DeepSea-{SIZE}"
AGENT = "spr-ucb"  # whose bonus is shown
FOUND = 0.5  # a dive with the treasure earns 1, any other at most .01
HEIGHT = 2.5  # inches


@dataclass(frozen=True)
class SeaPage:
    """What the deep sea adds to the page: its figures by name, and the section around them."""

    groups: list[Group]
    shown: Group  # whose bonus is shown
    pictures: Mapping[str, Figure]

    def section(self, svgs: Mapping[str, str]) -> Section:
        """The section, with the pictures as the <svg> elements they became."""
        return _section(self.groups, self.shown, svgs)


def sea_page(groups: list[Group]) -> SeaPage:
    """The figure of the groups that dived; they come in the order in which they are listed."""
    _check_settings(groups)
    shown = next((group for group in groups if group.agent == AGENT and group.finished), None)
    if shown is None:
        raise UserError(
            f"no run of {AGENT} in the deep sea is finished;"
            " run the demo to its end, it goes on where it stopped"
        )
    return SeaPage(groups, shown, {"deep_sea": sea_figure(groups, shown)})


def sea_figure(groups: list[Group], shown: Group) -> Figure:
    """Left: the treasures that each agent and the random policy find; right: the mean bonus."""
    with house_style():
        figure = new_figure(HEIGHT)
        left, right = figure.subplots(1, 2)
        ends = [_draw(left, group, *treasures(group)) for group in groups if group.finished]
        ends.append(_draw_random(left, max(end.x for end in ends)))
        _draw(right, shown, *_measured(shown, "bonus/mean"))
        left.set(title="Treasures so far", xlabel="dives")
        right.set(title="Mean bonus", xlabel="steps")
        for axes in (left, right):
            axes.set_xlim(0, axes.dataLim.x1)
            axes.xaxis.set_major_locator(MaxNLocator(3, integer=True, steps=[1, 2, 5, 10]))
        most = max(1.0, left.dataLim.y1)
        left.set_ylim(-0.03 * most, 1.05 * most)  # a line of zeros is a line, not the axis
        left.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
        right.set_ylim(0, 1.05 * right.dataLim.y1)
        label_ends(left, ends, HEIGHT - 0.8)
        freeze_layout(figure)
    return figure


def treasures(group: Group) -> tuple[IntArray, Array]:
    """Number of dives (n,) and of treasures found so far (n_seeds, n)."""
    _, returns = _measured(group, "charts/episodic_return")
    return np.arange(1, returns.shape[1] + 1), np.cumsum(returns > FOUND, axis=1).astype(np.float64)


def _measured(group: Group, name: str) -> tuple[IntArray, Array]:
    steps, values = group.series(name)
    if not steps.size:
        raise UserError(
            f"no finished run of {group.agent} has measured {name!r};"
            " run again the commands of these runs"
        )
    return steps, values


def _draw(axes: Axes, group: Group, at: IntArray, values: Array) -> EndLabel:
    """A thin line per seed and a thick line for the mean of the values (n_seeds, n).

    Returns the label of its end.
    """
    style, mean = line_style(group.agent), values.mean(0)
    axes.plot(at, values.T, label="_", color=style["color"], linewidth=0.7, alpha=0.5)
    axes.plot(at, mean, label=group.agent, **style)
    return EndLabel(group.agent, at[-1], mean[-1], style["color"], group.agent in FIRST_AGENTS)


def _draw_random(axes: Axes, dives: float) -> EndLabel:
    """The expected treasures of the random policy: one in 2^N dives finds it."""
    name, found = NAMES["random"], dives / 2**SIZE
    axes.plot([0, dives], [0, found], label=name, **CONTROL_STYLES[name])
    return EndLabel(name, dives, found, CONTROL_STYLES[name]["color"])


def _section(groups: list[Group], shown: Group, svgs: Mapping[str, str]) -> Section:
    told = solved_text(groups)
    figure = Illustration(
        svgs["deep_sea"],
        "Figure 8. Left: number of dives that have found the treasure so far; thin lines are seeds,"
        " thick ones their mean. The line of the random policy is its expected number. Right: the"
        f" mean bonus of the steps that {AGENT} learns from, every 100 steps."
        " The bonus of a cell sinks with each visit, but it may rise for a while when the agent"
        f" comes to new cells or its features change. {_bonus_text(shown)}",
        f"Treasures over dives of {_found_text(groups)}, beside the mean bonus of {AGENT}."
        f" {_bonus_text(shown)}",
    )
    return Section(
        "The deep sea: the same bonus in a deep agent",
        (
            f"The deep sea has N x N cells, here {SIZE} x {SIZE}: a dive begins at the top left,"
            " each step goes one row down and one column to the left (if there is one) or to the"
            " right, and the treasure, worth 1, is at the bottom right. Going right costs a little,"
            f" since only a step to the left earns its 0.01 / {SIZE}. Without going right {SIZE}"
            " times in a row there is no treasure: random play finds it once in 2 to the power"
            f" {SIZE}, that is {2**SIZE}, dives on average.",
            "There is no table of cells here. A network sees the cell as a vector of zeros and a"
            " one, and learns what actions are worth from the dives that it remembers."
            f" {AGENT} computes the bonus of Contrastive UCB with the last hidden layer of that"
            " network as φ; spr goes without a bonus and has noise in its network instead.",
            "A run has solved the sea, by the rule of the benchmark that it comes from (bsuite), at"
            " the first dive by which more than one in ten of all dives so far have found the"
            f" treasure. Seeds that did: {told}.",
        ),
        (figure,),
        sea_table(groups),
        "Table 5. DeepSea: means over seeds; the dives at which it was solved are those of the"
        " seeds that solved it. The evaluations are 5 times 20 dives over the last 10% of training,"
        " without the bonus and the noise, with one action in a thousand at random; a dive with the"
        " treasure earns 1, one without at most 0.01. The random policy and the best constant"
        f" action are controls, evaluated on the same seeds.{left_out(groups)}",
    )


def sea_table(groups: list[Group]) -> Table:
    """One row per agent and control: dives, treasures, and the mean of the evaluations."""
    header = ("agent", "seeds", "dives", "treasures", "solved", "at dive", "evaluations", "seconds")
    rows = [_row(group, groups) for group in groups]
    return Table(header, (*rows, *_control_rows(groups)))


def _control_rows(groups: list[Group]) -> list[tuple[str, ...]]:
    """The controls on the seeds of the finished runs."""
    seeds = sorted({run.seed for group in groups for run in group.finished})
    rows: list[tuple[str, ...]] = []
    for control in (random_control, constant_control) if seeds else ():
        records = control(SEA, seeds)
        mean = fmean(record["evaluation"]["mean"] for record in records)
        own = (NAMES[records[0]["algo"]], str(len(seeds)))
        rows.append((*own, *(NOTHING,) * 4, f"{mean:.2f}", NOTHING))
    return rows


def _row(group: Group, groups: list[Group]) -> tuple[str, ...]:
    solved = [f"{at:,.0f}" for at in _numbers(group, "solved_at")]
    missing = ", ".join(str(seed) for seed in missing_seeds(group, groups))
    n_finished = len(group.finished)
    return (
        group.agent,
        f"{n_finished} (missing: {missing})" if missing else str(n_finished),
        _mean(_numbers(group, "episodes"), ",.0f"),
        _mean(treasures(group)[1][:, -1].tolist() if n_finished else [], ",.1f"),
        f"{len(solved)} of {n_finished}",
        ", ".join(solved) or NOTHING,
        _mean(_numbers(group, "evaluation.mean"), ".2f"),
        _mean(_numbers(group, "seconds"), ".1f"),
    )


def _numbers(group: Group, name: str) -> list[float]:
    """Of the finished runs that have the number."""
    return [value for run in group.finished if (value := run.number(name)) is not None]


def _mean(values: list[float], form: str) -> str:
    return format(fmean(values), form) if values else NOTHING


def _found_text(groups: list[Group]) -> str:
    """How many treasures each agent has found in all, in words."""
    return "; ".join(
        f"{group.agent}, {treasures(group)[1][:, -1].mean():.1f} at the end"
        for group in groups
        if group.finished
    )


def _bonus_text(group: Group) -> str:
    """Where the mean bonus was largest, and where it ended."""
    steps, values = _measured(group, "bonus/mean")
    mean = values.mean(0)
    top = int(mean.argmax())
    return (
        f"The mean over seeds was largest at step {steps[top]:,} ({mean[top]:.3f})"
        f" and is {mean[-1]:.3f} at the end."
    )


def _check_settings(groups: list[Group]) -> None:
    """Two settings of one agent would look the same, so they are refused."""
    folders = {group.agent: group.folder for group in groups}
    for group in groups:
        if group.folder != folders[group.agent]:
            raise UserError(
                f"{group.agent} has several settings of the deep sea ({group.folder},"
                f" {folders[group.agent]}); remove one or write new runs elsewhere with --out"
            )
