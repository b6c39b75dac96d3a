"""Rows of the table of facts, and the files facts.json and facts.csv that contain them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.core.versions import today, versions
from contrastive_ucb.facts.plan import GROUPS, Plan, Run

NAME = "facts.json"
State = Literal["holds", "does not hold", "not run", "reported"]
NOTHING = "\N{EN DASH}"
SHORT = {"n_states": "S", "n_actions": "A", "n_dead": "n_dead", "rank": "d", "horizon": "H"}
COLUMNS = ("fact", "setting", "target", "measured (95% interval)", "state", "seconds")
OTHER_COLUMNS = ("table", "setting", "measure", "mean (95% interval)")
MAX_SETTING = 76  # characters in the terminal; facts.json contains the whole text


@dataclass(frozen=True)
class Row:
    """One row of facts.json."""

    fact: str
    part: str
    claim: str
    setting: str
    mark: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    state: State
    required: bool
    seconds: float
    paper: str
    note: str
    measure: str
    group: str  # facts, ablations or peers
    limit: float | None = None  # the target as a number

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def measured(self) -> str:
        """The value with its interval, and the unit."""
        return measured_text(self.value, self.low, self.high, self.unit, number)

    @property
    def failed(self) -> bool:
        """A required claim that does not hold."""
        return self.required and self.state == "does not hold"


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


def text_of(rows: Sequence[Row]) -> str:
    """Tables for a terminal: the facts, then the groups without targets."""
    facts = [
        (
            f"{row.fact} {row.part}".strip(),
            shorten(row.setting, MAX_SETTING),
            row.mark,
            row.measured,
            f"{row.state} (required)" if row.failed else row.state,
            f"{row.seconds:.0f}",
        )
        for row in rows
        if row.group == "facts"
    ]
    others = [
        (row.fact, row.part, row.measure.replace("_", " "), f"{row.measured} {row.note}".strip())
        for row in rows
        if row.group != "facts"
    ]
    tables = [aligned((COLUMNS, *facts))] if facts else []
    tables += [aligned((OTHER_COLUMNS, *others))] if others else []
    return "\n\n".join(tables)


def measured_text(
    value: float | None,
    low: float | None,
    high: float | None,
    unit: str,
    written: Callable[[float], str],
) -> str:
    """A value with its interval and its unit; `written` formats the numbers."""
    if value is None:
        return NOTHING
    interval = "" if low is None or high is None else f" [{written(low)}, {written(high)}]"
    return f"{written(value)}{interval} {unit}".strip()


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= most else f"{text[: most - 24]} ... {text[-19:]}"


def csv_of(rows: Sequence[Row]) -> str:
    """The rows as comma-separated values, with a header."""
    written = io.StringIO()
    writer = csv.DictWriter(written, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.to_json() for row in rows)
    return written.getvalue()


def number(value: float) -> str:
    """Three significant digits, with a power of ten for very small and large values."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value)}"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits, power = f"{value:.2e}".split("e")
    return f"{digits}e{int(power)}"


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


# Files


def summary_of(
    plan: Plan, rows: Sequence[Row], command: str, seconds: float = 0.0
) -> dict[str, Any]:
    """The content of facts.json. Everything except the date and the seconds is reproducible.

    seconds  processor time of all runs
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
    """Raise an error if the folder contains a facts.json with rows that this plan would remove."""
    try:
        summary = read_summary(out)
        rows = {(row["fact"], row["part"]) for name in GROUPS for row in summary[name]}
        same = (summary["quick"], summary["seeds"]) == (plan.quick, seeds_of(plan))
    except (UserError, KeyError):  # no file, or not readable
        return
    if not same or rows - {(fact.fact, fact.part) for fact in plan.facts}:
        raise UserError(
            f"{out / NAME} contains rows of '{summary['command']}' that would be lost; choose"
            " another folder for --out"
        )


def seeds_of(plan: Plan) -> int:
    return max((run.seeds for run in plan.runs.values()), default=0)


def write_summary(out: Path, summary: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write facts.json and facts.csv."""
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / NAME, json.dumps(summary, indent=1, allow_nan=False) + "\n")
    write_atomically(out / "facts.csv", csv_of(rows))


def read_summary(out: Path) -> dict[str, Any]:
    """The content of facts.json in the folder."""
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
