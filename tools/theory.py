"""The data of the results pages on theory and finite MDPs, from results/theory and results/mdp."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from contrastive_ucb.facts.rows import Row, number
from contrastive_ucb.report.tables import NOTHING, table, to_markdown

Record = Mapping[str, Any]
STATES = {"holds": "hold", "does not hold": "do not hold"}
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
}


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return to_markdown(table(header, rows)).rstrip()


class Facts:
    """The rows of facts.json, and the functions that the template calls."""

    def __init__(self, summary: Record) -> None:
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
        lines = []
        for row in rows:
            measured = f"{row.measured} ({row.note})" if row.note else row.measured
            lines.append([row.part or row.fact, row.mark, measured, row.state])
        header = ["part", "target", "measured", "state"]
        settings = ". ".join(dict.fromkeys(row.setting for row in rows))
        lines_of_paper = ", ".join(dict.fromkeys(row.paper for row in rows))
        listed = to_markdown(table(header, lines)).rstrip()
        return (
            f"{listed}\n\n<details><summary>Paper: {lines_of_paper}. Command: <code>cucb verify"
            f" {fact}</code>. Runs</summary>{settings}</details>"
        )

    def pivot(self, name: str) -> str:
        """An ablation or comparison: a row per setting, a column per measure."""
        rows = [row for row in self.others if row.fact == name]
        measures = list(dict.fromkeys(row.measure for row in rows))
        cells = {(row.part, row.measure): self._cell(row) for row in rows}
        lines = [
            [part, *(cells.get((part, measure), NOTHING) for measure in measures)]
            for part in dict.fromkeys(row.part for row in rows)
        ]
        header = ["setting", *(measure.replace("_", " ") for measure in measures)]
        return f"**{name}**: {rows[0].claim}\n\n{markdown_table(header, lines)}"

    @property
    def overview(self) -> str:
        """One row per claim: how many of its testable parts hold, and the first measured value."""
        lines = []
        for fact, title in TITLES.items():
            rows = [row for row in self.rows if row.fact == fact]
            tested = [row.state == "holds" for row in rows if row.state in STATES]
            states = f"{sum(tested)} of {len(tested)} parts" if tested else rows[0].state
            link = f"[{fact}](#{anchor(f'{fact}: {title}')})"
            lines.append([link, title, rows[0].mark, rows[0].measured, states])
        header = ["fact", "claim", "target", "measured (95% interval)", "holds"]
        return markdown_table(header, lines)

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
        states = [row.state for row in self.rows]
        tested = states.count("holds") + states.count("does not hold")
        return (
            f"{states.count('holds')} of the {tested} testable claims hold;"
            f" {states.count('does not hold')} do not"
        )

    @staticmethod
    def _cell(row: Row) -> str:
        if row.measure == "solved" and row.value is not None:
            return f"{row.value:.0f} {row.note}"
        return row.measured


def anchor(heading: str) -> str:
    """The id that MkDocs gives to a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"[-\s]+", "-", words)


def solved_table(records: Sequence[Record]) -> str:
    """Seeds that solved each task, and in which round."""
    rows = []
    for record in records:
        runs = runs_of(record)
        at = [run["solved_at"] for run in runs if run["solved_at"] is not None]
        rounds = f"{median(at):.0f} ({min(at)} to {max(at)})" if at else "never"
        task = f"{runs[0]['env']}, {negatives_of(record)}"
        count = f"{len(at)} of {len(runs)}"
        rows.append([task, runs[0]["algo"], count, rounds, f"{runs[0]['rounds']:,}"])
    header = ["task", "algorithm", "solved seeds", "at round: median (range)", "rounds"]
    return markdown_table(header, rows)


def regret_table(records: Sequence[Record]) -> str:
    """Average regret, final gap and model error on random low-rank MDPs."""
    rows = []
    for record in records:
        mean = record["summary"]
        values = (mean["average_regret"], mean["final_gap"], mean["zeta"])
        rows.append([negatives_of(record), mean["algo"], *(f"{value:.4f}" for value in values)])
    header = ["data", "algorithm", "average regret", "final gap", "model error zeta"]
    return markdown_table(header, rows)


def negatives_of(record: Record) -> str:
    """What the model is fitted to."""
    if record["summary"]["algo"] in ("rep-ucb", "lsvi-ucb", "ucbvi", "rep-ulcb", "omni-vi"):
        return "all transitions"
    return f"{record['inputs'].get('negatives', 'sampled')} negatives"


def runs_of(record: Record) -> list[Mapping[str, Any]]:
    """The summaries of all seeds; with one seed there is no list."""
    summary = record["summary"]
    return list(summary.get("runs", [summary]))


def mdp_page(records: Mapping[str, Record]) -> dict[str, Any]:
    """The tables of locks, DeepSea and random MDPs, with their commands."""
    runs = [one for one in records.values() if "inputs" in one]
    solving = [one for one in runs if "solved_at" in one["summary"]]
    locks = [one for one in solving if one["inputs"]["env"] == "lock"]
    seas = [one for one in solving if one["inputs"]["env"] == "deepsea"]
    easy = [one for one in runs if "solved_at" not in one["summary"]]
    return {
        "locks": solved_table(locks),
        "lock_commands": [one["command"] for one in locks],
        "seas": solved_table(seas),
        "sea_commands": [one["command"] for one in seas],
        "regrets": regret_table(easy),
        "regret_commands": [one["command"] for one in easy],
        "costs": records["bench-theory"]["summary"],
    }
