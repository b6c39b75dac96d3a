"""The plan of `cucb verify`: the runs of experiments/facts.toml and the facts derived from them.

A fact is a rule applied to the measurements of its runs. Facts are named F1 to F19; the groups
`ablations` and `peers` are tables without targets. The runs are ordinary run folders, so an
interrupted command continues where it stopped. They are stored under a hash of the source code, so
results of older code are never reused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import on_grid
from contrastive_ucb.core.runtime import versions
from contrastive_ucb.facts.rows import GROUPS, Row
from contrastive_ucb.runs.grid import Job, Table, experiment_table, jobs_of, merged
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.store import RunFolder

OF_FACTS = ("window", "part", "quick", *GROUPS)  # keys of the file that describe no runs
PER_DECADE = 10  # rounds of a curve
PACKAGE = Path(__file__).parents[1]
MEASURING = (  # folders whose code determines the measurements
    *("core", "envs", "data", "representation", "bonus", "planning", "agents/finite"),
    *("evaluation", "runs", "facts"),
)


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
class Fact(Row):
    """A row that is not measured yet, and the rule that measures it on its runs."""

    rule: str = ""  # see `rules.RULES`; none: measured by another command
    runs: tuple[str, ...] = ()
    reported: bool = False  # without comparing it with the target
    window: float = 1.0  # slopes are fitted over the rounds K / window .. K
    smallest_at: float | None = None  # for the rule "order"
    variable: str = ""  # for the rules "growth" and "learning target"
    at: int | None = None  # round, if not the last

    @property
    def target(self) -> float:
        """The limit; NaN, which nothing reaches, if there is none."""
        return np.nan if self.limit is None else self.limit

    @property
    def argument(self) -> str:
        """What the command line calls it."""
        return self.fact if self.group == "facts" else self.group


@dataclass(frozen=True)
class Plan:
    """All runs by name, in the order in which they start, and all facts."""

    runs: Mapping[str, Run]
    facts: tuple[Fact, ...]
    quick: bool

    @property
    def seeds(self) -> int:
        return max((run.seeds for run in self.runs.values()), default=0)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all runs; those of equal runs once."""
        once = {run.identity(): run.jobs for run in self.runs.values()}
        return [job for jobs in once.values() for job in jobs]

    def choose(self, names: Sequence[str]) -> Plan:
        """The named facts, in upper or lower case, and their runs; all of them without a name."""
        known = {fact.argument.lower(): fact.argument for fact in self.facts}
        for name in names:
            if name.lower() not in known:
                raise UserError(f"no fact is called {name!r}; {hint(name, known.values())}")
        wanted = {name.lower() for name in names} or known.keys()
        facts = tuple(fact for fact in self.facts if fact.argument.lower() in wanted)
        needed = {name for fact in facts for name in fact.runs}
        runs = {name: run for name, run in self.runs.items() if name in needed}
        return replace(self, runs=runs, facts=facts)


