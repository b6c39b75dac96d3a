"""The parts of the page on theory that come from results/theory/facts.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from contrastive_ucb.facts.rows import Row, number
from results import markdown_table

TESTED = ("holds", "does not hold")
TITLES = {
    "F1": "the model error falls like 1/k",
    "F2": "the average regret falls like 1/sqrt(K)",
    "F3": "near-optimism",
    "F4": "the bound on the model error, with a finite class",
    "F5": "the elliptical potential",
    "F6": "the printed covariance does not explore",
    "F7": "the lock needs the bonus",
    "F8": "polynomial in the horizon",
    "F9": "the price of not knowing the features",
    "F10": "the contrastive loss against maximum likelihood",
    "F11": "games: the average duality gap falls like 1/sqrt(K)",
    "F12": "games: the bounds enclose the value",
    "F13": "games: the CCE is one",
    "F14": "the wrong rank, and a tilted P^-",
    "F15": "growth in d, A and 1/C_S^-",
    "F16": "the rich lock",
    "F17": "the drawn policy: rounds for a given epsilon",
    "F18": "exact steps of the proofs",
    "F19": "concentration",
}


class Facts:
    """The rows of facts.json, and the functions that the template calls."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self.summary = summary
        self.rows = [Row(**row) for row in summary["facts"]]
        self.others = [Row(**row) for row in (*summary["ablations"], *summary["peers"])]

    def m(self, name: str, field: str = "") -> str:
        """A field of the row "F1 zeta"; without a field the measured value with its interval.

        value  the number alone          bare  value and interval without the unit
        """
        for row in self.rows:
            if f"{row.fact} {row.part}".strip() == name:
                if field == "value" and row.value is not None:
                    return number(row.value)
                if field == "bare":
                    return row.measured.removesuffix(row.unit).strip()
                return str(getattr(row, field)) if field else row.measured
        raise KeyError(f"facts.json has no row {name!r}")

    def section(self, fact: str) -> str:
        """The table of a claim: its parts with the measured values, their settings, the command."""
        rows = [row for row in self.rows if row.fact == fact]
        listed = markdown_table([
            {
                "part": row.part or row.fact,
                "target": row.mark,
                "measured": f"{row.measured} ({row.note})" if row.note else row.measured,
                "state": row.state,
            }
            for row in rows
        ])  # fmt: skip
        settings = ". ".join(dict.fromkeys(row.setting for row in rows))
        lines_of_paper = ", ".join(dict.fromkeys(row.paper for row in rows))
        return (
            f"{listed}\n\n<details><summary>Paper: {lines_of_paper}. Command: <code>cucb verify"
            f" {fact}</code>. Runs</summary>{settings}</details>"
        )

    def pivot(self, name: str) -> str:
        """An ablation or comparison: a row per setting, a column per measure."""
        rows = [row for row in self.others if row.fact == name]
        lines: dict[str, dict[str, str]] = {}
        for row in rows:
            is_count = row.measure == "solved" and row.value is not None
            cell = f"{row.value:.0f} {row.note}" if is_count else row.measured
            line = lines.setdefault(row.part, {"setting": row.part})
            line[row.measure.replace("_", " ")] = cell
        return f"**{name}**: {rows[0].claim}\n\n{markdown_table(list(lines.values()))}"

    def has(self, fact: str) -> bool:
        """Whether the claim is measured; new claims are measured by the next whole run."""
        return any(row.fact == fact for row in self.rows)

    @property
    def overview(self) -> str:
        """One row per claim: how many of its testable parts hold, and the first measured value."""
        lines = []
        for fact, title in TITLES.items():
            rows = [row for row in self.rows if row.fact == fact]
            if not rows:  # not measured yet, see docs/results/lemmas.md
                continue
            tested = [row.state == "holds" for row in rows if row.state in TESTED]
            lines.append({
                "fact": f"[{fact}](#{anchor(f'{fact}: {title}')})",
                "claim": title,
                "target": rows[0].mark,
                "measured (95% interval)": rows[0].measured,
                "holds": f"{sum(tested)} of {len(tested)} parts" if tested else rows[0].state,
            })  # fmt: skip
        return markdown_table(lines)

    @property
    def origin(self) -> str:
        summary = self.summary
        versions = ", ".join(f"{name} {one}" for name, one in summary["versions"].items())
        return (
            f"Written by `{summary['command']}` on {summary['date']} with {versions};"
            f" {summary['seeds']} seeds, {summary['processor_seconds'] / 60:.0f} minutes of"
            " processor time."
        )

    @property
    def verdict(self) -> str:
        """How many testable claims hold."""
        holds, misses = ([row.state for row in self.rows].count(state) for state in TESTED)
        return f"{holds} of the {holds + misses} testable claims hold; {misses} do not"


def anchor(heading: str) -> str:
    """The id that MkDocs gives to a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"[-\s]+", "-", words)
