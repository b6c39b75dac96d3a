"""The sections of `cucb report` about runs of one kind: curves, scores, aggregates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrastive_ucb.report import aggregates as agg
from contrastive_ucb.report.aggregate_figures import aggregates_figure, mean_figure
from contrastive_ucb.report.episodes import episodes_remark, episodes_text
from contrastive_ucb.report.fair import fair_section, source_notes
from contrastive_ucb.report.html import Illustration, Section
from contrastive_ucb.report.interval import FEWEST, RESAMPLES, mean_interval
from contrastive_ucb.report.missing import Missing, seeds_text
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.panels import BINS, curves_of, panels
from contrastive_ucb.report.scores import KINDS, Entry, Kind, comparable, scores_by_agent
from contrastive_ucb.report.sections import improvement_section, profile_section
from contrastive_ucb.report.solved_section import solved_section
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.report.tables import NOTHING, Table, number_text
from contrastive_ucb.report.task_table import controls_of, shown_of, task_section
from contrastive_ucb.stats.aggregate import Scores

BAND = (
    "Lines are means over seeds, bands 95 % intervals of the mean (percentile bootstrap over seeds,"
    f" {RESAMPLES:,} resamples); there is none below {FEWEST} runs."
)
ATARI = "Beside the published scores"
EVALUATED = ("atari", "deep")  # kinds that are scored by episodes at the end


def kind_sections(
    entries: Sequence[Entry], gaps: Sequence[Missing], kind: Kind, draw: bool = True
) -> list[Section]:
    """Everything about the runs of one kind.

    draw  False: only what tables can say
    """
    scores = scores_by_agent(entries, kind)
    shared = comparable(scores)
    sections = curve_sections(entries, kind) if draw else []
    sections.append(score_section(entries, gaps, kind))
    if solved := solved_section(entries, kind):
        sections.append(solved)
    if kind is KINDS["atari"]:
        sections += [Section(ATARI, notes=tuple(source_notes())), fair_section()]
    elif table := task_section(entries, kind):
        sections.append(table)
    if shared and len(shared[0].tasks) > 1:
        names = {one.name for one in shared}
        left_out = [one.name for one in scores if one.name not in names]
        sections.append(aggregate_section(shared, kind, left_out, draw))
    if draw and shared and len(shared[0].tasks) > 1 and kind.sign > 0:
        title = f"{kind.title}: performance profiles"
        sections.append(profile_section(shared, kind.score, title))
    if draw and len(shared) > 1:
        title = f"{kind.title}: probability of improvement"
        sections.append(improvement_section(shared, kind.score, kind.sign, title))
    return sections


def curve_sections(entries: Sequence[Entry], kind: Kind) -> list[Section]:
    """The metrics of the runs over time."""
    finite = kind.curve != "charts/episodic_return"
    xlabel = "rounds" if finite else "steps"
    names = {kind.curve: kind.raw if finite else "training return"}
    if finite:
        names |= {"gap": "gap of the policy", "zeta": "model error zeta"}
        names["losses/contrastive"] = "contrastive loss"  # of networks
    names["bonus/mean"] = "mean bonus"
    styles = palette(list(dict.fromkeys(one.name for one in scores_by_agent(entries, kind))))
    controls = {
        task: {name: float(scores.mean()) for name, scores in played.items()}
        for task, played in controls_of(entries, kind).items()
    }
    drawings = []
    for name, words in names.items():
        curves = curves_of(entries, name)
        if curves:
            levels = controls if name == "charts/episodic_return" else None
            figure = panels(curves, styles, xlabel=xlabel, ylabel=words, log=finite, levels=levels)
            tasks, agents = ", ".join(curves), {agent for one in curves.values() for agent in one}
            how = f" Episodes are averaged in {BINS} stretches of equal length." * (
                name == "charts/episodic_return"
            )
            caption = f"{words[0].upper()}{words[1:]} over {xlabel}. {BAND}{how}"
            alt = f"{words} over {xlabel} of {', '.join(sorted(agents))} on {tasks}."
            drawings.append(Illustration(to_svg(figure), caption, alt))
    return [Section(f"{kind.title}: curves", (), tuple(drawings))] if drawings else []


def score_section(entries: Sequence[Entry], gaps: Sequence[Missing], kind: Kind) -> Section:
    """One number a run, and what has to be known about it."""
    less = " Less is better." if kind.sign < 0 else ""
    shown = kind.score if kind is KINDS["mdp"] else kind.raw
    said = [f"The {shown}, one number a run.{less}"]
    said.append(agg.few_text(len(entry.group.finished) for entry in entries))
    if kind is KINDS["atari"]:
        said.append(episodes_remark(entries))
    return Section(
        f"{kind.title}: scores",
        tuple(text for text in said if text),
        table=score_table(entries, gaps, kind),
        table_caption="Means over runs with 95 % intervals (percentile bootstrap over seeds,"
        f" {RESAMPLES:,} resamples) and standard deviations.",
    )


def score_table(entries: Sequence[Entry], gaps: Sequence[Missing], kind: Kind) -> Table:
    """A row for each task and agent: runs, mean with its interval, deviation, gaps."""
    lacking = {(gap.task, gap.agent): gap.seeds for gap in gaps}
    header: tuple[str, ...] = ("task", "agent", "runs", "mean", "95 % interval", "deviation")
    header += ("human-normalised",) if kind is KINDS["atari"] else ()
    header += ("episodes a run",) if kind.name in EVALUATED else ()
    rows = []
    for entry in entries:
        values = np.array(shown_of(entry, kind))
        cells: tuple[str, ...] = _summary(values)
        if kind is KINDS["atari"]:
            cells += (f"{np.mean(entry.scores):.4f}",)
        if kind.name in EVALUATED:
            cells += (episodes_text(entry),)
        missing = seeds_text(lacking.get((entry.task, entry.agent), ()))
        rows.append((entry.task, entry.agent, str(len(values)), *cells, missing or NOTHING))
    return Table((*header, "missing seeds"), tuple(rows))


def aggregate_section(
    shared: Sequence[Scores], kind: Kind, left_out: Sequence[str], draw: bool = True
) -> Section:
    """One number over all tasks for each agent; raw scores get a warning."""
    rows = agg.run_rows(shared, kind.goal)
    names = [name for name in agg.STATISTICS if name in rows[0].values]
    n_tasks = len(shared[0].tasks)
    said = [f"Over the {n_tasks} tasks that all these agents have runs of, by the {kind.score}."]
    said += ["Less is better."] if kind.sign < 0 else []
    if left_out:
        named = ", ".join(left_out)
        said.append(f"Agents left out, since they have runs of fewer tasks: {named}.")
    if kind.name in ("deep", "game", "regret"):
        said.append(
            "These scores are raw, and tasks with large ones weigh most; the probability of"
            " improvement has no such weakness."
        )
    few = agg.few_text(int(one.n_runs.min()) for one in shared)
    said += [few] if few else []
    figures = _aggregate_figures(rows, names, kind, n_tasks) if draw else ()
    table = agg.aggregate_table(rows, names)
    title = f"{kind.title}: aggregates over tasks"
    caption = (
        f"Aggregates with 95 % intervals of a stratified bootstrap over runs ({agg.RESAMPLES:,}"
        f" resamples); there is none where a task has fewer than {FEWEST} runs."
    )
    return Section(title, tuple(said), figures, table, caption)


def _aggregate_figures(
    rows: Sequence[agg.Row], names: Sequence[str], kind: Kind, n_tasks: int
) -> tuple[Illustration, ...]:
    """The dots of all statistics and, where tasks share a scale, the bars of the mean."""
    told = "; ".join(f"{row.name} {agg.estimate_text(row.values['mean'])}" for row in rows)
    dots = Illustration(
        to_svg(aggregates_figure(rows, names, kind.score)),
        "The aggregates of the table below; in brackets the runs a task. Hollow: without an"
        " interval.",
        f"Means: {told}.",
    )
    if kind.name not in ("atari", "mdp"):
        return (dots,)
    what, label = ("games", "in brackets: runs a game")
    if kind is KINDS["mdp"]:
        what, label = "tasks", f"{kind.score}; in brackets: runs a task"
    figure = mean_figure(rows, f"Mean over {n_tasks} {what}", label)
    return Illustration(to_svg(figure), f"The mean {kind.score}.", f"Means: {told}."), dots


def _summary(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[str, str, str]:
    mean, low, high = (float(one[0]) for one in mean_interval(values[:, None]))
    spread = number_text(float(values.std(ddof=1))) if len(values) > 1 else NOTHING
    if len(values) < FEWEST:
        return number_text(mean), ("one run", "two runs")[len(values) - 1], spread
    return number_text(mean), f"{number_text(low)} to {number_text(high)}", spread
