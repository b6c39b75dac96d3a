"""The plan of `cucb verify`: the runs of experiments/facts.toml and the facts derived from them.

A fact is a rule applied to the measurements of its runs. Facts are named F1 to F16; the groups
`ablations` and `peers` are tables without targets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import on_grid
from contrastive_ucb.runs.grid import Job, experiment_table, jobs_of, merged
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.store import read_object

Table = Mapping[str, Any]
GROUPS = ("facts", "ablations", "peers")
OF_FACTS = ("window", "part", "quick", *GROUPS)  # keys of the file that describe no runs
PER_DECADE = 10  # rounds of a curve
NUMBERS = (int, float, type(None))


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

    @property
    def seeds(self) -> int:
        return max((run.seeds for run in self.runs.values()), default=0)

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

    def unique_runs(self) -> list[Run]:
        """The first of equal runs."""
        unique: dict[str, Run] = {}
        for run in self.runs.values():
            unique.setdefault(run.identity(), run)
        return list(unique.values())

    def jobs(self) -> list[Job]:
        return [job for run in self.unique_runs() for job in run.jobs]


def read_plan(quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan in facts.toml; `seeds` overrides its number of seeds."""
    return plan_of(experiment_table("facts"), quick, seeds)


def plan_of(table: Table, quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan that a parsed TOML file describes."""
    whole = {key: value for key, value in table.items() if key not in OF_FACTS}
    if quick:
        whole |= table.get("quick", {})
    if seeds is not None:
        whole["seeds"] = seeds
    parts = {part["name"]: _runs(whole, part, quick) for part in table["part"]}
    runs = {run.name: run for made in parts.values() for run in made}
    facts = tuple(
        fact
        for group in GROUPS
        for entry in table.get(group, [])
        for fact in _facts(entry, group, parts, runs, quick)
    )
    return Plan(runs, facts, float(table["window"]), quick)


def _runs(whole: Table, part: Table, quick: bool) -> list[Run]:
    """One run per agent of the part."""
    keys = {key: value for key, value in part.items() if key not in ("name", "quick")}
    if quick:
        keys = merged(keys, part.get("quick", {}))
    jobs: dict[str, list[Job]] = {}
    for job in jobs_of(merged(whole, keys)):
        jobs.setdefault(job.label, []).append(job)
    name = part["name"]
    return [
        Run(name if len(jobs) == 1 else f"{name}/{label}", label, tuple(same))
        for label, same in jobs.items()
    ]


def _facts(
    entry: Table, group: str, parts: Mapping[str, list[Run]], runs: Mapping[str, Run], quick: bool
) -> Iterator[Fact]:
    """One fact per entry, or with `each` one per run and measure."""
    fields = {key: entry[key] for key in entry if not key.startswith("quick_")}
    if quick:
        fields |= {key[6:]: entry[key] for key in entry if key.startswith("quick_")}
    names: list[str] = []
    for name in fields.pop("runs"):
        if name not in parts and name not in runs:
            raise UserError(f"{entry['fact']} needs the run {name!r}; {hint(name, runs)}")
        names += [run.name for run in parts[name]] if name in parts else [name]
    if "each" not in fields:
        yield Fact(**fields, runs=tuple(names), group=group)
        return
    measures, part = fields.pop("each"), fields.pop("part", "{label}")
    for name in names:
        label = part.format(label=runs[name].label, algo=runs[name].problem.algo)
        for measure in measures:
            more = {"part": label, "measure": measure, "reported": True, "runs": (name,)}
            yield Fact(**fields, **more, group=group)


# The measurements of finished runs


@dataclass(frozen=True)
class Record:
    """Measurements of a run.

    rounds   (n,)            recorded rounds, ten per decade
    curves   name -> (B, n)  B seeds; NaN after the end of a seed that stopped early
    totals   name -> (B,)    the numbers in the summaries; NaN means "never"
    seconds                  of all its processes
    """

    rounds: IntArray
    curves: Mapping[str, Array]
    totals: Mapping[str, Array]
    seconds: float

    def curve(self, name: str) -> Array:
        """A curve, or with the name "a / b" the quotient of two curves."""
        numerator, *denominator = (_entry(part, self.curves, "curve") for part in name.split(" / "))
        return numerator / denominator[0] if denominator else numerator

    def total(self, name: str) -> Array:
        return _entry(name, self.totals, "total")


def _entry(name: str, table: Mapping[str, Array], kind: str) -> Array:
    if name not in table:
        raise UserError(f"the run has no {kind} {name!r}; it has {', '.join(sorted(table))}")
    return table[name]


def load_record(run: Run, root: Path) -> Record:
    """The record of a finished run, read from the run folders of its seeds."""
    folders = [folder for job in run.jobs for folder in job.folders(root)]
    summaries = [read_object(folder / "DONE", "remove it and repeat") for folder in folders]
    lines = [_read_metrics(folder / "metrics.jsonl") for folder in folders]
    last = max(summary["rounds"] for summary in summaries)
    steps = sorted({step for seed in lines for step in seed if on_grid(step, last, PER_DECADE)})
    names = dict.fromkeys(name for step in steps for name in lines[0].get(step, {}))
    curves = {
        name: _array([[seed.get(step, {}).get(name) for step in steps] for seed in lines])
        for name in names
        if name != "step"
    }
    numbers = [name for name, value in summaries[0].items() if isinstance(value, NUMBERS)]
    totals = {name: _array([summary[name] for summary in summaries]) for name in numbers}
    # The seeds of a process share its seconds.
    seconds = sum(summary["seconds"] for summary in summaries) * len(run.jobs) / len(folders)
    return Record(np.array(steps, dtype=np.int64), curves, totals, seconds)


def _read_metrics(path: Path) -> dict[int, dict[str, Any]]:
    """The lines of metrics.jsonl by their step."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {line["step"]: line for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove its folder and repeat the command"
        ) from error


def _array(values: list[Any]) -> Array:
    """Numbers with six significant digits, as in facts.json; NaN for None."""
    exact = np.array(values, dtype=float)
    rounded = [float(f"{value:.6g}") for value in exact.ravel()]
    return np.array(rounded).reshape(exact.shape)
