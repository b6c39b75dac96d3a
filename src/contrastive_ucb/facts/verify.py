"""Measure the runs of a plan in parallel, and apply the rules of all facts.

The measurements of a run are stored in one file, named after a hash of its settings and of the
source code. An interrupted command therefore continues with the unfinished runs.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.core.versions import today, versions
from contrastive_ucb.facts.measure import Record, measure_json
from contrastive_ucb.facts.plan import Fact, Plan, Run
from contrastive_ucb.facts.rows import Row, State, setting_of
from contrastive_ucb.facts.rules import RULES, Case, Outcome

FOLDER = "runs"
ELSEWHERE = "elsewhere"  # the rule of a fact that this command does not measure
PACKAGE = Path(__file__).parents[1]
MEASURING = (  # folders whose code determines the measurements
    *("core", "envs", "data", "representation", "bonus", "planning", "agents/finite"),
    *("evaluation", "training", "experiments", "runs", "facts"),
)

Say = Callable[[str], None]


class Verified(NamedTuple):
    """The rows of all facts in the order of the plan, and the records of the runs by name."""

    rows: list[Row]
    records: dict[str, Record]


def verify(
    plan: Plan, out: Path | None = None, workers: int = 1, say: Say = lambda line: None
) -> Verified:
    """Measure the runs that are not stored yet, and apply the rules of all facts.

    out      folder whose runs/ stores the measurements; None stores nothing
    workers  number of processes; with one, everything runs in this process
    """
    records = measured(list(plan.runs.values()), out, workers, say)
    return Verified([_row(fact, plan, records) for fact in plan.facts], records)


def measured(
    runs: Sequence[Run], out: Path | None, workers: int = 1, say: Say = lambda line: None
) -> dict[str, Record]:
    """The records of all runs by name. Runs with equal settings are measured once."""
    code = fingerprint()
    unique: dict[str, Run] = {}
    for run in runs:
        unique.setdefault(run.key(code), run)
    contents = {key: content for key, run in unique.items() if (content := _load(out, run, key))}
    waiting = {key: run for key, run in unique.items() if key not in contents}
    if contents:
        say(f"{len(contents)} of {len(unique)} runs are already measured")
    for done, (key, content) in enumerate(_measured(waiting, workers), len(contents) + 1):
        contents[key] = content
        _store(out, waiting[key], key, content)
        say(f"[{done}/{len(unique)}] {waiting[key].name}: {content['seconds']:.1f} s")
    records = {key: Record.from_json(content) for key, content in contents.items()}
    return {run.name: records[run.key(code)] for run in runs}


@cache
def fingerprint() -> str:
    """Hash of the source code that determines the measurements."""
    paths = sorted(path for folder in MEASURING for path in (PACKAGE / folder).glob("*.py"))
    content = [f"{path.relative_to(PACKAGE)} {path.read_text(encoding='utf-8')}" for path in paths]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()


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


def _measured(runs: Mapping[str, Run], workers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys and measurements of the runs, in the order in which they finish."""
    if workers == 1 or len(runs) < 2:
        yield from ((key, measure_json(run)) for key, run in runs.items())
        return
    before = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit threads
    with ProcessPoolExecutor(min(workers, len(runs)), spawn, initializer=_start_worker) as pool:
        waiting = {pool.submit(measure_json, run): key for key, run in runs.items()}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BrokenProcessPool as error:
            raise UserError(
                "a worker was killed, possibly because memory ran out; repeat the command (it"
                " continues with --out), or use --workers 1, which needs less memory"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - before:
                worker.terminate()
            raise


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, which ends its workers, and exit when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _file(out: Path, run: Run, key: str) -> Path:
    return out / FOLDER / f"{run.task}-{key}.json"


def _load(out: Path | None, run: Run, key: str) -> dict[str, Any] | None:
    if out is None or not (path := _file(out, run, key)).is_file():
        return None
    content = _read(path)
    return content if content["versions"] == versions() else None  # otherwise measure again


def _store(out: Path | None, run: Run, key: str, content: Mapping[str, Any]) -> None:
    if out is None:
        return
    path = _file(out, run, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    origin = {"settings": run.identity(), "versions": versions(), "date": today()}
    write_atomically(path, json.dumps({**origin, **content}) + "\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        record = Record.from_json(content)
        if any(curve.shape[-1:] != record.rounds.shape for curve in record.curves.values()):
            raise ValueError("curves and rounds of different lengths")
        content["settings"], content["versions"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and repeat the command") from error
    return content
