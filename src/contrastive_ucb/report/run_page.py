"""The page of `cucb report`: curves, scores, aggregates and gaps of any folder of runs."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from contrastive_ucb.report import aggregates as agg
from contrastive_ucb.report.aggregate_figures import aggregates_figure, mean_figure
from contrastive_ucb.report.atari_table import published_columns, run_columns, to_html
from contrastive_ucb.report.facts import NAME as FACTS
from contrastive_ucb.report.facts import Facts, facts_section, read_facts
from contrastive_ucb.report.html import Illustration, Section, page
from contrastive_ucb.report.interval import mean_interval
from contrastive_ucb.report.markup import SORT, link, with_markup
from contrastive_ucb.report.missing import (
    Missing,
    PlansOf,
    missing_runs,
    read_entries,
    seeds_text,
)
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.panels import BINS, curves_of, panels
from contrastive_ucb.report.reproduce_page import as_games
from contrastive_ucb.report.scores import KINDS, Entry, Kind, comparable, scores_by_agent
from contrastive_ucb.report.sections import (
    improvement_section,
    missing_section,
    profile_section,
    versions,
)
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.report.tables import NOTHING, Table, number_text
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.training.files import write_atomically

BAND = (
    "Lines are means over seeds, bands 95 % intervals of the mean (percentile bootstrap over seeds,"
    " 2,000 resamples)."
)
RAW = "The raw scores of all runs"
ATARI = "Beside the published scores"
COLUMNS = ("suite", "agent", "called", "task", "hash", "seed", "status", "measure", "raw", "score")


def write_run_page(
    root: Path, out: Path, command: str, plans_of: PlansOf | None = None
) -> dict[str, int]:
    """Write the page to `out` and the scores as CSV beside it; how many runs there are.

    plans_of  what should be in the folder, beside what its sweeps have written down
    The same runs give the same bytes.
    """
    facts = read_facts(root)
    entries = read_entries(root, may_be_empty=(root / FACTS).exists())
    gaps = missing_runs(entries, root, plans_of(entries, root) if plans_of else None)
    beside = out.with_suffix(".csv")
    scores = scores_csv(entries, gaps)
    text = page_of(entries, gaps, beside.name, scores, command, facts)
    write_atomically(beside, scores)
    write_atomically(out, text)
    n_finished = sum(len(entry.group.finished) for entry in entries)
    return {"finished": n_finished, "missing": sum(len(gap.seeds) for gap in gaps)}


def page_of(
    entries: Sequence[Entry],
    gaps: Sequence[Missing],
    csv_name: str,
    scores: str,
    command: str,
    facts: Facts | None = None,
) -> str:
    """The page; `csv_name` is where the file `scores` will be, beside it."""
    kinds = [kind for kind in KINDS.values() if any(entry.kind == kind for entry in entries)]
    sections = [Section("What was run", (_overview(entries, gaps),))]
    for kind in kinds:
        own = [entry for entry in entries if entry.kind == kind]
        sections += _kind_sections(own, gaps, kind)
    if facts is not None:
        sections.append(facts_section(facts))
    below = {}
    if entries:
        sections += [missing_section(gaps), *_origin_sections(entries, scores)]
        below[RAW] = link(csv_name, csv_name)
    sections.append(Section("Make it yourself", commands=(command,)))
    if games := scores_by_agent(as_games(entries), KINDS["atari"]):
        below[ATARI] = to_html(published_columns() + run_columns(games))
    return with_markup(page("Report of runs", sections, versions()), below, SORT)


def scores_csv(entries: Sequence[Entry], gaps: Sequence[Missing]) -> str:
    """Every run that is finished with its number and score, then those that are missing."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for entry in entries:
        spec = entry.group.runs[0].spec
        own = (spec.suite, spec.agent, entry.agent, entry.task, spec.identity()[:8])
        numbers = zip(entry.group.seeds, entry.raw, entry.scores, strict=True)
        for seed, raw, score in numbers if entry.kind else ():
            measure = entry.kind.score if entry.kind else ""
            lines.writerow((*own, seed, "finished", measure, repr(raw), repr(score)))
    for gap in gaps:
        for seed in gap.seeds:
            lines.writerow(("", "", gap.agent, gap.task, "", seed, "missing", "", "", ""))
    return text.getvalue()


def score_table(entries: Sequence[Entry], gaps: Sequence[Missing], kind: Kind) -> Table:
    """A row for each task and agent: runs, mean with its interval, deviation, gaps."""
    lacking = {(gap.task, gap.agent): gap.seeds for gap in gaps}
    header = ("task", "agent", "runs", "mean", "95 % interval", "deviation")
    extra = ("human-normalised",) if kind is KINDS["atari"] else ()
    rows = []
    for entry in entries:
        values = np.array(entry.scores if kind is KINDS["mdp"] else entry.raw)
        cells: tuple[str, ...] = _summary(values)
        if extra:
            cells = (*cells, f"{np.mean(entry.scores):.4f}")
        missing = seeds_text(lacking.get((entry.task, entry.agent), ()))
        rows.append((entry.task, entry.agent, str(len(values)), *cells, missing or NOTHING))
    return Table((*header, *extra, "missing seeds"), tuple(rows))


