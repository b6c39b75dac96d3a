"""The plan of `cucb verify`: the runs of experiments/facts.toml and the facts derived from them.

A fact is a rule applied to the measurements of its runs. Facts are named F1 to F16; the groups
`ablations` and `peers` are tables without targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Job, jobs_of, merged, read_table
from contrastive_ucb.runs.problem import Problem

Table = Mapping[str, Any]
GROUPS = ("facts", "ablations", "peers")
OF_FACTS = ("window", "part", "quick", *GROUPS)  # keys of the file that describe no runs


@dataclass(frozen=True)
class Run:
    """One algorithm on one problem with all its seeds."""

    name: str  # of its part, or part/label
    label: str  # what distinguishes it from the other runs of its part
    jobs: tuple[Job, ...]

    @property
    def problem(self) -> Problem:
        task = self.jobs[0].task
        assert isinstance(task, Problem)
        return task

    @property
    def seeds(self) -> int:
        return sum(job.n_seeds for job in self.jobs)

    def identity(self) -> str:
        """Runs with the same identity are equal."""
        return self.jobs[0].spec().identity()


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

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return self.fact if self.group == "facts" else self.group


@dataclass(frozen=True)
class Plan:
    """All runs by name, in the order in which they start, and all facts."""

    runs: Mapping[str, Run]
    facts: tuple[Fact, ...]
    window: float  # slopes are fitted over the rounds K / window .. K
    quick: bool

    def choose(self, names: Sequence[str]) -> Plan:
        """The named facts, in upper or lower case, and their runs; all of them without a name."""
        known = {fact.name.lower(): fact.name for fact in self.facts}
        for name in names:
            if name.lower() not in known:
                raise UserError(f"no fact is called {name!r}; {hint(name, known.values())}")
        wanted = {name.lower() for name in names} or known.keys()
        facts = tuple(fact for fact in self.facts if fact.name.lower() in wanted)
        needed = {name for fact in facts for name in fact.runs}
        runs = {name: run for name, run in self.runs.items() if name in needed}
        return replace(self, runs=runs, facts=facts)

    def runs_of(self, fact: Fact) -> list[Run]:
        return [self.runs[name] for name in fact.runs]


def read_plan(quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan in facts.toml; `seeds` overrides its number of seeds."""
    return plan_of(read_table("facts"), quick, seeds)


def plan_of(table: Table, quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan that a parsed TOML file describes."""
    whole = {key: value for key, value in table.items() if key not in OF_FACTS}
    if quick:
        whole |= table.get("quick", {})
    if seeds is not None:
        whole["seeds"] = seeds
    runs: dict[str, Run] = {}
    parts: dict[str, list[str]] = {}  # name of the part: names of its runs
    for part in table["part"]:
        made = list(_runs(whole, part, quick))
        runs |= {run.name: run for run in made}
        parts[part["name"]] = [run.name for run in made]
    facts = tuple(
        fact
        for group in GROUPS
        for entry in table.get(group, [])
        for fact in _facts(entry, group, parts, runs, quick)
    )
    return Plan(runs, facts, float(table["window"]), quick)


def _runs(whole: Table, part: Table, quick: bool) -> Iterator[Run]:
    """One run per agent of the part."""
    keys = {key: value for key, value in part.items() if key not in ("name", "quick")}
    if quick:
        keys = merged(keys, part.get("quick", {}))
    jobs = jobs_of(merged(whole, keys))
    labels = list(dict.fromkeys(job.label for job in jobs))
    for label in labels:
        name = part["name"] if len(labels) == 1 else f"{part['name']}/{label}"
        yield Run(name, label, tuple(job for job in jobs if job.label == label))


def _facts(
    entry: Table,
    group: str,
    parts: Mapping[str, list[str]],
    runs: Mapping[str, Run],
    quick: bool,
) -> Iterator[Fact]:
    """One fact per entry, or with `each` one per run and measure."""
    fields = {key: entry[key] for key in entry if not key.startswith("quick_")}
    if quick:
        quick_keys = [key for key in entry if key.startswith("quick_")]
        fields |= {key.removeprefix("quick_"): entry[key] for key in quick_keys}
    names = tuple(run for name in fields.pop("runs") for run in parts.get(name, [name]))
    if unknown := [name for name in names if name not in runs]:
        raise UserError(f"{entry['fact']} needs the run {unknown[0]!r}; {hint(unknown[0], runs)}")
    if "each" not in fields:
        yield Fact(**fields, runs=names, group=group)
        return
    measures, part = fields.pop("each"), fields.pop("part", "{label}")
    for name in names:
        label = part.format(label=runs[name].label, algo=runs[name].problem.algo)
        for measure in measures:
            more = {"part": label, "measure": measure, "reported": True, "runs": (name,)}
            yield Fact(**fields, **more, group=group)
