"""Confidence intervals of aggregates by the stratified bootstrap, vectorized over resamples.

A resample draws, for each task separately, as many runs as the task has, with replacement, and
intervals are percentile intervals. Tasks are not resampled, so an interval describes other seeds on
the same tasks. A task with a single run has no variance in the resamples, which makes the interval
too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats.aggregate import Scores, probability_of_improvement, wins

RESAMPLES = 50_000  # as rliable
LEVEL = 0.95
CHUNK = 1 << 15  # numbers per chunk, 256 kB; the result does not depend on it

Statistic = Callable[[Array], Array]  # (..., runs, tasks) -> (...) or (..., n)


class Interval(NamedTuple):
    """An estimate and its percentile interval, numbers or arrays of one shape."""

    estimate: Array
    low: Array
    high: Array


def interval(
    statistic: Statistic,
    scores: Scores,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """The statistic of the scores with its stratified bootstrap interval."""
    return intervals({"": statistic}, scores, resamples, level, seed)[""]


def intervals(
    statistics: Mapping[str, Statistic],
    scores: Scores,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> dict[str, Interval]:
    """Several statistics on the same resamples; each equals the result of `interval`."""
    runs = sorted_runs(scores)
    drawn: dict[str, list[Array]] = {name: [] for name in statistics}
    task = np.arange(runs.shape[1])
    for index in redraw(runs, resamples, stream(seed, "bootstrap")):
        resampled = runs.ravel().take(index * len(task) + task)
        for name, statistic in statistics.items():
            drawn[name].append(statistic(resampled))
    return {
        name: percentile_interval(statistic(runs), np.concatenate(drawn[name]), level)
        for name, statistic in statistics.items()
    }


def improvement_interval(
    x: Scores, y: Scores, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Interval:
    """The probability that x improves on y, with the runs of both resampled.

    Every pair of runs is compared once; a resample is represented by the counts of its runs.
    """
    if x.tasks != y.tasks:
        different = sorted(set(x.tasks) ^ set(y.tasks))
        reason = f"only one has {', '.join(different)}" if different else "their order differs"
        raise UserError(f"{x.name} and {y.name} must have the same tasks; {reason}")
    x_runs, y_runs = sorted_runs(x), sorted_runs(y)
    won = np.moveaxis(wins(x_runs, y_runs), -1, 0)  # (tasks, n, m)
    n_pairs = (x.n_runs * y.n_runs)[:, None]
    drawn = []
    for x_index, y_index in zip(
        redraw(x_runs, resamples, stream(seed, "bootstrap x"), len(y_runs)),
        redraw(y_runs, resamples, stream(seed, "bootstrap y"), len(x_runs)),
        strict=True,
    ):
        # Sums of multiples of 1/2 are exact, so the order of summation does not matter.
        u = ((_times_drawn(x_index) @ won) * _times_drawn(y_index)).sum(-1)  # (tasks, draws)
        drawn.append((u / n_pairs).mean(0))
    estimate = probability_of_improvement(x_runs, y_runs)
    return percentile_interval(estimate, np.concatenate(drawn), level)


def difference_interval(
    statistic: Statistic,
    x: Scores,
    y: Scores,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """The statistic of x minus that of y, with the runs of both resampled independently."""
    values, drawn = [], []
    for name, scores in (("x", x), ("y", y)):
        runs = sorted_runs(scores)
        task = np.arange(runs.shape[1])
        draws = redraw(runs, resamples, stream(seed, f"bootstrap {name}"))
        parts = [statistic(runs.ravel().take(index * len(task) + task)) for index in draws]
        values.append(statistic(runs))
        drawn.append(np.concatenate(parts))
    return percentile_interval(values[0] - values[1], drawn[0] - drawn[1], level)


def percentile_interval(estimate: Array, drawn: Array, level: float) -> Interval:
    """The middle `level` of the resampled statistics `drawn` (resamples, ...)."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Interval(estimate, low, high)


def sorted_runs(scores: Scores) -> Array:
    """The scores as (runs, tasks), sorted so that the order of the runs does not matter."""
    return np.sort(scores.matrix, axis=0)  # NaN stays at the end


def redraw(
    runs: Array, resamples: int, random: np.random.Generator, others: int = 0
) -> Iterator[IntArray]:
    """Indices of the resampled runs, (draws, runs, tasks), in chunks.

    others  number of runs of the method to compare with, for which the chunk needs space, too
    """
    missing = np.isnan(runs)
    n_runs = (~missing).sum(0)
    size = max(1, CHUNK // (max(len(runs), others) * runs.shape[1]))
    for start in range(0, resamples, size):
        shape = (min(size, resamples - start), *runs.shape)
        # One double per draw for every chunk size; u < 1 implies that u n rounds to less than n.
        index = (random.random(shape) * n_runs).astype(np.int64)
        index[:, missing] = missing.nonzero()[0]  # a missing run is replaced by itself
        yield index


def _times_drawn(index: IntArray) -> Array:
    """Counts of each run in the resamples: (draws, runs, tasks) -> (tasks, draws, runs)."""
    n_draws, n_runs, n_tasks = index.shape
    row = np.arange(n_tasks) * n_draws + np.arange(n_draws)[:, None, None]  # (draws, 1, tasks)
    counts = np.bincount((row * n_runs + index).ravel(), minlength=index.size)
    return counts.reshape(n_tasks, n_draws, n_runs).astype(float)
