"""Measures what is missing, some runs at once, and makes the rows of all facts.

What a run has measured is kept as one file, under a name that holds its settings and the code; so a
command that was killed goes on with the runs that it had not finished.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.core.versions import today, versions
from contrastive_ucb.facts.code import fingerprint
from contrastive_ucb.facts.measure import measure_json
from contrastive_ucb.facts.outcome import Case
from contrastive_ucb.facts.plan import Fact, Plan
from contrastive_ucb.facts.record import Record
from contrastive_ucb.facts.rows import Row, row_of
from contrastive_ucb.facts.rules import RULES
from contrastive_ucb.facts.run import Run

FOLDER = "runs"
LATER = "later"  # the rule of a fact that cannot be measured yet

Say = Callable[[str], None]


class Verified(NamedTuple):
    """The rows of all facts, in the order of the plan, and what the runs have measured, by name."""

    rows: list[Row]
    records: dict[str, Record]


def verify(
    plan: Plan, out: Path | None = None, workers: int = 1, say: Say = lambda line: None
) -> Verified:
    """Measure what is missing, and hold all facts of the plan against their marks.

    out      folder whose runs/ keeps what was measured; None keeps nothing
    workers  processes; with one, everything happens in this process
    """
    records = measured(list(plan.runs.values()), out, workers, say)
    return Verified([_row(fact, plan, records) for fact in plan.facts], records)


def measured(
    runs: Sequence[Run], out: Path | None, workers: int = 1, say: Say = lambda line: None
) -> dict[str, Record]:
    """What every run has measured, by its name; runs with equal settings are played once."""
    code = fingerprint()
    once = {run.key(code): run for run in reversed(runs)}
    contents = {key: found for key, run in once.items() if (found := _kept(out, run, key))}
    waiting = {key: once[key] for key in dict.fromkeys(run.key(code) for run in runs)}
    waiting = {key: run for key, run in waiting.items() if key not in contents}
    if contents:
        say(f"{len(contents)} of {len(once)} runs are there already")
    for done, (key, content) in enumerate(_played(waiting, workers), len(contents) + 1):
        contents[key] = content
        _keep(out, waiting[key], key, content)
        say(f"[{done}/{len(once)}] {waiting[key].name}: {content['seconds']:.1f} s")
    made = {key: Record.from_json(content) for key, content in contents.items()}
    return {run.name: made[run.key(code)] for run in runs}  # one record for equal runs


def _row(fact: Fact, plan: Plan, records: Mapping[str, Record]) -> Row:
    runs = plan.runs_of(fact)
    if fact.rule == LATER:
        return row_of(fact, runs, None, 0.0)
    own = [records[run.name] for run in runs]
    outcome = RULES[fact.rule](Case(fact, runs, own, plan.window))
    return row_of(fact, runs, outcome, sum(record.seconds for record in own))


def _played(runs: Mapping[str, Run], workers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The runs with what they have measured, as they finish."""
    if workers == 1 or len(runs) < 2:
        yield from ((key, measure_json(run)) for key, run in runs.items())
        return
    before = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit threads
    with ProcessPoolExecutor(min(workers, len(runs)), spawn, initializer=_become_worker) as pool:
        waiting = {pool.submit(measure_json, run): key for key, run in runs.items()}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BrokenProcessPool as error:
            raise UserError(
                "a worker was killed, perhaps for want of memory; with --out the same command goes"
                " on, with --workers 1 it needs less"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - before:
                worker.terminate()
            raise


def _become_worker() -> None:
    """Ctrl-C is for the parent, which ends its workers; and without a parent there is no work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _file(out: Path, run: Run, key: str) -> Path:
    return out / FOLDER / f"{run.task}-{key}.json"


def _kept(out: Path | None, run: Run, key: str) -> dict[str, Any] | None:
    if out is None or not (path := _file(out, run, key)).is_file():
        return None
    content = _read(path)
    return content if content["versions"] == versions() else None  # else it is measured again


def _keep(out: Path | None, run: Run, key: str, content: Mapping[str, Any]) -> None:
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
        raise UserError(f"{path} is damaged ({error}); remove it and repeat the command") from error
    return content
