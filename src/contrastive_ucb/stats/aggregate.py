"""Aggregate statistics of the scores of many runs on many tasks, as in Agarwal et al. (2021).

Scores are arrays (..., runs, tasks). NaN marks missing runs of tasks that have fewer runs than
others; `Scores` builds such arrays and rejects runs whose score is NaN. Leading axes are free, so
that many resamples are aggregated in one call; without them the result is a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError


@dataclass(frozen=True)
class Scores:
    """The scores of one method: one array of runs per task."""

    name: str
    tasks: tuple[str, ...]
    runs: tuple[Array, ...]  # one array per task, in the order of `tasks`

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(np.array(runs, dtype=float) for runs in self.runs))
        for task, runs in zip(self.tasks, self.runs, strict=True):
            if runs.ndim != 1 or not runs.size:
                raise UserError(f"{self.name} has no runs of {task}; run it or omit the task")
            if not np.isfinite(runs).all():
                invalid = runs[~np.isfinite(runs)][0]
                raise UserError(
                    f"{self.name} has a score of {invalid} on {task}; scores must be finite, repeat"
                    " the run or omit it and report it as missing"
                )

    @property
    def n_runs(self) -> IntArray:
        """The number of runs of each task, (tasks,)."""
        return np.array([len(runs) for runs in self.runs], dtype=np.int64)

    @property
    def matrix(self) -> Array:
        """The scores as (runs, tasks), NaN below the last run of a task."""
        grid = np.full((self.n_runs.max(), len(self.tasks)), np.nan)
        for task, runs in enumerate(self.runs):
            grid[: len(runs), task] = runs
        return grid


def task_means(scores: Array) -> Array:
    """The mean over the runs of each task, (..., runs, tasks) -> (..., tasks)."""
    exists = ~np.isnan(scores)
    return np.asarray(np.where(exists, scores, 0).sum(-2) / exists.sum(-2))


def mean(scores: Array) -> Array:
    """The mean over tasks of the means over runs."""
    average: Array = task_means(scores).mean(-1)
    return average


def median(scores: Array) -> Array:
    """The median over tasks of the means over runs."""
    middle: Array = np.median(task_means(scores), axis=-1)
    return middle


def iqm(scores: Array) -> Array:
    """Interquartile mean: the mean of the middle half of all runs of all tasks.

    Of n scores, floor(n / 4) are removed at each end.
    """
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN is sorted to the end
    n_scores = (~np.isnan(pooled)).sum(-1, keepdims=True)
    place, cut = np.arange(pooled.shape[-1]), n_scores // 4
    middle: Array = pooled.mean(-1, where=(place >= cut) & (place < n_scores - cut))
    return middle


def optimality_gap(scores: Array, goal: float = 1.0) -> Array:
    """The mean distance to `goal`, with scores clipped at the goal."""
    return goal - mean(np.minimum(scores, goal))


def performance_profile(scores: Array, thresholds: ArrayLike) -> Array:
    """The fraction of runs with a score above each threshold, with equal weight per task.

    scores      (..., runs, tasks)
    thresholds  (n,)
    returns     (..., n), falling from 1 to 0 as the thresholds rise
    """
    missing = np.isnan(scores)
    above = [mean(np.where(missing, np.nan, scores > level)) for level in np.asarray(thresholds)]
    return np.stack(above, axis=-1)


def wins(x: Array, y: Array) -> Array:
    """1 if a run of x beats a run of y on a task, 1/2 for a tie; 0 also for missing runs.

    x (..., n, tasks), y (..., m, tasks); returns (..., n, m, tasks)
    """
    left, right = x[..., :, None, :], y[..., None, :, :]
    return np.asarray((left > right) + 0.5 * (left == right))


def probability_of_improvement(x: Array, y: Array) -> Array:
    """The probability that a run of x beats a run of y on a random task.

    x (..., n, tasks), y (..., m, tasks); the mean over tasks of the Mann-Whitney U / (n m)
    """
    won = wins(x, y).sum((-3, -2))  # U, (..., tasks)
    n_pairs = (~np.isnan(x)).sum(-2) * (~np.isnan(y)).sum(-2)
    probability: Array = (won / n_pairs).mean(-1)
    return probability
