"""The page of `cucb demo`: the runs of experiments/demo.toml on the page template of the report.

`templates/demo_page.toml` lists the sections with their texts, tables and figures.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.envs import LockGame
from contrastive_ucb.evaluation.rollouts import constant_control, random_control
from contrastive_ucb.report.pages import render
from contrastive_ucb.report.plots import panels, save_png, seeds_figure, to_svg
from contrastive_ucb.report.scores import RETURN, commands_of, curve_of, finished, load_scores
from contrastive_ucb.report.tables import NOTHING, solved_seeds, summary_table
from contrastive_ucb.runs.grid import Grid
from contrastive_ucb.stats.control_scores import NAMES

TREASURE = 0.5  # an episode with a higher return found the treasure
ROUNDING = 1e-9


@cache
def content() -> Mapping[str, Any]:
    """The texts and figures of the page."""
    text = files("contrastive_ucb.report").joinpath("templates/demo_page.toml").read_text("utf-8")
    return tomllib.loads(text)


def write_demo_page(root: Path, out: Path, grid: Grid | None = None) -> Path:
    """Write the page to `out` and its figures as PNG files next to it.

    grid  the runs to show, whatever else is in the folder; None: all runs
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    loaded, page = load_scores(root), content()
    runs = loaded.runs[loaded.runs["status"] != "planned"]
    if grid is not None:
        runs = runs[runs["identity"].isin({job.spec().identity() for job in grid.jobs})]
    sections: list[dict[str, Any]] = []
    commands: list[str] = []
    n_figures = 0
    for part in page["section"]:
        own = runs[runs["task"] == part["task"]]
        if finished(own).empty:
            raise UserError(
                f"no run of {part['task']} is finished under {root}; run 'cucb demo' to its end, it"
                " continues where it stopped"
            )
        figures = []
        for drawing in part["figures"]:
            figure = demo_figure(drawing, own, loaded.curves)
            save_png(figure, out.parent / f"{drawing['name']}.png")
            n_figures += 1
            figures.append({"linear": False, **drawing, "number": n_figures, "svg": to_svg(figure)})
        solved = "; ".join(f"{agent} {n} of {total}" for agent, (n, total) in _solved(own).items())
        text = part["text"].format(solved=solved, limit=LockGame.solved_gap)
        frame = demo_table(part["columns"], own, loaded.curves)
        unfinished = own[own["status"] != "finished"]
        names = [f"{run.agent} seed {run.seed}" for run in unfinished.itertuples()]
        own_data = {"figures": figures, "text": text, "frame": frame, "unfinished": names}
        sections.append({**part, **own_data})
        for _, group in own.groupby("identity", sort=False):
            commands += commands_of(group.iloc[0].to_dict(), sorted(group["seed"]))
    agents = [f"{a}: {text}" for a, text in page["agents"].items() if a in set(runs["agent"])]
    text = render("demo", content=page, sections=sections, agents=agents, commands=commands)
    write_atomically(out, text)
    return out


def demo_figure(drawing: Mapping[str, Any], runs: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """One figure of the page: curves with bands, or a line per seed for tasks to solve."""
    lines = {}
    for agent, group in finished(runs).groupby("agent", sort=False):
        if agent in drawing.get("agents", [agent]):
            steps, values = _measured(drawing["tag"], group, curves)
            if steps.size:
                lines[str(agent)] = steps, values
    if not lines:
        raise UserError(
            f"no finished run of {runs['task'].iloc[0]} has measured {drawing['tag']!r}; repeat the"
            " demo in another folder"
        )
    labels = {"xlabel": drawing.get("xlabel", "round $k$"), "ylabel": drawing["ylabel"]}
    if "solved" in drawing:
        look = {name: drawing[name] for name in ("percent", "limit") if name in drawing}
        return seeds_figure(lines, _solved(runs), title=drawing["title"], **look, **labels)
    slope = (drawing["power"], drawing["slope"]) if "slope" in drawing else None
    log = not drawing.get("linear", False)
    return panels({drawing["title"]: lines}, slope=slope, log=log, **labels)


def demo_table(columns: str, runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Means over the finished seeds of each agent; DeepSea also has rows for the controls."""
    done = finished(runs)
    if columns == "game":  # without a bonus the certificate is 0 and has no meaning
        runs = runs.assign(certificate=runs["certificate"].where(runs["certificate"] > ROUNDING))
    if columns == "deep":
        is_treasure = curves[(curves["tag"] == RETURN) & (curves["value"] > TREASURE)]
        n_treasures = is_treasure.groupby("run").size()
        runs = runs.assign(treasures=runs["run"].map(n_treasures).fillna(0))
    frame = summary_table(runs, content()["columns"][columns])
    if columns != "deep":
        return frame
    seeds, controls = sorted(set(done["seed"])), []
    for control in (random_control, constant_control):
        records = control(done["task"].iloc[0], seeds)
        mean = f"{fmean(record['evaluation']['mean'] for record in records):.2f}"
        row = {"agent": NAMES[records[0]["algo"]], "seeds": str(len(seeds)), "evaluations": mean}
        controls.append(row)
    return pd.concat([frame, pd.DataFrame(controls)]).fillna(NOTHING)


def _measured(tag: str, runs: pd.DataFrame, curves: pd.DataFrame) -> tuple[IntArray, Array]:
    """Steps (n,) and values (n_seeds, n) of the runs of one agent."""
    if tag == "treasures":  # found so far, by episode
        own = curves[curves["tag"] == RETURN]
        returns = [own.loc[own["run"] == run, "value"].to_numpy() for run in runs["run"]]
        shortest = min(map(len, returns))
        found = np.cumsum([one[:shortest] > TREASURE for one in returns], axis=-1)
        return np.arange(1, shortest + 1), found.astype(np.float64)
    steps, values = curve_of(curves, list(runs["run"]), "gap" if tag == "value" else tag)
    if tag == "value":  # as a fraction of V*
        values = 1 - values / runs["optimal_value"].to_numpy(dtype=np.float64)[:, None]
    return steps, values


def _solved(runs: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """(solved seeds, finished seeds) of each agent."""
    groups = finished(runs).groupby("agent", sort=False)
    return {str(agent): solved_seeds(group) for agent, group in groups}
