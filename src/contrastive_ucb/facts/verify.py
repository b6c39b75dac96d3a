"""Run the experiment of a plan, and apply the rules of all facts.

The runs are ordinary run folders, so an interrupted command continues where it stopped. They are
stored under a hash of the source code, so results of older code are never reused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.versions import versions
from contrastive_ucb.facts.measure import Record, load_record
from contrastive_ucb.facts.plan import Fact, Plan, Run
from contrastive_ucb.facts.rows import Row, State, setting_of
from contrastive_ucb.facts.rules import RULES, Case, Outcome
from contrastive_ucb.runs.pool import run_local

FOLDER = "runs"
ELSEWHERE = "elsewhere"  # the rule of a fact that this command does not measure
PACKAGE = Path(__file__).parents[1]
MEASURING = (  # folders whose code determines the measurements
    *("core", "envs", "data", "representation", "bonus", "planning", "agents/finite"),
    *("evaluation", "runs", "facts"),
)

Say = Callable[[str], None]


class Verified(NamedTuple):
    """The rows of all facts in the order of the plan, and the records of the runs by name."""

    rows: list[Row]
    records: dict[str, Record]


def verify(
    plan: Plan, out: Path | None = None, workers: int = 1, say: Say = lambda line: None
) -> Verified:
    """Run what is not finished yet, and apply the rules of all facts.

    out      folder whose runs/ contains the run folders; None stores nothing
    workers  number of processes
    """
    with ExitStack() as stack:
        if out is None:
            root = Path(stack.enter_context(TemporaryDirectory()))
        else:
            root = out / FOLDER / fingerprint()[:16]
        records = measured(list(plan.runs.values()), root, workers, say)
    return Verified([_row(fact, plan, records) for fact in plan.facts], records)


def measured(
    runs: Sequence[Run], root: Path, workers: int = 1, say: Say = lambda line: None
) -> dict[str, Record]:
    """The records of all runs by name. Equal runs are made once."""
    unique: dict[str, Run] = {}
    for run in runs:
        unique.setdefault(run.identity(), run)
    folders = {
        key: [f for job in run.jobs for f in job.folders(root)] for key, run in unique.items()
    }
    waiting = [key for key, paths in folders.items() if not _finished(paths)]
    if len(waiting) < len(unique):
        say(f"{len(unique) - len(waiting)} of {len(unique)} runs are already measured")
    records: dict[str, Record] = {}

    def load_finished() -> None:
        for key in [key for key in waiting if _finished(folders[key])]:
            waiting.remove(key)
            records[key] = load_record(folders[key], len(unique[key].jobs))
            done = len(unique) - len(waiting)
            say(f"[{done}/{len(unique)}] {unique[key].name}: {records[key].seconds:.1f} s")

    jobs = [job for key in waiting for job in unique[key].jobs]
    if errors := run_local(jobs, root, workers, load_finished):
        folder, error = next(iter(errors.items()))
        raise UserError(
            f"{len(errors)} runs failed; {folder.relative_to(root)}: {error}; repeat the command,"
            " which continues with --out"
        )
    for key, run in unique.items():
        if key not in records:
            records[key] = load_record(folders[key], len(run.jobs))
    return {run.name: records[run.identity()] for run in runs}


def _finished(folders: Sequence[Path]) -> bool:
    return all((folder / "DONE").exists() for folder in folders)


@cache
def fingerprint() -> str:
    """Hash of the source code and the library versions that determine the measurements."""
    paths = sorted(path for folder in MEASURING for path in (PACKAGE / folder).glob("*.py"))
    content = [f"{path.relative_to(PACKAGE)} {path.read_text(encoding='utf-8')}" for path in paths]
    return hashlib.sha256("\n".join([json.dumps(versions()), *content]).encode()).hexdigest()


def _row(fact: Fact, plan: Plan, records: Mapping[str, Record]) -> Row:
    runs = plan.runs_of(fact)
    if fact.rule == ELSEWHERE:
        return row_of(fact, runs, None, 0.0)
    measured = [records[run.name] for run in runs]
    outcome = RULES[fact.rule](Case(fact, runs, measured, plan.window))
    return row_of(fact, runs, outcome, sum(record.seconds for record in measured))


def row_of(fact: Fact, runs: Sequence[Run], outcome: Outcome | None, seconds: float) -> Row:
    """The row of a fact. Without an outcome the fact was not run."""
    result = outcome or Outcome(None)
    return Row(
        fact=fact.fact,
        part=fact.part,
        claim=fact.claim,
        setting=fact.setting or setting_of(runs),
        mark=result.mark or fact.mark,
        value=_rounded(result.value),
        low=_rounded(result.low),
        high=_rounded(result.high),
        unit=fact.unit,
        state=_state(fact, outcome),
        required=fact.required,
        seconds=round(seconds, 1),
        paper=fact.paper,
        note=result.note or fact.note,
        measure=fact.measure,
        group=fact.group,
        limit=fact.limit if result.limit is None else _rounded(result.limit),
    )


def _state(fact: Fact, outcome: Outcome | None) -> State:
    if outcome is None:
        return "not run"
    if fact.reported or outcome.held is None:
        return "reported"
    return "holds" if outcome.held else "does not hold"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
