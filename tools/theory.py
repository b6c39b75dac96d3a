"""docs/theory.md and docs/results-theory.md from results/theory/facts.json and results/mdp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from contrastive_ucb.facts.rows import Row, number
from contrastive_ucb.report.tables import NOTHING, table, to_markdown

Record = Mapping[str, Any]
STATES = {"holds": "hold", "does not hold": "do not hold"}


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

    def claims(self, fact: str) -> str:
        """The claims of a fact, their place in the paper, and the measured values."""
        lines = []
        for row in (row for row in self.rows if row.fact == fact):
            name = f"{row.part}: " if row.part else ""
            required = ", required" if row.required else ""
            note = f" ({row.note})" if row.note else ""
            lines.append(
                f"- {name}{row.claim} ({row.paper}{required}). {row.setting}."
                f" Measured: {row.measured}{note}; {row.state}."
            )
        return "\n".join(lines)

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
        return f"**{name}**: {rows[0].claim}\n\n{to_markdown(table(header, lines)).rstrip()}"

    @property
    def overview(self) -> str:
        lines = [
            [f"{row.fact} {row.part}".strip(), row.mark, row.measured, row.state]
            for row in self.rows
        ]
        header = ["fact", "target", "measured (95% interval)", "state"]
        return to_markdown(table(header, lines)).rstrip()

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
    return to_markdown(table(header, rows)).rstrip()


def regret_table(records: Sequence[Record]) -> str:
    """Average regret, final gap and model error on random low-rank MDPs."""
    rows = []
    for record in records:
        mean = record["summary"]
        values = (mean["average_regret"], mean["final_gap"], mean["zeta"])
        rows.append([negatives_of(record), mean["algo"], *(f"{value:.4f}" for value in values)])
    header = ["data", "algorithm", "average regret", "final gap", "model error zeta"]
    return to_markdown(table(header, rows)).rstrip()


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
    """The data of docs/results-theory.md."""
    runs = [one for one in records.values() if "inputs" in one]
    solving = [one for one in runs if "solved_at" in one["summary"]]
    easy = [one for one in runs if "solved_at" not in one["summary"]]
    return {
        "solved": solved_table(solving),
        "solved_commands": [one["command"] for one in solving],
        "regrets": regret_table(easy),
        "regret_commands": [one["command"] for one in easy],
        "costs": records["bench-theory"]["summary"],
    }
