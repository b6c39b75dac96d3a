"""How long bootstrap intervals take, beside plain loops over resamples.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/stats_bench.py [RESAMPLES]

The grid is the paper's: 8 methods, 10 runs of each of 26 games. Two loops over resamples stand
beside it, both plain numpy: one redraws the runs of one game after the other, one those of all
games in one call. They are timed over fewer resamples. RESAMPLES is 50,000 by default. Times are
those of the processor, so that a busy machine counts less.
"""

import sys
from collections.abc import Callable
from time import process_time

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.stats.aggregate import Scores, iqm, mean, median, optimality_gap
from contrastive_ucb.stats.bootstrap import RESAMPLES, improvement_interval, interval, intervals

METHODS, RUNS, GAMES = 8, 10, 26
LOOPS = 1000  # resamples of a loop
HERE = {"mean": mean, "median": median, "IQM": iqm, "optimality gap": optimality_gap}

Redraw = Callable[[Array, np.random.Generator], Array]  # (runs, games) -> the same


def main(resamples: int) -> None:
    random = np.random.default_rng(0)
    games = tuple(f"game {game}" for game in range(GAMES))
    grid = random.gamma(1.0, 0.5, (METHODS, GAMES, RUNS))
    methods = [Scores(f"method {i}", games, tuple(runs)) for i, runs in enumerate(grid)]
    x, y = methods[:2]
    interval(mean, x, 100)  # whatever is slow the first time

    print(
        f"one method, {RUNS} runs x {GAMES} games, microseconds a resample (times as long as here)"
    )
    print(f"{'':16}{'game by game':>22}{'all games at once':>22}{'here':>8}")
    for names in [*((name,) for name in HERE), tuple(HERE)]:
        statistics = {name: HERE[name] for name in names}
        here = seconds(intervals, statistics, x, resamples) / resamples
        loops = [seconds(plain_loop, names, x.matrix, how, random) for how in (by_game, at_once)]
        show(names[0] if len(names) == 1 else "all four", loops, here)
    here = seconds(improvement_interval, x, y, resamples) / resamples
    loops = [seconds(plain_pairs, x.matrix, y.matrix, how, random) for how in (by_game, at_once)]
    show("improvement", loops, here)

    took = sum(seconds(intervals, HERE, scores, resamples) for scores in methods)
    print(f"{METHODS} methods, all four, {resamples:,} resamples: {took:.1f} s")
    took = sum(seconds(improvement_interval, x, other, resamples) for other in methods[1:])
    print(f"improvement of one method on {METHODS - 1}, {resamples:,} resamples: {took:.1f} s")


def plain_loop(
    names: tuple[str, ...], scores: Array, redrawn: Redraw, random: np.random.Generator
) -> Array:
    """A bootstrap as one writes it down; all statistics are taken from the same resamples."""
    drawn = []
    for _ in range(LOOPS):
        resample = redrawn(scores, random)
        drawn.append([plain_statistic(name, resample) for name in names])
    return np.quantile(drawn, [0.025, 0.975], axis=0)


def plain_statistic(name: str, scores: Array) -> float:
    if name == "IQM":
        cut = scores.size // 4
        return float(np.sort(scores, axis=None)[cut:-cut].mean())
    if name == "optimality gap":
        return float(1 - np.minimum(scores, 1).mean())
    means = scores.mean(0)
    return float(means.mean() if name == "mean" else np.median(means))


def plain_pairs(x: Array, y: Array, redrawn: Redraw, random: np.random.Generator) -> Array:
    chances: list[float] = []
    for _ in range(LOOPS):
        left, right = redrawn(x, random)[:, None], redrawn(y, random)[None]
        chances.append(float((left > right).mean() + (left == right).mean() / 2))
    return np.quantile(chances, [0.025, 0.975])


def by_game(scores: Array, random: np.random.Generator) -> Array:
    n_runs = len(scores)
    return np.stack([game[random.integers(n_runs, size=n_runs)] for game in scores.T], axis=1)


def at_once(scores: Array, random: np.random.Generator) -> Array:
    index = random.integers(len(scores), size=scores.shape)
    return np.take_along_axis(scores, index, axis=0)


def seconds(job: Callable[..., object], *arguments: object) -> float:
    start = process_time()
    job(*arguments)
    return process_time() - start


def show(name: str, loops: list[float], here: float) -> None:
    cells = "".join(f"{1e6 * t / LOOPS:12.1f} ({t / LOOPS / here:6.1f}x)" for t in loops)
    print(f"{name:16}{cells}{1e6 * here:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RESAMPLES)
