"""The rules by name: from what runs have measured to a number and whether the claim held."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.evaluation.exact import potential
from contrastive_ucb.facts.growth import better_fit, growth, order, power_law
from contrastive_ucb.facts.outcome import (
    Case,
    Outcome,
    mean_interval,
    of_interval,
    ratio_interval,
    share_interval,
)
from contrastive_ucb.facts.record import Record
from contrastive_ucb.stats.bootstrap import Interval
from contrastive_ucb.stats.slopes import slope_interval

ROUNDING = 1e-9
LEAST = 1e-12  # a seed without any regret has no logarithm; this leaves the mean as it is
SMALL_RIDGE = 0.1  # of the example of erratum E16

Rule = Callable[[Case], Outcome]


def fitted_slope(record: Record, measure: str, window: float) -> Interval:
    """The slope of a curve over the rounds K / window .. K, on logarithmic axes."""
    last = float(record.rounds[-1])
    curves = np.maximum(record.ratio(measure), LEAST)
    return slope_interval(record.rounds.astype(float), curves, (last / window, last))


def _slope(case: Case) -> Outcome:
    """The slope itself must be at most the limit."""
    found = fitted_slope(case.first, case.fact.measure, case.window)
    return of_interval(
        found, None if case.fact.limit is None else bool(found.estimate <= case.fact.limit)
    )


def _slope_reaches(case: Case) -> Outcome:
    """The interval of the slope must have the limit in it, or lie below it."""
    found = fitted_slope(case.first, case.fact.measure, case.window)
    assert case.fact.limit is not None
    return of_interval(found, bool(found.low <= case.fact.limit))


def _flat_ratio(case: Case) -> Outcome:
    """The interval of the slope of a ratio must have the limit, 0, in it."""
    found = fitted_slope(case.first, case.fact.measure, case.window)
    ratio = case.first.ratio(case.fact.measure)[:, -1]
    assert case.fact.limit is not None
    held = bool(found.low <= case.fact.limit <= found.high)
    return of_interval(found, held, f"the ratio is {ratio.mean():.2f} at K")


def _always(case: Case) -> Outcome:
    """The share of all rounds in which it held must be 1."""
    shares = case.first.total(case.fact.measure)
    return of_interval(mean_interval(shares), bool((shares == 1).all()))


def _says_something(case: Case) -> Outcome:
    """The share of rounds in which what V-bar may lack is less than V*; else 0 would do for V-bar.

    Between two kept rounds the later one counts.
    """
    record = case.first
    weights = np.diff(record.rounds, prepend=0) / record.rounds[-1]
    below = record.curve(case.fact.measure) < record.total("optimal_value")[:, None]  # (B, n)
    return of_interval(mean_interval(below @ weights))


def _worst(case: Case) -> Outcome:
    """The largest over seeds, of what is the largest over rounds, must be at most the limit."""
    largest = float(case.first.total(case.fact.measure).max())
    held = None if case.fact.limit is None else largest <= case.fact.limit + ROUNDING
    return Outcome(largest, held=held)


def _solved(case: Case) -> Outcome:
    """So many seeds have solved the task; the limit is a share of them."""
    at = case.first.total("solved_at")
    count, total = int(np.isfinite(at).sum()), len(at)
    low, high = share_interval(count, total)
    note = f"at round {np.nanmedian(at):,.0f} in the median" if count else "never"
    held = None if case.fact.limit is None else count == case.fact.limit * total
    return Outcome(float(count), low, high, held, f"of {total} seeds, {note}")


def _ratio(case: Case) -> Outcome:
    """The mean of the first run over the mean of the second."""
    over, under = (record.total(case.fact.measure) for record in case.records)
    return of_interval(ratio_interval(over, under))


def _mean(case: Case) -> Outcome:
    """The mean over seeds of what the run came to, or the seconds that it took."""
    if case.fact.measure == "seconds":
        return Outcome(case.first.seconds)
    return _mean_of(case.first.total(case.fact.measure))


def _mean_at(case: Case) -> Outcome:
    """The mean over seeds of a curve at one round."""
    assert case.fact.at is not None
    (column,) = np.nonzero(case.first.rounds == case.fact.at)
    if len(column) != 1:
        raise UserError(
            f"the run {case.runs[0].name!r} kept no round {case.fact.at}; choose one it kept"
        )
    return _mean_of(case.first.curve(case.fact.measure)[:, column[0]])


def _mean_of(values: Array) -> Outcome:
    if not np.isfinite(values).all():
        return Outcome(None, note=f"in {int(np.isnan(values).sum())} of {len(values)} seeds never")
    return of_interval(mean_interval(values))


def _small_ridge(case: Case) -> Outcome:
    """The example of erratum E16: d = 1, one G = 1, lambda = .1."""
    spent, allowed = potential(np.ones((1, 1, 1)), SMALL_RIDGE)
    assert case.fact.limit is not None
    return Outcome(ratio := float(spent / allowed), held=ratio <= case.fact.limit)


RULES: dict[str, Rule] = {
    "slope": _slope,
    "slope reaches": _slope_reaches,
    "flat ratio": _flat_ratio,
    "always": _always,
    "says something": _says_something,
    "worst": _worst,
    "solved": _solved,
    "ratio": _ratio,
    "mean": _mean,
    "mean at": _mean_at,
    "small ridge": _small_ridge,
    "power law": power_law,
    "better fit": better_fit,
    "order": order,
    "growth": growth,
}
