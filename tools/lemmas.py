"""The table of the paper's numbered statements: their claims, criteria, measured values and states.

tools/lemmas.toml names the claims of each statement. Criteria are those of experiments/facts.toml,
measured values those of results/theory/facts.json.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from contrastive_ucb.facts.plan import Fact, read_plan
from contrastive_ucb.facts.rows import Row
from results import markdown_table

FILE = Path(__file__).with_suffix(".toml")
NOT_YET = "not measured yet"
NEVER = "cannot be measured"


@dataclass(frozen=True)
class Statement:
    """A numbered statement of the paper."""

    label: str  # in the LaTeX source
    name: str
    line: int
    says: str
    claims: tuple[str, ...]  # names of rows, or of groups of rows
    reason: str = ""  # why it cannot be measured

    def facts(self, plan: Sequence[Fact]) -> list[Fact]:
        """The claims in the plan; of a group, those with a target.

        KeyError: a claim is not in facts.toml.
        """
        chosen = []
        for claim in self.claims:
            named = [
                fact
                for fact in plan
                if fact.name == claim or (fact.fact == claim and fact.mark != "none")
            ]
            if not named:
                raise KeyError(f"{self.label} names {claim!r}, which is not in facts.toml")
            chosen += named
        return chosen


def read_statements(path: Path = FILE) -> list[Statement]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Statement(**{**entry, "claims": tuple(entry["claims"])}) for entry in content["statement"]
    ]


class Lemmas:
    """What the template shows: `table` and `overview`.

    rows  of facts.json, by name
    """

    def __init__(self, rows: Mapping[str, Row]):
        self.rows, self.statements = rows, read_statements()
        self.plan = [fact for fact in read_plan().facts if fact.group == "facts"]

    @property
    def table(self) -> str:
        """A row per claim, and one per statement without a claim."""
        return markdown_table([line for each in self.statements for line in self._lines(each)])

    @property
    def overview(self) -> str:
        """How many statements are measured, cannot be measured, or are not measured yet."""
        measured = [
            s for s in self.statements if any(f.name in self.rows for f in s.facts(self.plan))
        ]
        never = [s for s in self.statements if s.reason]
        rest = len(self.statements) - len(measured) - len(never)
        return (
            f"Of {len(self.statements)} numbered statements, {len(measured)} have measured claims,"
            f" {len(never)} are conditions or definitions without anything to measure, and {rest}"
            " are not measured yet"
        )

    def _lines(self, statement: Statement) -> Iterator[dict[str, str]]:
        head = {"statement": f"{statement.name} (l.{statement.line}): {statement.says}"}
        facts = statement.facts(self.plan)
        if not facts:
            state = f"{NEVER}: {statement.reason}" if statement.reason else NOT_YET
            yield {**head, "claim": "", "criterion": "", "measured": "", "status": state}
        for fact in facts:
            row = self.rows.get(fact.name)
            yield {
                **head,
                "claim": f"{fact.name}: {fact.claim}",
                "criterion": row.mark if row else fact.mark,
                "measured": row.measured if row and row.value is not None else "",
                "status": row.state if row and row.state != "not run" else NOT_YET,
            }
            head = {"statement": ""}
