"""Run one entry of the plan with all its seeds at once, and record what the facts need."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import on_grid
from contrastive_ucb.facts.plan import Run
from contrastive_ucb.facts.probes import make_probes
from contrastive_ucb.runs.session import Session

PER_DECADE = 10  # recorded rounds of a curve
DIGITS = 6  # significant digits in files
NUMBERS = (int, float, type(None))


@dataclass(frozen=True)
class Record:
    """Measurements of a run.

    rounds   (n,)            recorded rounds, ten per decade
    curves   name -> (B, n)  B seeds
    totals   name -> (B,)    over all rounds; NaN means "never"
    seconds                  processor time
    """

    rounds: IntArray
    curves: Mapping[str, Array]
    totals: Mapping[str, Array]
    seconds: float

    def curve(self, name: str) -> Array:
        return _lookup(name, self.curves, "curve")

    def total(self, name: str) -> Array:
        return _lookup(name, self.totals, "total")

    def ratio(self, names: str) -> Array:
        """The curve "a / b" as the quotient of two curves, or the curve of a single name."""
        numerator, *denominator = (self.curve(name.strip()) for name in names.split("/"))
        return numerator / denominator[0] if denominator else numerator

    def to_json(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds.tolist(),
            "curves": {name: _rounded(values) for name, values in self.curves.items()},
            "totals": {name: _rounded(values) for name, values in self.totals.items()},
            "seconds": round(self.seconds, 2),
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Record:
        return Record(
            np.array(content["rounds"], dtype=np.int64),
            {name: np.array(values, dtype=float) for name, values in content["curves"].items()},
            {name: np.array(values, dtype=float) for name, values in content["totals"].items()},
            float(content["seconds"]),
        )


def measure(run: Run) -> Record:
    """Run to the last round, or with `stops` until all seeds have solved the task."""
    start = time.process_time()
    session = Session(run.problem.agent(range(run.seeds)))
    probes = make_probes(run.probes, session)
    last, rounds = run.problem.rounds, []
    curves: dict[str, list[Array]] = {name: [] for name in run.curves}
    worst: dict[str, Array] = {}
    for played in session.rounds(last):
        finished = run.stops and bool(session.tracker.solved_at.all())
        recorded = finished or on_grid(played.number, last, PER_DECADE)
        probed: dict[str, Array] = {}
        for probe in probes:
            probed |= probe.look(played.figures, recorded)
        for name, values in probed.items():
            worst[name] = np.maximum(worst.get(name, values), values)
        if recorded:
            figures = {**played.figures, **probed}
            rounds.append(played.number)
            for name, columns in curves.items():
                columns.append(figures[name])
        if finished:
            break
    grid = np.array(rounds, dtype=np.int64)
    all_curves = {name: np.stack(columns, -1) for name, columns in curves.items()}  # (B, n)
    totals = _summaries(session) | {f"worst_{name}": values for name, values in worst.items()}
    for probe in probes:
        more_curves, more_totals = probe.finish(grid)
        all_curves, totals = all_curves | more_curves, totals | more_totals
    return Record(grid, all_curves, totals, time.process_time() - start)


def measure_json(run: Run) -> dict[str, Any]:
    """The record as JSON values, for other processes and for files."""
    return measure(run).to_json()


def _summaries(session: Session) -> dict[str, Array]:
    """The numbers in the summaries of all seeds, each (B,)."""
    summaries = [session.summary(at) for at in range(len(session.agent.seeds))]
    names = [name for name, value in summaries[0].items() if isinstance(value, NUMBERS)]
    table = {name: [summary[name] for summary in summaries] for name in names}
    return {name: np.array(column, dtype=float) for name, column in table.items()}


def _rounded(values: Array) -> list[Any]:
    """Nested lists with few digits; None for NaN."""
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values]


def _lookup(name: str, table: Mapping[str, Array], kind: str) -> Array:
    if name not in table:
        raise UserError(f"the run has no {kind} {name!r}; it has {', '.join(sorted(table))}")
    return table[name]
