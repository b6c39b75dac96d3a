"""Time of bootstrap intervals, relative to a plain loop over resamples.

The scores have the size of the paper's table: 8 methods, 10 runs of each of 26 games. The plain
loop in NumPy redraws the runs of all games in one call per resample; it uses fewer resamples. Times
are processor times, so that a busy machine matters less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np

from benchmarks.timing import Figures, Targets
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.stats.aggregate import Scores, iqm, mean, median, optimality_gap
from contrastive_ucb.stats.bootstrap import RESAMPLES, improvement_interval, interval, intervals

METHODS, RUNS, GAMES = 8, 10, 26
LOOPS = 1000  # resamples of a plain loop
STATISTICS = {"mean": mean, "median": median, "iqm": iqm, "optimality_gap": optimality_gap}


@dataclass(frozen=True)
class Options:
    """Time of bootstrap intervals, relative to a plain loop over resamples."""

    resamples: int = RESAMPLES
    """Resamples of the package's bootstrap."""

    def __post_init__(self) -> None:
        check_size("resamples", self.resamples)


def measure(options: Options) -> Figures:
    """Microseconds per resample, speedups over the loop, and seconds for the whole table."""
    with one_thread():
        return bootstrap_times(options.resamples)


def targets(options: Options) -> Targets:
    return {}


def bootstrap_times(resamples: int) -> Figures:
    random = np.random.default_rng(0)
    games = tuple(f"game {game}" for game in range(GAMES))
    grid = random.gamma(1.0, 0.5, (METHODS, GAMES, RUNS))
    methods = [Scores(f"method {i}", games, tuple(runs)) for i, runs in enumerate(grid)]
    x, y = methods[:2]
    interval(mean, x, 100)  # warm-up
    figures: Figures = {}
    for names in [*((name,) for name in STATISTICS), tuple(STATISTICS)]:
        statistics = {name: STATISTICS[name] for name in names}
        package = seconds(intervals, statistics, x, resamples) / resamples
        loop = seconds(plain_loop, names, x.matrix, random) / LOOPS
        name = names[0] if len(names) == 1 else "all_four"
        figures |= {f"microseconds_a_resample_{name}": 1e6 * package}
        figures |= {f"loop_over_package_{name}": loop / package}
    package = seconds(improvement_interval, x, y, resamples) / resamples
    loop = seconds(plain_pairs, x.matrix, y.matrix, random) / LOOPS
    figures["microseconds_a_resample_improvement"] = 1e6 * package
    figures["loop_over_package_improvement"] = loop / package
    figures["seconds_all_methods"] = sum(
        seconds(intervals, STATISTICS, scores, resamples) for scores in methods
    )
    figures["seconds_improvement_on_all"] = sum(
        seconds(improvement_interval, x, other, resamples) for other in methods[1:]
    )
    return figures


def plain_loop(names: tuple[str, ...], scores: Array, random: np.random.Generator) -> Array:
    """A direct bootstrap. All statistics use the same resamples."""
    drawn = []
    for _ in range(LOOPS):
        resample = redrawn(scores, random)
        drawn.append([plain_statistic(name, resample) for name in names])
    return np.quantile(drawn, [0.025, 0.975], axis=0)


def plain_statistic(name: str, scores: Array) -> float:
    if name == "iqm":
        cut = scores.size // 4
        return float(np.sort(scores, axis=None)[cut:-cut].mean())
    if name == "optimality_gap":
        return float(1 - np.minimum(scores, 1).mean())
    means = scores.mean(0)
    return float(means.mean() if name == "mean" else np.median(means))


def plain_pairs(x: Array, y: Array, random: np.random.Generator) -> Array:
    chances: list[float] = []
    for _ in range(LOOPS):
        left, right = redrawn(x, random)[:, None], redrawn(y, random)[None]
        chances.append(float((left > right).mean() + (left == right).mean() / 2))
    return np.quantile(chances, [0.025, 0.975])


def redrawn(scores: Array, random: np.random.Generator) -> Array:
    index = random.integers(len(scores), size=scores.shape)
    return np.take_along_axis(scores, index, axis=0)


def seconds(job: Callable[..., object], *arguments: object) -> float:
    start = process_time()
    job(*arguments)
    return process_time() - start
