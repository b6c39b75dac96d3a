"""The paper's table and the numbers of its figures as Markdown and LaTeX, with the same remarks."""

from __future__ import annotations

from contrastive_ucb.report.aggregates import STATISTICS, aggregate_table
from contrastive_ucb.report.atari_table import CAPTION, to_latex, to_markdown
from contrastive_ucb.report.fair import fair_section, source_notes, table_notes
from contrastive_ucb.report.html import Section
from contrastive_ucb.report.reproduce_page import (
    TITLES,
    RunHere,
    aggregate_rows,
    mean_rows,
    own_notes,
)
from contrastive_ucb.report.section_text import latex_sections, markdown_sections
from contrastive_ucb.report.sections import missing_section
from contrastive_ucb.report.tables import Table


def markdown_of(what: str, here: RunHere) -> str:
    """The table or the numbers of a figure, which runs they come from, and how to read them."""
    shown = to_markdown(here.columns) if what == "table" else numbers_of(what, here).to_markdown()
    parts = [f"# {TITLES[what]}", shown.rstrip()]
    parts += [CAPTION] if what == "table" else []
    parts += ["## Which runs the numbers come from", _list(_notes(what, here))]
    return "\n\n".join(parts) + "\n\n" + markdown_sections([fair_section(), *_gaps(here)])


def latex_of(what: str, here: RunHere) -> str:
    """The same table in LaTeX; the remarks are comments in front of it."""
    remarks = [*_notes(what, here), *fair_section().paragraphs]
    shown = to_latex(here.columns) if what == "table" else numbers_of(what, here).to_latex()
    return "".join(f"% {remark}\n" for remark in remarks) + shown + latex_sections(_gaps(here))


def numbers_of(what: str, here: RunHere) -> Table:
    """What a figure shows, in figures."""
    if what == "figure-mean":
        return aggregate_table(mean_rows(here), ("mean",))
    return aggregate_table(aggregate_rows(here), tuple(STATISTICS))


def _notes(what: str, here: RunHere) -> list[str]:
    """Of the runs that the numbers come from, and of no others."""
    published = source_notes() if what == "figure-aggregates" else table_notes()
    return [*published, *own_notes(here, complete=what != "table")]


def _gaps(here: RunHere) -> list[Section]:
    return [missing_section(here.missing, here.damaged)] if here.is_known else []


def _list(notes: list[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)
