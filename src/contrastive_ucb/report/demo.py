"""The page of `cucb demo`: the report's page template with the demo's runs.

`templates/demo.toml` lists the sections with their texts, tables and figures.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.envs import LockGame
from contrastive_ucb.evaluation.rollouts import constant_control, random_control
from contrastive_ucb.report.load import load
from contrastive_ucb.report.pages import Illustration, Section, render
from contrastive_ucb.report.plots import (
    BAND_NOTE,
    GRAY,
    LOG_NOTE,
    Curve,
    curve_figure,
    save_png,
    solving_figure,
    to_svg,
)
from contrastive_ucb.report.scores import RETURN, curve_of, name_runs
from contrastive_ucb.report.tables import NOTHING, Table, solved_seeds, summary_table
from contrastive_ucb.stats.control_scores import NAMES

SUITE = "demo"
SEA = "DeepSea-8"
TREASURE = 0.5  # an episode with a higher return found the treasure
ROUNDING = 1e-9


@cache
def content() -> Mapping[str, Any]:
    """The texts and figures of the page."""
    text = files("contrastive_ucb.report").joinpath("templates/demo.toml").read_text("utf-8")
    return tomllib.loads(text)


def write_demo_page(
    root: Path, out: Path, commands: Sequence[str], folders: Collection[Path] | None = None
) -> Path:
    """Write the page to `out` and its figures as PNG files next to it.

    folders  the folders <root>/demo/<agent>/<task>-... to show; all by default
    """
    runs, curves = demo_runs(root, folders)
    agents, page = set(runs["agent"]), content()
    sections, figures = [], dict[str, Figure]()
    for number, part in enumerate(page["section"], 1):
        own = runs[runs["task"] == part["task"]]
        if not (own["status"] == "finished").any():
            raise UserError(
                f"no run of {part['task']} is finished under {root / SUITE}; run 'cucb demo' to its"
                " end, it continues where it stopped"
            )
        drawn = {one["name"]: (one, demo_figure(one, own, curves)) for one in part["figures"]}
        illustrations = [
            _illustration(one, figure, len(figures) + at)
            for at, (one, figure) in enumerate(drawn.values(), 1)
        ]
        figures |= {name: figure for name, (_, figure) in drawn.items()}
        text = part["text"].format(solved=_solved_text(own), limit=LockGame.solved_gap)
        table = demo_table(part, own, curves, number)
        sections.append(Section(part["heading"], (), tuple(illustrations), (text,), (table,)))
    names = tuple(f"{name}: {text}" for name, text in page["agents"].items() if name in agents)
    sections += [
        Section("Background", tuple(page["background"])),
        Section("Agents", notes=names),
        Section("Notes", notes=tuple(page["notes"])),
        Section("Reproduce these runs", commands=tuple(commands)),
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        save_png(figure, out.parent / f"{name}.png")
    write_atomically(out, render(page["title"], sections))
    return out


def demo_runs(root: Path, folders: Collection[Path] | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs and curves of the suite "demo", with one setting per agent and task."""
    loaded = load(root)
    runs = name_runs(loaded.runs)
    runs = runs[(runs["suite"] == SUITE) & (runs["status"] != "planned")]
    if folders is not None:
        runs = runs[runs["group"].isin([str(folder) for folder in folders])]
    runs = runs.assign(agent_name=runs["agent"])
    if (runs["status"] == "damaged").any():
        raise UserError(runs.loc[runs["status"] == "damaged", "problem"].iloc[0])
    for (task, agent), group in runs.groupby(["task", "agent"]):
        if group["identity"].nunique() > 1:
            found = ", ".join(group["group"].drop_duplicates())
            raise UserError(
                f"{agent} has several settings of {task} ({found}); remove one or write new runs"
                " elsewhere with --out"
            )
    return runs, loaded.curves


