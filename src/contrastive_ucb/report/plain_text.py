"""The paper's table and the numbers of its figures as Markdown and LaTeX, with the same remarks."""

from __future__ import annotations

from contrastive_ucb.report.aggregates import STATISTICS, aggregate_table
from contrastive_ucb.report.atari_table import CAPTION, tex, to_latex, to_markdown
from contrastive_ucb.report.fair import fair_section, source_notes
from contrastive_ucb.report.html import Section
from contrastive_ucb.report.reproduce_page import (
    TITLES,
    RunHere,
    aggregate_rows,
    mean_rows,
    own_notes,
)
from contrastive_ucb.report.tables import Table


def markdown_of(what: str, here: RunHere) -> str:
    """The table or the numbers of a figure, which runs they come from, and how to read them."""
    shown = to_markdown(here.columns) if what == "table" else numbers_of(what, here).to_markdown()
    fair = fair_section()
    parts = [f"# {TITLES[what]}", shown.rstrip()]
    parts += [CAPTION] if what == "table" else []
    parts += ["## Which runs the numbers come from", _list(_notes(here))]
    parts += [f"## {fair.heading}", *fair.paragraphs, *_tables(fair)]
    return "\n\n".join(parts) + "\n"


def latex_of(what: str, here: RunHere) -> str:
    """The same table in LaTeX; the remarks are comments in front of it."""
    remarks = [*_notes(here), *fair_section().paragraphs]
    shown = to_latex(here.columns) if what == "table" else _latex(numbers_of(what, here))
    return "".join(f"% {remark}\n" for remark in remarks) + shown


def numbers_of(what: str, here: RunHere) -> Table:
    """What a figure shows, in figures."""
    if what == "figure-mean":
        return aggregate_table(mean_rows(here), ("mean",))
    return aggregate_table(aggregate_rows(here), tuple(STATISTICS))


def _notes(here: RunHere) -> list[str]:
    return [*source_notes(), *own_notes(here)]


def _list(notes: list[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def _tables(section: Section) -> list[str]:
    if section.table is None:
        return []
    return [section.table.to_markdown().rstrip(), section.table_caption]


def _latex(table: Table) -> str:
    rows = [" & ".join(tex(cell) for cell in row) + " \\\\" for row in table.rows]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            f"\\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
            "\\toprule",
            " & ".join(tex(cell) for cell in table.header) + " \\\\",
            "\\midrule",
            *rows,
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )
