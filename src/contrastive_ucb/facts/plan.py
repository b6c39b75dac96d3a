"""`facts.toml` as frozen tables: the runs, and the facts that are derived from them.

A run is an algorithm on a task with several seeds. A fact is a rule applied to the measurements of
its runs. Facts are named F1 to F16; the groups `ablations` and `peers` are tables without targets.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.problem import Problem, problem_of

Table = Mapping[str, Any]
GROUPS = ("facts", "ablations", "peers")


@dataclass(frozen=True)
class Run:
    """One algorithm on one task with seeds 0, 1, ..., and the measurements to store."""

    name: str
    task: str
    label: str  # value that distinguishes it from the other runs of its sweep
    problem: Problem
    seeds: int
    curves: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    stops: bool = False  # when all seeds have solved the task

    def identity(self) -> dict[str, Any]:
        """Everything that determines the measurements, except the code.

        Settings with their default values are omitted, so runs that differ only in whether they
        state a default are the same run, and a new setting does not change the identity.
        """
        default = replace(self.problem, agent_settings={})
        config, usual = (problem.spec(0).config for problem in (self.problem, default))
        changed = {k: v for k, v in config["agent"].items() if v != usual["agent"][k]}
        return {
            "env": config["env"],
            "algo": self.problem.algo,
            "settings": changed,
            "rounds": config["rounds"],
            "seeds": self.seeds,
            "curves": sorted(self.curves),
            "probes": sorted(self.probes),
            "stops": self.stops,
        }

    def key(self, code: str) -> str:
        """Short hash of the identity and of `code`, the fingerprint of the source code."""
        content = json.dumps([self.identity(), code], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Fact:
    """One row of the table: a claim, its runs, and the rule that tests it."""

    fact: str
    claim: str
    rule: str
    runs: tuple[str, ...]
    part: str = ""
    measure: str = ""
    mark: str = "none"  # description of the target
    limit: float | None = None  # the target as a number
    paper: str = ""
    required: bool = False
    reported: bool = False  # without a target
    unit: str = ""
    setting: str = ""  # for facts without runs
    note: str = ""
    smallest_at: float | None = None  # for the rule "order"
    variable: str = ""  # for the rule "growth"
    at: int | None = None  # round, if not the last
    group: str = "facts"


@dataclass(frozen=True)
class Plan:
    """All runs by name, in the order in which they start, and all facts."""

    runs: Mapping[str, Run]
    facts: tuple[Fact, ...]
    window: float  # slopes are fitted over the rounds K / window .. K
    quick: bool

    def choose(self, names: Sequence[str]) -> Plan:
        """The named facts and their runs; all of them if no name is given."""
        known = list(dict.fromkeys(_name_of(fact) for fact in self.facts))
        wanted = [_known(name, known) for name in names] or known
        facts = tuple(fact for fact in self.facts if _name_of(fact) in wanted)
        needed = {name for fact in facts for name in fact.runs}
        runs = {name: run for name, run in self.runs.items() if name in needed}
        return replace(self, runs=runs, facts=facts)

    def runs_of(self, fact: Fact) -> list[Run]:
        return [self.runs[name] for name in fact.runs]


def read_plan(quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan in facts.toml; `seeds` overrides its number of seeds."""
    text = files("contrastive_ucb.facts").joinpath("facts.toml").read_text(encoding="utf-8")
    return plan_of(tomllib.loads(text), quick, seeds)


def plan_of(table: Table, quick: bool, seeds: int | None = None) -> Plan:
    """The plan that a parsed TOML file describes."""
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
    """One run, or one per value of its sweep."""
    if "over" not in entry:
        yield _run(name, entry.get("label", ""), entry, tasks, {}, quick, seeds)
        return
    (key, values), *others = _value(entry, "over", quick).items()
    if others:
        raise UserError(
            f"run {name!r} sweeps over {key!r} and {others[0][0]!r}; only one key is allowed"
        )
    for value in values:
        yield _run(f"{name}/{value}", str(value), entry, tasks, _changes(key, value), quick, seeds)


def _changes(key: str, value: Any) -> dict[str, Any]:
    """Settings of one value of a sweep: one key, several ("a, b"), or "a=x b=y" for a switch."""
    if key == "switch":
        return dict(word.split("=", 1) for word in value.split())
    return {name.strip(): value for name in key.split(",")}


def _run(
    name: str, label: str, entry: Table, tasks: Table, changes: dict[str, Any], quick: bool, n: int
) -> Run:
    task = changes.pop("task", None) or entry["task"]
    settings = {**tasks[task], **entry.get("settings", {})}
    settings |= entry.get("quick_settings", {}) if quick else {}
    settings |= changes
    env, algo = settings.pop("env"), settings.pop("algo", entry.get("algo", "contrastive-ucb"))
    problem = problem_of(env, algo, settings, _value(entry, "rounds", quick))
    curves, probes = (tuple(entry.get(key, ())) for key in ("curves", "probes"))
    return Run(name, task, label, problem, n, curves, probes, entry.get("stops", False))


def _facts(
    entry: Table,
    group: str,
    sweeps: Mapping[str, list[str]],
    runs: Mapping[str, Run],
    quick: bool,
) -> Iterator[Fact]:
    """One fact per entry, or with `each` one per run and measure."""
    fields = {key: entry[key] for key in entry if not key.startswith("quick_")}
    if quick:
        quick_keys = [key for key in entry if key.startswith("quick_")]
        fields |= {key.removeprefix("quick_"): entry[key] for key in quick_keys}
    names = tuple(run for name in fields.pop("runs") for run in sweeps.get(name, [name]))
    if unknown := [name for name in names if name not in runs]:
        raise UserError(f"{entry['fact']} needs the run {unknown[0]!r}; {hint(unknown[0], runs)}")
    if "each" not in fields:
        yield Fact(**fields, runs=names, group=group)
        return
    measures, part = fields.pop("each"), fields.pop("part", "{label}")
    for name in names:
        run = runs[name]
        label = part.format(label=run.label, algo=run.problem.algo, task=run.task)
        for measure in measures:
            more = {"part": label, "measure": measure, "reported": True, "runs": (name,)}
            yield Fact(**fields, **more, group=group)


def _value(table: Table, key: str, quick: bool) -> Any:
    """The value of `key`, or of `quick_<key>` if it exists and `quick` is set."""
    return table.get(f"quick_{key}", table[key]) if quick else table[key]


def _name_of(fact: Fact) -> str:
    return fact.fact if fact.group == "facts" else fact.group


def _known(name: str, known: Iterable[str]) -> str:
    """The spelling used here; case does not matter."""
    names = {spelling.lower(): spelling for spelling in known}
    if name.lower() not in names:
        raise UserError(f"no fact is called {name!r}; {hint(name, names.values())}")
    return names[name.lower()]