def read_plan(quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan in facts.toml; `seeds` overrides its number of seeds."""
    return plan_of(experiment_table("facts"), quick, seeds)


def plan_of(table: Table, quick: bool = False, seeds: int | None = None) -> Plan:
    """The plan that a parsed TOML file describes."""
    whole = {key: value for key, value in table.items() if key not in OF_FACTS}
    whole |= table.get("quick", {}) if quick else {}
    if seeds is not None:
        whole["seeds"] = seeds
    runs = {run.name: run for part in table["part"] for run in _runs(whole, _sized(part, quick))}
    facts = tuple(
        fact
        for group in GROUPS
        for entry in table.get(group, [])
        for fact in _facts({"window": table["window"], **_sized(entry, quick)}, group, runs)
    )
    return Plan(runs, facts, quick)


def _sized(entry: Table, quick: bool) -> dict[str, Any]:
    """The keys of a part or fact; with --quick, those of its `quick` replace them."""
    keys = {key: value for key, value in entry.items() if key != "quick"}
    small = entry.get("quick", {}) if quick else {}
    return merged(keys, small) if "settings" in small else {**keys, **small}


def _runs(whole: Table, part: dict[str, Any]) -> list[Run]:
    """One run per agent of the part."""
    name = part.pop("name")
    jobs: dict[str, list[Job]] = {}
    for job in jobs_of(merged(whole, part)):
        jobs.setdefault(job.label, []).append(job)
    names = {label: name if len(jobs) == 1 else f"{name}/{label}" for label in jobs}
    return [Run(names[label], label, tuple(same)) for label, same in jobs.items()]


def _facts(entry: dict[str, Any], group: str, runs: Mapping[str, Run]) -> Iterator[Fact]:
    """One fact per entry, or with `each` one per run and measure."""
    names: list[str] = []
    for name in entry.pop("runs", ()):
        same = [run for run in runs if run == name or run.startswith(f"{name}/")]
        if not same:
            raise UserError(f"{entry['fact']} needs the run {name!r}; {hint(name, runs)}")
        names += same
    if "each" not in entry:
        yield Fact(**entry, runs=tuple(names), group=group)
        return
    measures, part = entry.pop("each"), entry.pop("part", "{label}")
    for name in names:
        label = part.format(label=runs[name].label, algo=runs[name].problem.algo)
        for measure in measures:
            yield Fact(**entry, part=label, measure=measure, runs=(name,), group=group)


# The measurements of finished runs


@cache
def fingerprint() -> str:
    """Hash of the source code and the library versions that determine the measurements."""
    paths = sorted(path for folder in MEASURING for path in (PACKAGE / folder).glob("*.py"))
    content = [f"{path.relative_to(PACKAGE)} {path.read_text(encoding='utf-8')}" for path in paths]
    return hashlib.sha256("\n".join([json.dumps(versions()), *content]).encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """Measurements of a run.

    rounds   (n,)            recorded rounds, ten per decade
    curves   name -> (B, n)  B seeds; NaN after the end of a seed that stopped early
    totals   name -> (B,)    the numbers in the summaries; NaN means "never"
    seconds                  of all its processes
    """

    run: Run
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


def load_records(runs: Mapping[str, Run], root: Path) -> dict[str, Record]:
    """The records of finished runs; those of equal runs are read once."""
    once = {run.identity(): run for run in runs.values()}
    loaded = {identity: load_record(run, root) for identity, run in once.items()}
    return {name: replace(loaded[run.identity()], run=run) for name, run in runs.items()}


def load_record(run: Run, root: Path) -> Record:
    """The record of a finished run, read from the run folders of its seeds."""
    folders = [RunFolder(spec, root) for job in run.jobs for spec in job.specs]
    summaries = [folder.summary() for folder in folders]
    metrics = [_read_metrics(folder.metrics) for folder in folders]
    last = max(summary["rounds"] for summary in summaries)
    recorded = sorted({step for seed in metrics for step in seed.index})
    steps = [step for step in recorded if on_grid(step, last, PER_DECADE)]
    curves = {name: _array([seed[name].reindex(steps) for seed in metrics]) for name in metrics[0]}
    numbers = [name for name, x in summaries[0].items() if isinstance(x, int | float | None)]
    totals = {name: _array([summary[name] for summary in summaries]) for name in numbers}
    # The seeds of a process share its seconds.
    seconds = sum(summary["seconds"] for summary in summaries) * len(run.jobs) / len(folders)
    return Record(run, np.array(steps, dtype=np.int64), curves, totals, seconds)


def _read_metrics(path: Path) -> pd.DataFrame:
    """The lines of metrics.jsonl by their step."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return pd.DataFrame(lines).set_index("step")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove its folder and repeat the command"
        ) from error


def _array(values: Sequence[Any]) -> Array:
    """Numbers with six significant digits, as in facts.json; NaN for None."""
    exact = np.array(values, dtype=float)
    return np.array([float(f"{x:.6g}") for x in exact.flat]).reshape(exact.shape)
