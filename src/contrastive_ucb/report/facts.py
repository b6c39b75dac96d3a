"""The facts of the theory with their marks: what `cucb verify --out FOLDER` left in facts.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.rows import measured_text
from contrastive_ucb.report.html import Section
from contrastive_ucb.report.read import is_number, read_text
from contrastive_ucb.report.tables import Table, number_text

NAME = "facts.json"
STATES = {
    "holds": "✓ holds",
    "does not hold": "✗ does not hold",
    "reported": "reported",
    "not run": "not run",
}
TOLD = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "reported": ("is reported, without a mark", "are reported, without marks"),
    "not run": ("was not run", "were not run"),
}
WORDS = ("fact", "claim", "setting", "mark", "unit", "state", "paper")
NUMBERS = ("value", "low", "high")  # None where there is none


@dataclass(frozen=True)
class Fact:
    """A claim of the paper, what had to be measured for it to hold, and what was measured."""

    fact: str
    claim: str
    setting: str
    mark: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    state: str
    required: bool
    seconds: float
    paper: str

    @property
    def measured(self) -> str:
        return measured_text(self.value, self.low, self.high, self.unit, number_text)


@dataclass(frozen=True)
class Facts:
    """The facts of a file, and how they came about as far as the file says so."""

    file: Path
    facts: tuple[Fact, ...]
    command: str = ""
    versions: str = ""
    date: str = ""


def read_facts(root: Path, given: Path | None = None) -> Facts | None:
    """The facts in the file that was given, or in the folder; None if there are none."""
    file = given or root / NAME
    if given is None and not file.exists():
        return None
    content = _object(file)
    facts = tuple(_fact(entry, at, file) for at, entry in enumerate(content["facts"], start=1))
    versions = content.get("versions", "")
    if isinstance(versions, Mapping):
        versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    command, date = (str(content.get(key, "")) for key in ("command", "date"))
    return Facts(file, facts, command, str(versions), date)


def facts_section(found: Facts) -> Section:
    """All facts in a table, and before it how many of them hold."""
    return Section(
        "Theory: facts and their marks",
        (f"{counted(found.facts)} {required_text(found.facts)}",),
        table=facts_table(found.facts),
        table_caption="What the paper claims, the mark that was set before measuring, and what was"
        f" measured, in brackets with its interval. {_origin(found)}",
        commands=(found.command,) if found.command else (),
    )


def facts_table(facts: Sequence[Fact]) -> Table:
    """A row a fact, in the order of the file."""
    header = ("fact", "state", "claim", "mark", "measured", "setting", "paper", "seconds")
    rows = []
    for one in facts:
        state = STATES[one.state] + " (required)" * one.required
        own = (one.fact, state, one.claim, one.mark, one.measured, one.setting)
        rows.append((*own, one.paper, f"{one.seconds:,.1f}"))
    return Table(header, tuple(rows))


def counted(facts: Sequence[Fact]) -> str:
    """How many facts are in each state, in words."""
    counts = Counter(one.state for one in facts)
    parts = [f"{counts[s]} {TOLD[s][counts[s] != 1]}" for s in STATES if counts[s]]
    return f"{len(facts)} fact{'s' * (len(facts) != 1)}: {'; '.join(parts) or 'none'}."


def required_text(facts: Sequence[Fact]) -> str:
    """Whether what is required holds; what does not is named."""
    required = [one for one in facts if one.required]
    if not required:
        return "None of them is required."
    if lacking := [one for one in required if one.state != "holds"]:
        named = "; ".join(f"{one.fact} ({one.claim}): {one.state}" for one in lacking)
        return f"Required are {len(required)}, and not all of these hold. {named}."
    return f"Required are {len(required)}, and all of these hold."


def _origin(found: Facts) -> str:
    """Where the facts come from."""
    when = f" on {found.date}" if found.date else ""
    made_with = f" with {found.versions}" if found.versions else ""
    below = " The command below measures them again." if found.command else ""
    return f"From {found.file}, measured{when}{made_with}.{below}"


def _object(file: Path) -> dict[str, Any]:
    """The content of the file, of which only the list of facts is known to be there."""
    way_out = _way_out(file)
    try:
        content = json.loads(read_text(file, way_out))
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{file} is damaged (not valid JSON); {way_out}") from error
    if not isinstance(content, dict) or not isinstance(content.get("facts"), list):
        raise UserError(f"{file} is damaged (no JSON object with a list 'facts'); {way_out}")
    return content


def _fact(entry: Any, at: int, file: Path) -> Fact:
    """The fact number `at` of the file."""
    values = entry if isinstance(entry, Mapping) else {}
    problem = "" if values else "is no JSON object"
    for name in (*WORDS, *NUMBERS, "required", "seconds"):
        if not problem:
            problem = _problem(name, values)
    if problem:
        raise UserError(f"{file} is damaged (fact {at} {problem}); {_way_out(file)}")
    part = values.get("part")  # one of several measurements of a fact
    name = f"{values['fact']} {part}" if part else values["fact"]
    own = {field.name: values[field.name] for field in fields(Fact)}
    return Fact(**{**own, "fact": name})


def _problem(name: str, values: Mapping[str, Any]) -> str:
    """What is wrong with a value of a fact; empty if nothing is."""
    if name not in values:
        return f"has no {name!r}"
    value = values[name]
    if name in WORDS:
        right = isinstance(value, str) and (name != "state" or value in STATES)
    elif name == "required":
        right = isinstance(value, bool)
    else:
        right = is_number(value) or (value is None and name in NUMBERS)
    return "" if right else f"has the {name} {value!r}"


def _way_out(file: Path) -> str:
    return f"run 'cucb verify --out {file.parent}' again or remove the file"
