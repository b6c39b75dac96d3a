"""How far an aggregate can be trusted: the stratified bootstrap, many resamples at a time.

A resample draws, for each task on its own, as many runs as the task has, with replacement. The
interval is that of the percentiles. Tasks are never redrawn: the interval speaks of other seeds on
the same tasks. A task with a single run has no spread to offer and makes the interval too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats.aggregate import Scores, probability_of_improvement, wins

RESAMPLES = 50_000  # as rliable
LEVEL = 0.95
CHUNK = 1 << 15  # numbers redrawn at a time, 256 kB for the cache; the result is the same for all

Statistic = Callable[[Array], Array]  # (..., runs, tasks) -> (...) or (..., n)


class Interval(NamedTuple):
    """An estimate and the percentile interval around it, numbers or arrays of one shape."""

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
    """Several statistics from the same resamples; each is what `interval` gives for it alone."""
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
    """The probability that x improves on y, the runs of both redrawn.

    Every pair of runs is compared once; a resample only counts how often it holds each run.
    """
    if x.tasks != y.tasks:
        odd = sorted(set(x.tasks) ^ set(y.tasks))
        why = f"only one of them has {', '.join(odd)}" if odd else "their order differs"
        raise UserError(f"{x.name} and {y.name} must have the same tasks; {why}")
    x_runs, y_runs = sorted_runs(x), sorted_runs(y)
    won = np.moveaxis(wins(x_runs, y_runs), -1, 0)  # (tasks, n, m)
    n_pairs = (x.n_runs * y.n_runs)[:, None]
    drawn = []
    for x_index, y_index in zip(
        redraw(x_runs, resamples, stream(seed, "bootstrap x"), len(y_runs)),
        redraw(y_runs, resamples, stream(seed, "bootstrap y"), len(x_runs)),
        strict=True,
    ):
        # Sums of halves are exact, so the order in which they are added does not matter.
        u = ((_times_drawn(x_index) @ won) * _times_drawn(y_index)).sum(-1)  # (tasks, draws)
        drawn.append((u / n_pairs).mean(0))
    estimate = probability_of_improvement(x_runs, y_runs)
    return percentile_interval(estimate, np.concatenate(drawn), level)


def percentile_interval(estimate: Array, drawn: Array, level: float) -> Interval:
    """The middle `level` of the resampled statistics `drawn` (resamples, ...)."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Interval(estimate, low, high)


def sorted_runs(scores: Scores) -> Array:
    """The scores as (runs, tasks) with the runs in rising order, so theirs does not matter."""
    return np.sort(scores.matrix, axis=0)  # NaN stays at the end


def redraw(
    runs: Array, resamples: int, random: np.random.Generator, others: int = 0
) -> Iterator[IntArray]:
    """Which run stands at each place of a resample, (draws, runs, tasks), a chunk at a time.

    others  runs of the method that this one is compared with, which have to fit into the chunk too
    """
    check_size("resamples", resamples)
    missing = np.isnan(runs)
    n_runs = (~missing).sum(0)
    size = max(1, CHUNK // (max(len(runs), others) * runs.shape[1]))
    for start in range(0, resamples, size):
        shape = (min(size, resamples - start), *runs.shape)
        # One double a draw, whatever the chunk; below 1 it stays below n when multiplied by n.
        index = (random.random(shape) * n_runs).astype(np.int64)
        index[:, missing] = missing.nonzero()[0]  # a missing run is replaced by itself
        yield index


def _times_drawn(index: IntArray) -> Array:
    """How often each run stands in a resample: (draws, runs, tasks) -> (tasks, draws, runs)."""
    n_draws, n_runs, n_tasks = index.shape
    row = np.arange(n_tasks) * n_draws + np.arange(n_draws)[:, None, None]  # (draws, 1, tasks)
    counts = np.bincount((row * n_runs + index).ravel(), minlength=index.size)
    return counts.reshape(n_tasks, n_draws, n_runs).astype(float)
