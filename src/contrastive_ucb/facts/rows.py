"""Rows: a fact with what was found, as JSON, CSV and a table for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from contrastive_ucb.facts.outcome import Outcome
from contrastive_ucb.facts.plan import Fact
from contrastive_ucb.facts.run import Run

State = Literal["holds", "does not hold", "not run", "reported"]
NOTHING = "\N{EN DASH}"
SHORT = {"n_states": "S", "n_actions": "A", "n_dead": "n_dead", "rank": "d", "horizon": "H"}
COLUMNS = ("fact", "setting", "mark", "measured (95% interval)", "state", "seconds")
OTHER_COLUMNS = ("table", "setting", "measure", "mean (95% interval)")
LONG = 76  # letters of a setting; facts.json has all of it


@dataclass(frozen=True)
class Row:
    """One line of facts.json."""

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def measured(self) -> str:
        """The value with its interval, and the unit."""
        return measured_text(self.value, self.low, self.high, self.unit, number)

    @property
    def failed(self) -> bool:
        """A claim that had to hold and does not."""
        return self.required and self.state == "does not hold"


def row_of(fact: Fact, runs: Sequence[Run], outcome: Outcome | None, seconds: float) -> Row:
    """The row of a fact; no outcome means that it was not run."""
    found = outcome or Outcome(None)
    return Row(
        fact=fact.fact,
        part=fact.part,
        claim=fact.claim,
        setting=fact.setting or setting_of(runs),
        mark=found.mark or fact.mark,
        value=_kept(found.value),
        low=_kept(found.low),
        high=_kept(found.high),
        unit=fact.unit,
        state=_state(fact, outcome),
        required=fact.required,
        seconds=round(seconds, 1),
        paper=fact.paper,
        note=found.note or fact.note,
        measure=fact.measure,
        group=fact.group,
    )


def setting_of(runs: Sequence[Run]) -> str:
    """What was run, in one line; of several runs, the first and what tells them apart."""
    if not runs:
        return "an example, nothing is run"
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
    """The tables for a terminal: the facts, and below them what has no mark."""
    facts = [
        (
            f"{row.fact} {row.part}".strip(),
            shorten(row.setting, LONG),
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
    """A value with its interval and its unit, each number as `written` has it."""
    if value is None:
        return NOTHING
    interval = "" if low is None or high is None else f" [{written(low)}, {written(high)}]"
    return f"{written(value)}{interval} {unit}".strip()


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
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
    writer = csv.DictWriter(written, [one.name for one in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.to_json() for row in rows)
    return written.getvalue()


def number(value: float) -> str:
    """Three digits, with a power of ten for what is very small or large."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value)}"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits, power = f"{value:.2e}".split("e")
    return f"{digits}e{int(power)}"


def _state(fact: Fact, outcome: Outcome | None) -> State:
    if outcome is None:
        return "not run"
    if fact.reported or outcome.held is None:
        return "reported"
    return "holds" if outcome.held else "does not hold"


def _kept(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
