"""Pages from data: `report_page` for any folder of runs, and `render` for all pages.

A page is a title and a list of `Section`s. The templates write it as HTML, Markdown or LaTeX.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from contrastive_ucb.core.versions import versions
from contrastive_ucb.report import tables as tab
from contrastive_ucb.report.load import Loaded, read_facts
from contrastive_ucb.report.plots import (
    BAND_NOTE,
    LOG_NOTE,
    aggregates_figure,
    improvement_figure,
    mean_figure,
    palette,
    panels,
    profile_figure,
    to_svg,
)
from contrastive_ucb.report.scores import (
    BINS,
    FEW_RUNS,
    KINDS,
    MIN_RUNS,
    PAIR_RESAMPLES,
    RESAMPLES,
    RETURN,
    SEED_RESAMPLES,
    Kind,
    aggregate,
    comparable,
    curve_of,
    finished,
    improvements,
    missing_runs,
    scores_by_agent,
)
from contrastive_ucb.report.tables import Table
from contrastive_ucb.stats.aggregate import Scores

N_NAMED = 4  # groups that a remark lists by name
EPISODES = 100  # of the published evaluations on Atari
SCALED = ("atari", "mdp")  # kinds whose scores have a common scale


@dataclass(frozen=True)
class Illustration:
    """A figure with its caption and its description for screen readers."""

    svg: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """A part of a page, in this order; texts may contain `code` and **bold**."""

    heading: str = ""
    lead: tuple[str, ...] = ()  # above the figures
    figures: tuple[Illustration, ...] = ()
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    link: str = ""


@cache
def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader("contrastive_ucb.report"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    env.filters |= {"tokens": tab.tokens, "markdown": tab.to_markdown, "latex": tab.to_latex}
    return env


def render(title: str, sections: Sequence[Section], suffix: str = ".html") -> str:
    """The page as .html, .md or .tex; the same sections give the same bytes."""
    env = _environment()
    assert env.loader is not None
    script = env.loader.get_source(env, "sort.js")[0]
    made_with = versions(("numpy", "scipy", "matplotlib"))
    return env.get_template(f"page{suffix}.j2").render(
        title=title,
        sections=sections,
        footer="Made with " + ", ".join(f"{name} {one}" for name, one in made_with.items()) + ".",
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def report_files(loaded: Loaded, out: Path, command: str, facts: Path | None) -> dict[Path, str]:
    """The page or its tables, by the suffix of `out`, and the scores as CSV.

    loaded  runs with scores, see `load_scores`
    """
    runs, missing, draw = loaded.runs, missing_runs(loaded.runs), out.suffix == ".html"
    csv, beside = tab.scores_csv(runs, missing), out.with_suffix(".csv")
    sections = [_overview(loaded, draw)]
    for kind in KINDS.values():
        own = finished(runs[runs["kind"] == kind.name])
        if len(own):
            sections += _kind_sections(own, loaded.curves, missing, kind, draw)
    if (measured := read_facts(loaded.root, facts)) is not None:
        sections.append(_facts_section(measured))
    if len(runs):
        sections.append(missing_section(missing, loaded.problems))
        digest = hashlib.sha256(csv.encode()).hexdigest()
        text = (
            f"One line per run: its number as the run wrote it, and its score. SHA-256: {digest}."
        )
        if draw:
            sections.append(Section("Raw scores of all runs", (text,), link=beside.name))
        sections.append(_origin_section(runs))
    sections.append(Section("Reproduce this page", commands=(command,)))
    return {beside: csv, out: render("Report of runs", sections, out.suffix)}


def counts_of(loaded: Loaded) -> dict[str, int]:
    """The numbers of finished, missing and damaged runs."""
    missing = missing_runs(loaded.runs)["seeds"].map(len).sum()
    n_finished = len(finished(loaded.runs))
    return {"finished": n_finished, "missing": int(missing), "damaged": len(loaded.problems)}


def _overview(loaded: Loaded, draw: bool) -> Section:
    counts, begun = counts_of(loaded), loaded.runs[loaded.runs["status"] != "planned"]
    damaged = f"; damaged: {counts['damaged']}" if counts["damaged"] else ""
    text = (
        f"{_count(counts['finished'], 'finished run')} of"
        f" {_count(begun['agent_name'].nunique(), 'agent')} on"
        f" {_count(begun['task_name'].nunique(), 'task')}; missing: {counts['missing'] or 'none'}"
        f"{damaged}. Unfinished runs contribute no numbers."
        f"{' Click a column name to sort a table.' * draw}"
    )
    return Section("Overview", (text,))


def missing_section(missing: pd.DataFrame, problems: Sequence[str]) -> Section:
    """Missing and damaged runs with the commands that complete them."""
    n_runs = int(missing["seeds"].map(len).sum())
    text = f"Unfinished runs: {n_runs}." if n_runs else "No run is missing."
    if problems:
        text += (
            f" Damaged runs, which are left out everywhere else: {len(problems)} (see the list)."
        )
    if n_runs and not all(missing["commands"]):
        text += (
            " Runs without a command below were stored without their inputs; repeat the command"
            " that started them."
        )
    commands = dict.fromkeys(command for own in missing["commands"] for command in own)
    caption = "The commands below complete these runs; finished runs are not repeated."
    caption = caption if commands else ""
    return Section(
        "Missing runs",
        (text,),
        tables=(tab.missing_table(missing, caption),) if n_runs else (),
        notes=tuple(problems),
        commands=tuple(commands),
    )


def improvement_section(
    scores: Sequence[Scores], kind: Kind, title: str = "Probability of improvement"
) -> Section:
    """Pairwise comparisons of methods on the same tasks."""
    pairs = improvements(scores, kind.sign)
    caption = (
        "The probability that a run of one method beats a run of the other on a random task (ties"
        " count one half), with its 95% interval (stratified bootstrap over runs,"
        f" {PAIR_RESAMPLES:,} resamples). Above 1/2 the first method is better."
    )
    alt = "; ".join(
        f"{r.x} over {r.y} {tab.estimate_text(r.value, r.low, r.high)}" for r in pairs.itertuples()
    )
    figure = to_svg(improvement_figure(pairs, palette([one.name for one in scores])))
    texts = [f"{_tasks_text(scores)}, by the {kind.score}.{' Less is better.' * (kind.sign < 0)}"]
    if len(pairs) < len(scores) * (len(scores) - 1) // 2:
        texts.append(f"Only {scores[0].name} is compared with each other method.")
    texts += few_runs_text(scores)
    table = tab.improvement_table(pairs, "The same values with 95% intervals.")
    return Section(
        title, tuple(texts), (Illustration(figure, caption, alt + "."),), tables=(table,)
    )


def profile_section(
    scores: Sequence[Scores], label: str, title: str = "Performance profiles"
) -> Section:
    """Performance profiles of methods on the same tasks."""
    caption = (
        "The fraction of runs with a score above each value, with equal weight per task. Bands are"
        f" 95% intervals if every task has at least {MIN_RUNS} runs. The top 2% of the scores are"
        " not shown."
    )
    alt = f"Performance profiles of {', '.join(one.name for one in scores)}."
    figure = Illustration(to_svg(profile_figure(scores, label)), caption, alt)
    return Section(title, (f"{_tasks_text(scores)}.",), (figure,))


def few_runs_text(scores: Sequence[Scores]) -> list[str]:
    """A remark if some intervals are missing or unreliable."""
    least = min((int(one.n_runs.min()) for one in scores), default=FEW_RUNS)
    if least >= FEW_RUNS:
        return []
    return [
        f"Few runs: some groups have only {least}. There is no interval for fewer than {MIN_RUNS}"
        f" runs, and for fewer than {FEW_RUNS} it is likely to be too narrow."
    ]


def episodes_text(runs: pd.DataFrame) -> list[str]:
    """A remark on runs of Atari that were evaluated with other numbers of episodes."""
    other = [
        f"{agent} on {task} ({', '.join(map(str, own)) or tab.NOTHING})"
        for (task, agent), group in runs.groupby(["task_name", "agent_name"], sort=False)
        if (own := tab.episodes_of(group)) != [EPISODES]
    ]
    if not other:
        return []
    more = f" and {len(other) - N_NAMED} more" if len(other) > N_NAMED else ""
    return [
        f"Published scores come from evaluations of {EPISODES} episodes; other numbers of episodes"
        f" here: {', '.join(other[:N_NAMED])}{more}."
    ]


def _kind_sections(
    own: pd.DataFrame, curves: pd.DataFrame, missing: pd.DataFrame, kind: Kind, draw: bool
) -> list[Section]:
    """Curves, scores, and comparisons of the runs of one kind."""
    from contrastive_ucb.report import reproduce

    scores = scores_by_agent(own)
    shared = comparable(scores)
    several = bool(shared) and len(shared[0].tasks) > 1
    sections = _curve_sections(own, curves, kind) if draw else []
    sections.append(_score_section(own, missing, kind))
    if (solved := tab.solved_table(own)) is not None:
        text = (
            "A task is solved at a round of `cucb solve` or an episode of `cucb train`, by the rule"
            " of the task. A run that is solved may stop early."
        )
        sections.append(Section(f"{kind.title}: solved seeds", (text,), tables=(solved,)))
    if kind.name == "atari":
        sections.append(reproduce.games_section(own))
        sections.append(reproduce.comparison_section())
    elif (section := _task_section(own, kind)) is not None:
        sections.append(section)
    if several:
        sections.append(_aggregate_section(scores, shared, kind, draw))
    if several and draw and kind.sign > 0:
        title = f"{kind.title}: performance profiles"
        sections.append(profile_section(shared, kind.score, title))
    if draw and len(shared) > 1:
        title = f"{kind.title}: probability of improvement"
        sections.append(improvement_section(shared, kind, title))
    return sections


def _curve_sections(own: pd.DataFrame, measured: pd.DataFrame, kind: Kind) -> list[Section]:
    finite = kind.curve != RETURN
    xlabel = "rounds" if finite else "steps"
    tags = {kind.curve: kind.raw if finite else "training return"}
    if finite:
        tags |= {"gap": "gap of the policy", "zeta": "model error zeta"}
        tags["losses/contrastive"] = "contrastive loss"
    tags["bonus/mean"] = "mean bonus"
    styles = palette([one.name for one in scores_by_agent(own)])
    levels = {
        task: {name: float(values.mean()) for name, values in played.items()}
        for task, played in tab.controls_of(own, kind).items()
    }
    figures = []
    for tag, label in tags.items():
        values = measured[measured["tag"] == tag]
        curves: dict[str, Any] = {}
        for (task, agent), group in own.groupby(["task_name", "agent_name"], sort=False):
            steps, lines = curve_of(values, list(group["run"]), tag)
            if steps.size:
                curves.setdefault(task, {})[agent] = steps, lines
        if curves:
            shown = levels if tag == RETURN else None
            labels: dict[str, Any] = {"xlabel": xlabel, "ylabel": label}
            figure = panels(curves, styles, log=finite, levels=shown, **labels)
            binned = f" Returns are averaged in {BINS} intervals of equal length." * (tag == RETURN)
            note = f" {LOG_NOTE}" if finite else ""
            caption = f"{label[0].upper()}{label[1:]} over {xlabel}. {BAND_NOTE}{binned}{note}"
            alt = f"{label} over {xlabel} on {', '.join(curves)}."
            figures.append(Illustration(to_svg(figure), caption, alt))
    return [Section(f"{kind.title}: curves", figures=tuple(figures))] if figures else []


def _score_section(own: pd.DataFrame, missing: pd.DataFrame, kind: Kind) -> Section:
    shown = kind.score if kind.name == "mdp" else kind.raw
    texts = [f"One number per run: the {shown}.{' Less is better.' * (kind.sign < 0)}"]
    if kind.name == "atari":
        texts += episodes_text(own)
    texts += few_runs_text(scores_by_agent(own))
    table = tab.score_table(own, missing, kind)
    caption = (
        f"Means over runs with 95% intervals (percentile bootstrap over seeds, {SEED_RESAMPLES:,}"
        " resamples) and standard deviations."
    )
    return Section(f"{kind.title}: scores", tuple(texts), tables=(Table(table.frame, caption),))


def _task_section(own: pd.DataFrame, kind: Kind) -> Section | None:
    table, n_agents = tab.task_table(own, kind), own["agent_name"].nunique()
    if len(table.header) < 3:
        return None
    shown = kind.score if kind.name == "mdp" else kind.raw
    less = " (less is better)" if kind.sign < 0 else ""
    texts = [f"The {shown}{less}: mean ± standard deviation over runs (number of runs)."]
    if n_agents + 1 < len(table.header):
        texts.append(
            "The random policy and the best constant action are controls, evaluated in the same"
            " episodes; an agent below one of them has not learned to play."
        )
    best = "The best two agents are" if n_agents > tab.N_BEST else "The best agent is"
    caption = f"{best} bold in each row, and agents with the same printed mean." * (n_agents > 1)
    table = Table(table.frame, caption)
    return Section(f"{kind.title}: tasks and agents", tuple(texts), tables=(table,))


def _aggregate_section(
    scores: Sequence[Scores], shared: Sequence[Scores], kind: Kind, draw: bool
) -> Section:
    aggregates, n_tasks = aggregate(shared, kind.goal), len(shared[0].tasks)
    texts = [f"Over the {n_tasks} tasks that all these agents have runs of, by the {kind.score}."]
    texts += ["Less is better."] if kind.sign < 0 else []
    names = {one.name for one in shared}
    if left_out := [one.name for one in scores if one.name not in names]:
        texts.append(f"Agents with runs of fewer tasks are left out: {', '.join(left_out)}.")
    if kind.name not in SCALED:
        texts.append(
            "These scores are raw, so tasks with large scores dominate; the probability of"
            " improvement does not have this weakness."
        )
    texts += few_runs_text(shared)
    caption = (
        f"Aggregates with 95% intervals of a stratified bootstrap over runs ({RESAMPLES:,}"
        f" resamples); there is none if a task has fewer than {MIN_RUNS} runs."
    )
    table = tab.aggregate_table(aggregates, caption)
    figures = _aggregate_figures(aggregates, kind, n_tasks) if draw else ()
    return Section(f"{kind.title}: aggregates over tasks", tuple(texts), figures, tables=(table,))


def _aggregate_figures(
    aggregates: pd.DataFrame, kind: Kind, n_tasks: int
) -> tuple[Illustration, ...]:
    alt = means_text(aggregates)
    caption = "The aggregates of the table below; in parentheses the runs per task."
    caption += " Hollow marks have no interval."
    dots = Illustration(to_svg(aggregates_figure(aggregates, kind.score)), caption, alt)
    if kind.name not in SCALED:
        return (dots,)
    bars = mean_figure(aggregates, f"Mean over {n_tasks} tasks", kind.score)
    caption = f"The mean {kind.score}; in parentheses the runs per task."
    return Illustration(to_svg(bars), caption, alt), dots


def means_text(aggregates: pd.DataFrame) -> str:
    rows = aggregates[aggregates["statistic"] == "mean"].itertuples()
    means = [f"{r.method} {tab.estimate_text(r.value, r.low, r.high)}" for r in rows]
    return f"Means: {'; '.join(means)}."


def _facts_section(measured: dict[str, Any]) -> Section:
    facts = measured["facts"]
    states = Counter(row.state for row in facts)
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    required = [row for row in facts if row.required]
    failed = [f"{row.fact} ({row.claim}): {row.state}" for row in required if row.state != "holds"]
    text = f"{_count(len(facts), 'fact')}: {counts or 'none'}. Required: {len(required)}"
    if failed:
        text += f", of which these do not hold: {'; '.join(failed)}."
    else:
        text += ", all of which hold." if required else "."
    made_with = measured.get("versions", "")
    if isinstance(made_with, dict):
        made_with = ", ".join(f"{name} {version}" for name, version in made_with.items())
    origin = f"From {measured['file']}" + "".join(
        f", {word} {value}"
        for word, value in (("measured on", measured.get("date")), ("with", made_with))
        if value
    )
    caption = f"Claims of the paper, targets set before measuring, and measured values. {origin}."
    commands = (str(measured["command"]),) if measured.get("command") else ()
    tables = (tab.facts_table(facts, caption),)
    return Section("Theory: facts and targets", (text,), tables=tables, commands=commands)


def _origin_section(runs: pd.DataFrame) -> Section:
    """Which runs the numbers come from, and the versions that made them."""
    versions = finished(runs)["versions"]
    known, n_unknown = sorted(set(versions.dropna())), int(versions.isna().sum())
    text = f"Made with {'; '.join(known)}" if known else "The package versions are not recorded"
    if known and n_unknown:
        text += f"; not recorded by {_count(n_unknown, 'run')}"
    caption = "The hash of all settings except the seed is part of the name of the run folder."
    tables = (tab.runs_table(runs, caption),)
    return Section("Runs on this page", (text + ".",), tables=tables)


def _tasks_text(scores: Sequence[Scores]) -> str:
    tasks = scores[0].tasks
    if len(tasks) == 1:
        return f"On {tasks[0]}, the only task that all of them have runs of"
    return f"Over the {len(tasks)} tasks that all of them have runs of"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
