"""What a run has measured, small enough to keep: curves on a grid of rounds, and totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError

DIGITS = 6  # significant ones that are kept


@dataclass(frozen=True)
class Record:
    """What is kept of a run.

    rounds   (n,)            the grid, ten a decade
    curves   name -> (B, n)  B seeds
    totals   name -> (B,)    over all rounds; NaN stands for "never"
    seconds                  of processor time
    """

    rounds: IntArray
    curves: Mapping[str, Array]
    totals: Mapping[str, Array]
    seconds: float

    def curve(self, name: str) -> Array:
        return _found(name, self.curves, "curve")

    def total(self, name: str) -> Array:
        return _found(name, self.totals, "total")

    def ratio(self, names: str) -> Array:
        """The curve "a / b" of two that were measured; a single name is that curve."""
        over, *under = (self.curve(name.strip()) for name in names.split("/"))
        return over / under[0] if under else over

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


def _rounded(values: Array) -> list[Any]:
    """Nested lists with a few digits; None where nothing was measured."""
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values]


def _found(name: str, table: Mapping[str, Array], kind: str) -> Array:
    if name not in table:
        raise UserError(f"the run has no {kind} {name!r}; it has {', '.join(sorted(table))}")
    return table[name]
