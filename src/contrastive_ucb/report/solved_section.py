"""Which seeds solved a task that can be solved, and what they spent until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from contrastive_ucb.report.html import Section
from contrastive_ucb.report.scores import Entry, Kind
from contrastive_ucb.report.tables import NOTHING, Table, solved_seeds

HEADER = ("task", "agent", "seeds that solved it", "first at: median (range)", "played")


def solved_section(entries: Sequence[Entry], kind: Kind) -> Section | None:
    """A row for each task that says of its runs whether they solved it; None if no task does."""
    rows = tuple(_row(entry) for entry in entries if _can_be_solved(entry))
    if not rows:
        return None
    return Section(
        f"{kind.title}: who solved it",
        ("A task is solved at a round of `cucb solve` or an episode of `cucb train`, by its own"
         " rule. What was played includes what the rule took, or all of a run that did not.",),
        table=Table(HEADER, rows),
        table_caption="Seeds, not scores: a run that stops when it is solved has no more rounds.",
    )  # fmt: skip


def _can_be_solved(entry: Entry) -> bool:
    return any("solved_at" in summary for summary in _summaries(entry))


def _summaries(entry: Entry) -> list[Mapping[str, Any]]:
    return [run.summary for run in entry.group.finished if run.summary is not None]


def _row(entry: Entry) -> tuple[str, ...]:
    runs = _summaries(entry)
    solved, total = solved_seeds(entry.group)
    at = [run["solved_at"] for run in runs if run.get("solved_at") is not None]
    when = f"{median(at):.0f} ({min(at)} to {max(at)})" if at else NOTHING
    unit = "trajectories" if "trajectories" in runs[0] else "episodes"
    played = [run[unit] for run in runs]
    return (
        entry.task,
        entry.agent,
        f"{solved} of {total}",
        when,
        f"{median(played):,.0f} {unit} ({min(played):,} to {max(played):,})",
    )
