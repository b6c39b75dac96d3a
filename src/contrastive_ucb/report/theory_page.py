"""docs/theory.md, generated from results/: the facts, the ablations and the peers.

    python -m contrastive_ucb.report.theory_page

Every number comes from facts.json, which `cucb verify --out results/theory` wrote. The words are in
`theory_text`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.facts.rows import Row, number, read_summary
from contrastive_ucb.report.readme_neural import neural_text
from contrastive_ucb.report.records import records_of
from contrastive_ucb.report.tables import NOTHING, Table
from contrastive_ucb.report.theory_text import AFTER, BEFORE, FACTS, TABLES

RESULTS, NEURAL, PAGE = Path("results/theory"), Path("results/neural"), Path("docs/theory.md")
PLACE = re.compile(r"\{(F\d+)(?:\s([^{}|]+))?(?:\|(\w+))?\}")  # {F1 zeta}, {F8 form|note}


def main(root: Path = Path()) -> None:
    write_atomically(root / PAGE, theory_page(root / RESULTS, root / NEURAL))


def theory_page(folder: Path, neural: Path) -> str:
    """The whole page from the results in the folder, and those of networks in another."""
    networks = neural_text(records_of(neural)) or "nothing yet."
    summary = read_summary(folder)
    rows = [Row(**row) for row in summary["facts"]]
    figures = {path.stem for path in (folder / "figures").glob("*.svg")}
    parts = ["# The theory, measured", filled(BEFORE, rows), _origin(summary), _overview(rows)]
    for name, (title, text) in FACTS.items():
        own = [row for row in rows if row.fact == name]
        parts += [f"## {name}: {title}", _claims(own)]
        if name in figures:
            parts.append(f"![{name}: {title}](../{RESULTS}/figures/{name}.svg)")
        parts.append(filled(text, rows).replace("{neural}", networks))
    others = [Row(**row) for row in (*summary["ablations"], *summary["peers"])]
    for title, text, names in TABLES:
        parts += [f"## {title}", filled(text, rows)]
        parts += [
            f"**{name}**: {own[0].claim}\n\n{pivoted(own)}"
            for name in names
            if (own := [row for row in others if row.fact == name])
        ]
    return "\n\n".join(part.strip() for part in (*parts, filled(AFTER, rows))) + "\n"


def filled(text: str, rows: Sequence[Row]) -> str:
    """The text with what was measured in the places {fact part} or {fact part|field}."""

    def put(place: re.Match[str]) -> str:
        fact, part, field = place.groups("")
        wanted = fact, " ".join(part.split())  # a place may be broken over two lines
        for row in rows:
            if (row.fact, row.part) == wanted:
                return _shown(row, field)
        raise UserError(f"the text speaks of {place[0]}, which the results do not have")

    return PLACE.sub(put, text)


def _shown(row: Row, field: str) -> str:
    """A field of a row in words; without a field, what was measured."""
    if field == "value" and row.value is not None:
        return number(row.value)
    if field == "bare":  # where the sentence has the unit
        return replace(row, unit="").measured
    return str(getattr(row, field)) if field else row.measured


def pivoted(rows: Sequence[Row]) -> str:
    """A line a setting, a column a measure."""
    measures = list(dict.fromkeys(row.measure for row in rows))
    settings = list(dict.fromkeys(row.part for row in rows))
    cells = {(row.part, row.measure): _cell(row) for row in rows}
    lines = tuple(
        (part, *(cells.get((part, measure), NOTHING) for measure in measures)) for part in settings
    )
    header = ("setting", *(measure.replace("_", " ") for measure in measures))
    return Table(header, lines).to_markdown()


def _cell(row: Row) -> str:
    """Of solved seeds the count and when, of the rest the mean and its interval."""
    if row.measure == "solved" and row.value is not None:
        return f"{row.value:.0f} {row.note}"
    return row.measured


def _overview(rows: Sequence[Row]) -> str:
    lines = tuple(
        (f"{row.fact} {row.part}".strip(), row.mark, row.measured, row.state) for row in rows
    )
    return Table(("fact", "mark", "measured (95% interval)", "state"), lines).to_markdown()


def _claims(rows: Sequence[Row]) -> str:
    """What is claimed, where in the paper, and what it was measured on."""
    lines = []
    for row in rows:
        name = f"{row.part}: " if row.part else ""
        needed = ", required" if row.required else ""
        note = f" ({row.note})" if row.note else ""
        lines.append(
            f"- {name}{row.claim} ({row.paper}{needed}). {row.setting}."
            f" Measured: {row.measured}{note}; {row.state}."
        )
    return "\n".join(lines)


def _origin(summary: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    seconds = summary["processor_seconds"]
    return (
        f"Written by `{summary['command']}` on {summary['date']} with {versions};"
        f" {summary['seeds']} seeds, {seconds / 60:.0f} minutes of processor time."
    )


if __name__ == "__main__":
    main()
