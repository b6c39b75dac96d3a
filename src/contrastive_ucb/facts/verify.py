"""Apply the rules of all facts to the finished runs of a plan.

The runs are ordinary run folders, so an interrupted command continues where it stopped. They are
stored under a hash of the source code, so results of older code are never reused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.runtime import today, versions
from contrastive_ucb.facts.plan import Fact, Plan, Record, Run
from contrastive_ucb.facts.rows import GROUPS, NAME, Row, State, read_summary
from contrastive_ucb.facts.rules import RULES, Outcome

PACKAGE = Path(__file__).parents[1]
MEASURING = (  # folders whose code determines the measurements
    *("core", "envs", "data", "representation", "bonus", "planning", "agents/finite"),
    *("evaluation", "runs", "facts"),
)
SHORT = {"n_states": "S", "n_actions": "A", "n_dead": "n_dead", "rank": "d", "horizon": "H"}


@cache
def fingerprint() -> str:
    """Hash of the source code and the library versions that determine the measurements."""
    paths = sorted(path for folder in MEASURING for path in (PACKAGE / folder).glob("*.py"))
    content = [f"{path.relative_to(PACKAGE)} {path.read_text(encoding='utf-8')}" for path in paths]
    return hashlib.sha256("\n".join([json.dumps(versions()), *content]).encode()).hexdigest()


def row_of(fact: Fact, records: Mapping[str, Record]) -> Row:
    """The row of a fact, from the records of its runs."""
    measured = [records[name] for name in fact.runs]
    result = RULES[fact.rule](fact, *measured) if fact.rule else Outcome(None)
    state: State = "holds" if result.held else "does not hold"
    if fact.reported or fact.mark == "none" or result.held is None:
        state = "reported" if fact.rule else "not run"
    changes: dict[str, Any] = {
        "setting": fact.setting or setting_of([record.run for record in measured]),
        "mark": result.mark or fact.mark,
        "note": result.note or fact.note,
        "state": state,
        "seconds": round(sum(record.seconds for record in measured), 1),
        **{name: _rounded(getattr(result, name)) for name in ("value", "low", "high")},
        "limit": fact.limit if result.limit is None else _rounded(result.limit),
    }
    return Row(**{field.name: getattr(fact, field.name) for field in fields(Row)} | changes)


def setting_of(runs: Sequence[Run]) -> str:
    """Environment, algorithm, rounds and seeds of the first run, and the labels of all runs."""
    if not runs:
        return "an example without a run"
    problem, seeds = runs[0].problem, runs[0].seeds
    env = problem.env_settings
    sizes = [f"{short}={_plain(env[name])}" for name, short in SHORT.items() if name in env]
    agent = {k: v for k, v in problem.agent_settings.items() if k != "rank" or v != env.get("rank")}
    parts = [
        " ".join([problem.env, *sizes]),
        " ".join([problem.algo, *(f"{name}={_plain(value)}" for name, value in agent.items())]),
        f"K={problem.rounds:,}",
        f"{seeds} seed{'s' * (seeds != 1)}",
    ]
    if len(runs) > 1:
        parts.append(" | ".join(run.label or run.name for run in runs))
    return ", ".join(parts)


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


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