def demo_figure(drawing: Mapping[str, Any], runs: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """One figure of demo.toml: curves, with bands or above the seeds that solved the task."""
    done = runs[runs["status"] == "finished"]
    lines = []
    for agent, group in done.groupby("agent", sort=False):
        if agent in drawing.get("agents", [agent]):
            steps, values = _measured(drawing["tag"], group, curves)
            if steps.size:
                lines.append(Curve.of(str(agent), steps, values))
    if not lines:
        raise UserError(
            f"no finished run of {runs['task'].iloc[0]} has measured {drawing['tag']!r}; repeat the"
            " demo in another folder"
        )
    labels = {"title": drawing["title"], "ylabel": drawing["ylabel"]}
    labels["xlabel"] = drawing.get("xlabel", "round $k$")
    if "solved" not in drawing:
        slope = (drawing["power"], drawing["slope"]) if "slope" in drawing else None
        return curve_figure(lines, slope=slope, log=not drawing.get("linear", False), **labels)

    def dress(axes: Axes) -> None:
        if drawing["tag"] == "value":
            axes.set_ylim(-0.03, 1.05)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        elif drawing["tag"] == "treasures":
            most = max(1.0, axes.dataLim.y1)
            axes.set_ylim(-0.03 * most, 1.05 * most)
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
        else:
            axes.set_ylim(bottom=0)
            axes.axhline(LockGame.solved_gap, color=GRAY, linestyle=":", linewidth=1.2)

    solved = _solved(runs)
    return solving_figure(lines, solved, solved_title=drawing["solved"], dress=dress, **labels)


def demo_table(
    part: Mapping[str, Any], runs: pd.DataFrame, curves: pd.DataFrame, number: int
) -> Table:
    """Means over the finished seeds of each agent; DeepSea also has rows for the controls."""
    done = runs[runs["status"] == "finished"]
    if part["columns"] == "game":  # without a bonus the certificate is 0 and has no meaning
        runs = runs.assign(certificate=runs["certificate"].where(runs["certificate"] > ROUNDING))
    if part["columns"] == "deep":
        found = [_treasures(done[done["run"] == run], curves)[1][:, -1:] for run in done["run"]]
        total = {run: one.sum() for run, one in zip(done["run"], found, strict=True)}
        runs = runs.assign(treasures=runs["run"].map(total))
    caption = f"Table {number}. {part['table']}"
    unfinished = runs[runs["status"] != "finished"]
    if len(unfinished):
        names = [f"{row.agent} seed {row.seed}" for row in unfinished.itertuples()]
        caption += f" Unfinished and left out: {', '.join(names)}."
    columns = {key: tuple(one) for key, one in content()["columns"][part["columns"]].items()}
    table = summary_table(runs, columns, caption)
    if part["columns"] != "deep":
        return table
    rows, seeds = table.body, sorted(set(done["seed"]))
    for control in (random_control, constant_control):
        records = control(SEA, seeds)
        mean = f"{fmean(record['evaluation']['mean'] for record in records):.2f}"
        row = dict.fromkeys(table.header, NOTHING)
        row |= {"agent": NAMES[records[0]["algo"]], "seeds": str(len(seeds)), "evaluations": mean}
        rows.append(list(row.values()))
    return Table(pd.DataFrame(rows, columns=table.header), table.caption)


def _measured(tag: str, runs: pd.DataFrame, curves: pd.DataFrame) -> tuple[IntArray, Array]:
    """Steps (n,) and values (n_seeds, n) of the runs of one agent."""
    if tag == "treasures":
        return _treasures(runs, curves)
    if tag != "value":
        return curve_of(curves, list(runs["run"]), tag)
    steps, gaps = curve_of(curves, list(runs["run"]), "gap")
    best = runs["optimal_value"].to_numpy(dtype=np.float64)
    if not (best > 0).all():
        run = runs["run"].iloc[int(np.argmin(best))]
        raise UserError(f"{run}/DONE has no positive optimal_value; remove the file and run again")
    return steps, 1 - gaps / best[:, None]


def _treasures(runs: pd.DataFrame, curves: pd.DataFrame) -> tuple[IntArray, Array]:
    """Episodes (n,) and the number of treasures found so far (n_seeds, n)."""
    own = curves[curves["tag"] == RETURN]
    returns = [own.loc[own["run"] == run, "value"].to_numpy() for run in runs["run"]]
    shortest = min(map(len, returns), default=0)
    found = np.cumsum([one[:shortest] > TREASURE for one in returns], axis=-1).astype(np.float64)
    return np.arange(1, shortest + 1), found


def _illustration(drawing: Mapping[str, Any], figure: Figure, number: int) -> Illustration:
    notes = "" if "solved" in drawing else f" {BAND_NOTE}"
    notes += "" if "solved" in drawing or drawing.get("linear") else f" {LOG_NOTE}"
    caption = f"Figure {number}. {drawing['caption']}{notes}"
    return Illustration(to_svg(figure), caption, f"{drawing['title']} of each agent.")


def _solved(runs: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """(solved seeds, finished seeds) of each agent."""
    done = runs[runs["status"] == "finished"]
    return {str(agent): solved_seeds(group) for agent, group in done.groupby("agent", sort=False)}


def _solved_text(runs: pd.DataFrame) -> str:
    return "; ".join(
        f"{agent} {count} of {total}" for agent, (count, total) in _solved(runs).items()
    )
