"""Record: the measurements of a run, read from the run folders of its seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import on_grid
from contrastive_ucb.runs.store import read_object

PER_DECADE = 10  # rounds of a curve
DIGITS = 6  # significant digits, as in facts.json
NUMBERS = (int, float, type(None))


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
        return _lookup(name, self.curves, "curve")

    def total(self, name: str) -> Array:
        return _lookup(name, self.totals, "total")

    def ratio(self, names: str) -> Array:
        """The curve "a / b" as the quotient of two curves, or the curve of a single name."""
        numerator, *denominator = (self.curve(name.strip()) for name in names.split("/"))
        return numerator / denominator[0] if denominator else numerator


def load_record(folders: Sequence[Path], n_batches: int) -> Record:
    """The record of finished runs that differ in the seed only.

    n_batches  number of processes that ran them; the seeds of a process share its seconds
    """
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
    seconds = sum(summary["seconds"] for summary in summaries) * n_batches / len(folders)
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
    """Numbers with few digits; NaN for None."""
    exact = np.array(values, dtype=float)
    rounded = [float(f"{value:.{DIGITS}g}") for value in exact.ravel()]
    return np.array(rounded).reshape(exact.shape)


def _lookup(name: str, table: Mapping[str, Array], kind: str) -> Array:
    if name not in table:
        raise UserError(f"the run has no {kind} {name!r}; it has {', '.join(sorted(table))}")
    return table[name]
