"""What is measured and what is said about it: `facts.toml` as frozen tables.

A run is an algorithm on a task, for some seeds; a fact is a rule applied to what runs measured.
Names of facts are F1 to F16, and two more for tables without a mark: `ablations` and `peers`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.run import Run
from contrastive_ucb.runs.problem import problem_of

Table = Mapping[str, Any]
GROUPS = ("facts", "ablations", "peers")


@dataclass(frozen=True)
class Fact:
    """One row: what is claimed, where, and the rule that compares it with what was measured."""

    fact: str
    claim: str
    rule: str
    runs: tuple[str, ...]
    part: str = ""
    measure: str = ""
    mark: str = "none"
    limit: float | None = None
    paper: str = ""
    required: bool = False
    reported: bool = False  # there is no mark to meet
    unit: str = ""
    setting: str = ""  # where no run tells it
    note: str = ""
    smallest_at: float | None = None  # of an order
    variable: str = ""  # of a growth
    at: int | None = None  # the round, where it is not the last
    group: str = "facts"


@dataclass(frozen=True)
class Plan:
    """All runs by name, in the order in which they begin, and all rows."""

    runs: Mapping[str, Run]
    facts: tuple[Fact, ...]
    window: float
    quick: bool

    def choose(self, names: Sequence[str]) -> Plan:
        """The part of the plan that the named facts need; no name is all of it."""
        known = list(dict.fromkeys(_name_of(fact) for fact in self.facts))
        wanted = [_known(name, known) for name in names] or known
        facts = tuple(fact for fact in self.facts if _name_of(fact) in wanted)
        needed = {name for fact in facts for name in fact.runs}
        runs = {name: run for name, run in self.runs.items() if name in needed}
        return replace(self, runs=runs, facts=facts)

    def runs_of(self, fact: Fact) -> list[Run]:
        return [self.runs[name] for name in fact.runs]


def read_plan(quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan of the package; `seeds` overrides how many there are."""
    text = files("contrastive_ucb.facts").joinpath("facts.toml").read_text(encoding="utf-8")
    return plan_of(tomllib.loads(text), quick, seeds)


def plan_of(table: Table, quick: bool, seeds: int | None = None) -> Plan:
    """The plan that the table describes."""
    count = _value(table, "seeds", quick) if seeds is None else seeds
    runs: dict[str, Run] = {}
    sweeps: dict[str, list[str]] = {}
    for name, entry in table["runs"].items():
        made = list(_runs(name, entry, table["tasks"], quick, count))
        runs |= {run.name: run for run in made}
        sweeps[name] = [run.name for run in made]
    facts = [
        fact
        for group in GROUPS
        for entry in table.get(group, [])
        for fact in _facts(entry, group, sweeps, runs, quick)
    ]
    return Plan(runs, tuple(facts), float(table["window"]), quick)


def _runs(name: str, entry: Table, tasks: Table, quick: bool, seeds: int) -> Iterator[Run]:
    """One run, or one for each value of its sweep."""
    if "over" not in entry:
        yield _run(name, entry.get("label", ""), entry, tasks, {}, quick, seeds)
        return
    (key, values), *others = _value(entry, "over", quick).items()
    if others:
        raise UserError(f"run {name!r} sweeps over {others[0][0]!r} too; one key is allowed")
    for value in values:
        yield _run(f"{name}/{value}", str(value), entry, tasks, _changes(key, value), quick, seeds)


def _changes(key: str, value: Any) -> dict[str, Any]:
    """What one value of a sweep sets: a key, several ("a, b"), or "a=x b=y" for a switch."""
    if key == "switch":
        return dict(word.split("=", 1) for word in value.split())
    return {name.strip(): value for name in key.split(",")}


def _run(
    name: str, label: str, entry: Table, tasks: Table, changes: dict[str, Any], quick: bool, n: int
) -> Run:
    task = changes.pop("task", None) or entry["task"]
    own = dict(tasks[task])
    settings = {**own, **entry.get("settings", {})}
    settings |= entry.get("quick_settings", {}) if quick else {}
    settings |= changes
    env, algo = settings.pop("env"), settings.pop("algo", entry.get("algo", "contrastive-ucb"))
    problem = problem_of(env, algo, settings, _value(entry, "rounds", quick))
    parts = (tuple(entry.get(key, ())) for key in ("curves", "probes"))
    curves, probes = parts
    return Run(name, task, label, problem, n, curves, probes, entry.get("stops", False))


def _facts(
    entry: Table,
    group: str,
    sweeps: Mapping[str, list[str]],
    runs: Mapping[str, Run],
    quick: bool,
) -> Iterator[Fact]:
    """One row of an entry, or with `each` one for every run and measure."""
    plain = {key: entry[key] for key in entry if not key.startswith("quick_")}
    plain |= {
        key.removeprefix("quick_"): entry[key]
        for key in entry
        if quick and key.startswith("quick_")
    }
    names = tuple(run for name in plain.pop("runs") for run in sweeps.get(name, [name]))
    if unknown := [name for name in names if name not in runs]:
        raise UserError(f"{entry['fact']} needs the run {unknown[0]!r}; {hint(unknown[0], runs)}")
    if "each" not in plain:
        yield Fact(**plain, runs=names, group=group)
        return
    measures, part = plain.pop("each"), plain.pop("part", "{label}")
    for name in names:
        run = runs[name]
        label = part.format(label=run.label, algo=run.problem.algo, task=run.task)
        for measure in measures:
            own = {"part": label, "measure": measure, "reported": True, "runs": (name,)}
            yield Fact(**plain, **own, group=group)


def _value(table: Table, key: str, quick: bool) -> Any:
    """What stands under the key, or under quick_key if that is asked for and there."""
    return table.get(f"quick_{key}", table[key]) if quick else table[key]


def _name_of(fact: Fact) -> str:
    return fact.fact if fact.group == "facts" else fact.group


def _known(name: str, known: Iterable[str]) -> str:
    """A fact as it is spelt here; f7 is F7."""
    names = {one.lower(): one for one in known}
    if name.lower() not in names:
        raise UserError(f"no fact is called {name!r}; {hint(name, names.values())}")
    return names[name.lower()]
