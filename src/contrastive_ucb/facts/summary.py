"""facts.json: all rows, with the command, the versions and the date behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.core.versions import today, versions
from contrastive_ucb.facts.plan import GROUPS, Plan
from contrastive_ucb.facts.rows import Row, csv_of

NAME = "facts.json"


def summary_of(
    plan: Plan, rows: Sequence[Row], command: str, seconds: float = 0.0
) -> dict[str, Any]:
    """What facts.json holds; all of it but the date and the seconds is the same in every run.

    seconds  of processor time, of all runs together
    """
    return {
        **{name: [row.to_json() for row in rows if row.group == name] for name in GROUPS},
        "failed": [f"{row.fact} {row.part}".strip() for row in rows if row.failed],
        "quick": plan.quick,
        "seeds": seeds_of(plan),
        "command": command,
        "processor_seconds": round(seconds, 1),
        "versions": versions(),
        "date": today(),
    }


def check_place(out: Path, plan: Plan) -> None:
    """Stop before any work if facts.json there has rows that this plan would take away."""
    try:
        summary = read_summary(out)
        had = {(row["fact"], row["part"]) for name in GROUPS for row in summary[name]}
        same = (summary["quick"], summary["seeds"]) == (plan.quick, seeds_of(plan))
    except (UserError, KeyError):  # nothing there, or nothing that can be read
        return
    if not same or had - {(fact.fact, fact.part) for fact in plan.facts}:
        raise UserError(
            f"{out / NAME} is of '{summary['command']}' and has rows that would be lost; choose"
            " another folder for --out"
        )


def seeds_of(plan: Plan) -> int:
    return max((run.seeds for run in plan.runs.values()), default=0)


def write_summary(out: Path, summary: dict[str, Any], rows: Sequence[Row]) -> None:
    """facts.json and facts.csv."""
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / NAME, json.dumps(summary, indent=1, allow_nan=False) + "\n")
    write_atomically(out / "facts.csv", csv_of(rows))


def read_summary(out: Path) -> dict[str, Any]:
    """What `cucb verify --out` wrote there."""
    path = out / NAME
    try:
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        summary["facts"]
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); 'cucb verify --out {out}' writes it"
        ) from error
    except (ValueError, KeyError) as error:
        raise UserError(f"{path} is damaged ({error}); repeat 'cucb verify --out {out}'") from error
    return summary
