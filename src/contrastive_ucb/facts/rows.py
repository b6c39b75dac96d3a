"""Rows of the table of facts, and the files facts.json and facts.csv that contain them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import sealed, write_atomically
from contrastive_ucb.core.runtime import today, versions
from contrastive_ucb.runs.store import read_object

if TYPE_CHECKING:
    from contrastive_ucb.facts.plan import Plan, Record

NAME = "facts.json"
GROUPS = ("facts", "ablations", "peers")  # lists of rows in facts.json and facts.toml
State = Literal["holds", "does not hold", "not run", "reported"]
NOTHING = "\N{EN DASH}"
# Text that starts like a formula, except numbers such as "-0.5"
FORMULA = re.compile(r"(?![-+]?[\d.]+(e[-+]?\d+)?$)[=+\-@\t\r]", re.IGNORECASE)


@dataclass(frozen=True)
class Row:
    """One row of facts.json: a claim with its target, its measured value and the result."""

    fact: str
    part: str = ""
    claim: str = ""
    setting: str = ""
    mark: str = "none"  # description of the target
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    state: State = "not run"
    required: bool = False
    seconds: float = 0.0
    paper: str = ""
    note: str = ""
    measure: str = ""
    group: str = "facts"
    limit: float | None = None  # the target as a number

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Row:
        """The row with this content; KeyError if a field other than `limit` is missing."""
        names = [field.name for field in fields(cls) if field.name != "limit"]
        return cls(**{name: content[name] for name in names}, limit=content.get("limit"))

    @property
    def name(self) -> str:
        """Fact and part, such as "F1 zeta"."""
        return f"{self.fact} {self.part}".strip()

    @property
    def measured(self) -> str:
        """The value with its interval, and the unit."""
        if self.value is None:
            return NOTHING
        has_interval = self.low is not None and self.high is not None
        interval = f" [{number(self.low)}, {number(self.high)}]" if has_interval else ""
        return f"{number(self.value)}{interval} {self.unit}".strip()

    @property
    def failed(self) -> bool:
        """A required claim that does not hold."""
        return self.required and self.state == "does not hold"


def number(value: float | None) -> str:
    """Three significant digits, with a power of ten for very small and large values."""
    assert value is not None
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value)}"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits, power = f"{value:.2e}".split("e")
    return f"{digits}e{int(power)}"


def summary_of(
    plan: Plan, rows: Sequence[Row], records: Mapping[str, Record], command: str
) -> dict[str, Any]:
    """The content of facts.json. Everything except the date and the seconds is reproducible."""
    seconds = {record.run.identity(): record.seconds for record in records.values()}
    return {
        **{name: [asdict(row) for row in rows if row.group == name] for name in GROUPS},
        "failed": [row.name for row in rows if row.failed],
        "quick": plan.quick,
        "seeds": plan.seeds,
        "command": command,
        "processor_seconds": round(sum(seconds.values()), 1),  # of all runs
        "versions": versions(),
        "date": today(),
    }


def check_place(out: Path, plan: Plan) -> None:
    """Raise an error if the folder contains a facts.json with rows that this plan would remove."""
    try:
        summary = read_summary(out)
        rows = {(row["fact"], row["part"]) for name in GROUPS for row in summary[name]}
        same = (summary["quick"], summary["seeds"]) == (plan.quick, plan.seeds)
    except (UserError, KeyError):  # no file, or not readable
        return
    if not same or rows - {(fact.fact, fact.part) for fact in plan.facts}:
        raise UserError(
            f"{out / NAME} contains rows of '{summary['command']}' that would be lost; choose"
            " another folder for --out"
        )


def write_summary(out: Path, summary: dict[str, Any]) -> None:
    """Write the summary to facts.json, and its rows to facts.csv."""
    rows = pd.DataFrame([row for group in GROUPS for row in summary[group]])
    write_atomically(out / NAME, json.dumps(sealed(summary), indent=1, allow_nan=False) + "\n")
    write_atomically(out / "facts.csv", csv_of(rows))


def csv_of(frame: pd.DataFrame) -> str:
    """The table as CSV; text that a spreadsheet would run as a formula gets an apostrophe."""

    def safe(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell

    return str(frame.map(safe).to_csv(index=False, lineterminator="\n"))


def read_summary(out: Path) -> dict[str, Any]:
    """The content of facts.json in the folder."""
    return read_object(out / NAME, f"repeat 'cucb verify --out {out}'")
