"""What a rule looks at and what it finds: a number, its interval, and whether the claim held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.facts.plan import Fact
from contrastive_ucb.facts.record import Record
from contrastive_ucb.facts.run import Run
from contrastive_ucb.stats.bootstrap import LEVEL, Interval, percentile_interval

RESAMPLES = 10_000


@dataclass(frozen=True)
class Case:
    """A fact with its runs and what they have measured, which is what a rule looks at."""

    fact: Fact
    runs: Sequence[Run]
    records: Sequence[Record]
    window: float  # slopes are fitted over the rounds K / window .. K

    @property
    def first(self) -> Record:
        return self.records[0]


@dataclass(frozen=True)
class Outcome:
    """The measured value with a 95% interval; `held` is None where there is nothing to hold."""

    value: float | None
    low: float | None = None
    high: float | None = None
    held: bool | None = None
    note: str = ""
    mark: str = ""  # where it depends on what was run


def of_interval(interval: Interval, held: bool | None = None, note: str = "") -> Outcome:
    value, low, high = (float(part) for part in interval)
    return Outcome(value, low, high, held, note)


def mean_interval(values: Array) -> Interval:
    """The mean over seeds with a percentile interval of a bootstrap over seeds.   values (B,)"""
    return ratio_interval(values, np.ones(len(values)))


def ratio_interval(over: Array, under: Array) -> Interval:
    """The mean of one over the mean of the other, both (B,) of the same seeds, which are redrawn.

    A seed stands for its MDP, so both are redrawn together.
    """
    count = len(over)
    times = stream(0, "facts").multinomial(count, np.full(count, 1 / count), RESAMPLES)
    drawn = (times @ over) / (times @ under)
    return percentile_interval(np.asarray(over.mean() / under.mean()), drawn, LEVEL)


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Wilson's interval for the chance behind `count` of `total`, times `total`."""
    chance = binomtest(count, total).proportion_ci(LEVEL, method="wilson")
    return chance.low * total, chance.high * total