def _summary(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[str, str, str]:
    mean, low, high = (float(one[0]) for one in mean_interval(values[:, None]))
    if len(values) < 2:
        return number_text(mean), "one run", NOTHING
    deviation = number_text(float(values.std(ddof=1)))
    return number_text(mean), f"{number_text(low)} to {number_text(high)}", deviation


def _overview(entries: Sequence[Entry], gaps: Sequence[Missing]) -> str:
    n_finished = sum(len(entry.group.finished) for entry in entries)
    tasks = {entry.task for entry in entries}
    agents = {entry.agent for entry in entries}
    n_missing = sum(len(gap.seeds) for gap in gaps)
    return (
        f"{_count(n_finished, 'finished run')} of {_count(len(agents), 'agent')} on"
        f" {_count(len(tasks), 'task')}; missing: {n_missing or 'none'}."
        " No number comes from a run that is not finished."
        " Press the name of a column to sort its table."
    )


def _count(number_of: int, what: str) -> str:
    return f"{number_of} {what}{'s' * (number_of != 1)}"


def _kind_sections(entries: Sequence[Entry], gaps: Sequence[Missing], kind: Kind) -> list[Section]:
    """Everything about the runs of one kind."""
    scores = scores_by_agent(entries, kind)
    shared = comparable(scores)
    sections = [*_curve_sections(entries, kind), _score_section(entries, gaps, kind)]
    if kind is KINDS["atari"]:
        sections.append(Section(ATARI))
    if shared and len(shared[0].tasks) > 1:
        sections.append(_aggregate_section(shared, kind, len(scores) - len(shared)))
        if kind.sign > 0:
            title = f"{kind.title}: performance profiles"
            sections.append(profile_section(shared, kind.score, title))
    if len(shared) > 1:
        title = f"{kind.title}: probability of improvement"
        sections.append(improvement_section(shared, kind.score, kind.sign, title))
    return sections


def _curve_sections(entries: Sequence[Entry], kind: Kind) -> list[Section]:
    """What was measured while the runs went on."""
    finite = kind.curve != "charts/episodic_return"
    xlabel = "rounds" if finite else "steps"
    names = {kind.curve: kind.raw if finite else "training return"}
    if finite:
        names["gap"] = "gap of the policy"
    names["bonus/mean"] = "mean bonus"
    styles = palette(list(dict.fromkeys(one.name for one in scores_by_agent(entries, kind))))
    drawings = []
    for name, words in names.items():
        curves = curves_of(entries, name)
        if curves:
            figure = panels(curves, styles, xlabel=xlabel, ylabel=words, log=finite)
            tasks, agents = ", ".join(curves), {agent for one in curves.values() for agent in one}
            how = f" Episodes are averaged in {BINS} stretches of equal length." * (
                name == "charts/episodic_return"
            )
            caption = f"{words[0].upper()}{words[1:]} over {xlabel}. {BAND}{how}"
            alt = f"{words} over {xlabel} of {', '.join(sorted(agents))} on {tasks}."
            drawings.append(Illustration(to_svg(figure), caption, alt))
    return [Section(f"{kind.title}: curves", (), tuple(drawings))] if drawings else []


def _score_section(entries: Sequence[Entry], gaps: Sequence[Missing], kind: Kind) -> Section:
    table = score_table(entries, gaps, kind)
    less = " Less is better." if kind.sign < 0 else ""
    shown = kind.score if kind is KINDS["mdp"] else kind.raw
    return Section(
        f"{kind.title}: scores",
        (f"The {shown}, one number a run.{less}",),
        table=table,
        table_caption="Means over runs with 95 % intervals (percentile bootstrap over seeds) and"
        " standard deviations.",
    )


def _aggregate_section(shared: Sequence[Scores], kind: Kind, n_left_out: int) -> Section:
    """One number over all tasks for each agent; raw scores get a warning."""
    rows = agg.run_rows(shared, kind.goal)
    names = [name for name in agg.STATISTICS if name in rows[0].values]
    n_tasks = len(shared[0].tasks)
    said = [f"Over the {n_tasks} tasks that all these agents have runs of, by the {kind.score}."]
    if n_left_out:
        said.append(f"Agents left out, since they have runs of fewer tasks: {n_left_out}.")
    if kind.name in ("deep", "game"):
        said.append(
            "These scores are raw, and tasks with large ones weigh most; the probability of"
            " improvement below has no such weakness."
        )
    told = "; ".join(f"{row.name} {agg.estimate_text(row.values['mean'])}" for row in rows)
    drawing = Illustration(
        to_svg(aggregates_figure(rows, names, kind.score)),
        "Aggregates with 95 % intervals of a stratified bootstrap over runs"
        f" ({agg.RESAMPLES:,} resamples); in brackets the runs a task."
        " Hollow: a task has one run only, so there is no interval.",
        f"Means: {told}.",
    )
    bars = []
    if kind is KINDS["atari"]:
        figure = mean_figure(rows, f"Mean over {n_tasks} games")
        bars = [Illustration(to_svg(figure), "The mean human-normalised score.", f"Means: {told}.")]
    table = agg.aggregate_table(rows, names)
    title = f"{kind.title}: aggregates over tasks"
    return Section(title, tuple(said), (*bars, drawing), table, "The same in figures.")


def _origin_sections(entries: Sequence[Entry], scores: str) -> list[Section]:
    """The single runs that everything above comes from."""
    digest = hashlib.sha256(scores.encode()).hexdigest()
    told = f"One line a run: its number as the run wrote it, and its score. SHA-256: {digest}."
    caption = (
        "The hash is the beginning of the SHA-256 of all settings but the seed; it is part of the"
        " name of the run folder."
    )
    runs = Section("Which runs these are", table=_runs_table(entries), table_caption=caption)
    return [Section(RAW, (told,)), runs]


def _runs_table(entries: Sequence[Entry]) -> Table:
    rows = []
    for entry in entries:
        spec = entry.group.runs[0].spec
        seeds = seeds_text(entry.group.seeds) or NOTHING
        own = (entry.task, entry.agent, spec.suite, spec.identity()[:8], seeds)
        rows.append(own)
    return Table(("task", "agent", "suite", "hash", "finished seeds"), tuple(rows))
