"""Sections that several pages share: who beats whom, profiles, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from contrastive_ucb.core.versions import versions as package_versions
from contrastive_ucb.report.aggregate_figures import improvement_figure, profile_figure
from contrastive_ucb.report.aggregates import (
    PAIR_RESAMPLES,
    comparison_table,
    comparisons,
    estimate_text,
    few_text,
)
from contrastive_ucb.report.html import Illustration, Section
from contrastive_ucb.report.interval import FEWEST
from contrastive_ucb.report.missing import Missing, missing_commands, missing_table
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.read import Damage
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.stats.aggregate import Scores


def improvement_section(
    scores: Sequence[Scores], score: str, sign: int = 1, title: str = "Probability of improvement"
) -> Section:
    """Who beats whom, of methods with the same tasks."""
    found = comparisons(scores, sign)
    styles = palette([one.name for one in scores])
    figure = Illustration(
        to_svg(improvement_figure(found, styles)),
        "The chance that a run of one method beats a run of the other on a task drawn at random"
        " (ties count half), with its 95 % interval (stratified bootstrap over runs,"
        f" {PAIR_RESAMPLES:,} resamples); above 1/2 the first one is better.",
        "; ".join(f"{c.x} over {c.y} {estimate_text(c.chance)}" for c in found) + ".",
    )
    said = [f"{_tasks(scores)}, by the {score}.{' Less is better.' * (sign < 0)}"]
    if len(found) < len(scores) * (len(scores) - 1) // 2:
        said.append(f"Of so many methods only {scores[0].name} is compared with each other one.")
    said.append(few_text(int(one.n_runs.min()) for one in scores))
    return Section(
        title,
        tuple(text for text in said if text),
        (figure,),
        comparison_table(found),
        "The same in figures, with 95 % intervals.",
    )


def profile_section(
    scores: Sequence[Scores], score: str, title: str = "Performance profiles"
) -> Section:
    """Which part of the runs is above each score, of methods with the same tasks."""
    figure = Illustration(
        to_svg(profile_figure(scores, score)),
        "The part of the runs with a score above each value, every task weighing the same; bands"
        f" are 95 % intervals, where every task has {FEWEST} runs. The top 2 % of the scores are"
        " not shown.",
        f"Performance profiles of {', '.join(one.name for one in scores)}.",
    )
    return Section(title, (f"{_tasks(scores)}.",), (figure,))


def missing_section(gaps: Sequence[Missing], damaged: Sequence[Damage] = ()) -> Section:
    """The runs that are not there or cannot be read, and what to type to have them."""
    n_runs = sum(len(gap.seeds) for gap in gaps)
    said = "No run is missing."
    if n_runs:
        said = f"Runs that are not finished: {n_runs}. No number on this page stands for them."
    if damaged:
        said += f" Damaged, and left out of everything else: {len(damaged)}; the list says why."
    return Section(
        "Missing runs",
        (said,),
        table=missing_table(gaps) if n_runs else None,
        table_caption="The commands below would fill them; what is finished is not run again.",
        notes=tuple(one.problem for one in damaged),
        commands=missing_commands(gaps),
    )


def versions() -> str:
    """What the page was made with."""
    made_with = package_versions(("numpy", "scipy", "matplotlib"))
    return "Made with " + ", ".join(f"{name} {one}" for name, one in made_with.items()) + "."


def _tasks(scores: Sequence[Scores]) -> str:
    tasks = scores[0].tasks
    if len(tasks) == 1:
        return f"On {tasks[0]}, the only task that all of them have runs of"
    return f"Over the {len(tasks)} tasks that all of them have runs of"
