"""The README's section on the theory: the headline facts from results/theory/, with a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrastive_ucb.facts.rows import Row
from contrastive_ucb.report.tables import Table

HEADLINES = (
    ("F1", "zeta"),
    ("F2", "contrastive-ucb"),
    ("F3", "practical, without the bias"),
    ("F4", "zeta, tiny"),
    ("F6", "printed"),
    ("F7", "contrastive-ucb, sampled"),
    ("F7", "no-bonus, sampled"),
    ("F8", "exponent"),
    ("F8", "form"),
    ("F11", "2x2"),
    ("F11", "3x3"),
    ("F12", "3x3"),
)
PLURAL = {
    "holds": "hold",
    "does not hold": "do not hold",
    "reported": "have no mark",
    "not run": "were not run",
}
PICTURE = Path("results/theory/figures/headline.svg")


def theory_text(summary: Mapping[str, Any]) -> str:
    """The headline facts, how many of all hold, and where the rest is; from facts.json."""
    rows = [Row(**row) for row in summary["facts"]]
    by_name = {(row.fact, row.part): row for row in rows}
    lines = tuple(
        (f"{row.claim} ({row.fact} {row.part}, {row.paper})", row.mark, row.measured, row.state)
        for name in HEADLINES
        if (row := by_name.get(name))
    )
    table = Table(("claim", "mark", "measured (95% interval)", "state"), lines)
    states = [row.state for row in rows]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    told = ", ".join(f"{count} {PLURAL[state]}" for state, count in counts.items())
    return "\n\n".join(
        [
            f"**The theory, measured** (`{summary['command']}`, {summary['seeds']} seeds)",
            f"![Measured rates beside the paper's]({PICTURE})",
            table.to_markdown().strip(),
            f"Of all {len(rows)} rows: {told}. What each means, those that miss their mark,"
            " ablations and peers are in [docs/theory.md](docs/theory.md).",
        ]
    )
