"""Plays one run with all its seeds at once, and keeps what the facts need of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.events import on_grid
from contrastive_ucb.facts.probes import make_probes
from contrastive_ucb.facts.record import Record
from contrastive_ucb.facts.run import Run
from contrastive_ucb.runs.session import Session

PER_DECADE = 10  # rounds of a curve that are kept
NUMBERS = (int, float, type(None))


def measure(run: Run) -> Record:
    """Play the run to its end, or until all seeds have solved the task if that is enough."""
    began = time.process_time()
    session = Session(run.problem.agent(range(run.seeds)))
    probes = make_probes(run.probes, session)
    until, rounds = run.problem.rounds, []
    curves: dict[str, list[Array]] = {name: [] for name in run.curves}
    worst: dict[str, Array] = {}
    for played in session.rounds(until):
        finished = run.stops and bool(session.tracker.solved_at.all())
        noted = finished or on_grid(played.number, until, PER_DECADE)
        seen: dict[str, Array] = {}
        for probe in probes:
            seen |= probe.look(played.figures, noted)
        for name, values in seen.items():
            worst[name] = np.maximum(worst.get(name, values), values)
        if noted:
            figures = {**played.figures, **seen}
            rounds.append(played.number)
            for name, kept in curves.items():
                kept.append(figures[name])
        if finished:
            break
    at = np.array(rounds, dtype=np.int64)
    drawn = {name: np.stack(kept, -1) for name, kept in curves.items()}  # (B, n)
    totals = _summaries(session) | {f"worst_{name}": values for name, values in worst.items()}
    for probe in probes:
        more, ends = probe.finish(at)
        drawn, totals = drawn | more, totals | ends
    return Record(at, drawn, totals, time.process_time() - began)


def measure_json(run: Run) -> dict[str, Any]:
    """The same as JSON values, which is what travels between processes and to the disk."""
    return measure(run).to_json()


def _summaries(session: Session) -> dict[str, Array]:
    """The numbers of the summaries of all seeds, each (B,)."""
    summaries = [session.summary(at) for at in range(len(session.agent.seeds))]
    names = [name for name, value in summaries[0].items() if isinstance(value, NUMBERS)]
    table = {name: [summary[name] for summary in summaries] for name in names}
    return {name: np.array(column, dtype=float) for name, column in table.items()}
