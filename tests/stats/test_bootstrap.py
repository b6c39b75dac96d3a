"""The stratified bootstrap: against loops, reproducibility, coverage, errors."""

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats import bootstrap
from contrastive_ucb.stats.aggregate import (
    Scores,
    iqm,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
)
from contrastive_ucb.stats.bootstrap import (
    Interval,
    difference_interval,
    improvement_interval,
    interval,
    intervals,
    redraw,
    sorted_runs,
)

AGGREGATES = {"mean": mean, "median": median, "iqm": iqm, "gap": optimality_gap}


def make(name: str, sizes: tuple[int, ...], seed: int = 0, shift: float = 0.0) -> Scores:
    random = np.random.default_rng(seed)
    runs = tuple(random.normal(task / 5 + shift, 0.5, n) for task, n in enumerate(sizes))
    return Scores(name, tuple(f"task {task}" for task in range(len(sizes))), runs)


EVEN, RAGGED, OTHER = (
    make("even", (5,) * 4),
    make("ragged", (5, 1, 3, 4)),
    make("y", (2, 6, 3, 1), 1),
)


def resamples_of(scores: Scores, resamples: int, name: str, seed: int) -> list[list[Array]]:
    """A slow implementation: lists of runs of different length, task by task."""
    runs = sorted_runs(scores)
    (index,) = redraw(runs, resamples, stream(seed, name))
    return [
        [
            np.array([runs[draw[place, task], task] for place in range(n)])
            for task, n in enumerate(scores.n_runs)
        ]
        for draw in index
    ]


def check_equal(left: Interval, right: Interval) -> None:
    for first, second in zip(left, right, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("scores", [EVEN, RAGGED], ids=lambda scores: scores.name)
@pytest.mark.parametrize("name", AGGREGATES)
def test_interval_against_loops(scores: Scores, name: str) -> None:
    statistic = AGGREGATES[name]
    drawn = [
        statistic(Scores("", scores.tasks, tuple(tasks)).matrix)
        for tasks in resamples_of(scores, 300, "bootstrap", 7)
    ]
    got = interval(statistic, scores, resamples=300, level=0.9, seed=7)
    assert got.estimate == pytest.approx(statistic(scores.matrix))
    assert got.low == pytest.approx(np.quantile(drawn, 0.05))
    assert got.high == pytest.approx(np.quantile(drawn, 0.95))


@pytest.mark.parametrize("scores", [EVEN, RAGGED], ids=lambda scores: scores.name)
def test_improvement_interval_against_loops(scores: Scores) -> None:
    drawn = [
        probability_of_improvement(
            Scores("", scores.tasks, tuple(x)).matrix, Scores("", scores.tasks, tuple(y)).matrix
        )
        for x, y in zip(
            resamples_of(scores, 300, "bootstrap x", 3),
            resamples_of(OTHER, 300, "bootstrap y", 3),
            strict=True,
        )
    ]
    got = improvement_interval(scores, OTHER, resamples=300, seed=3)
    assert got.estimate == probability_of_improvement(scores.matrix, OTHER.matrix)
    assert got.low == pytest.approx(np.quantile(drawn, 0.025))
    assert got.high == pytest.approx(np.quantile(drawn, 0.975))


def test_draws_are_uniform_and_independent_within_tasks() -> None:
    n_runs = RAGGED.n_runs
    index = np.concatenate(list(redraw(sorted_runs(RAGGED), 20_000, stream(0, "test"))))
    for task, n in enumerate(n_runs):
        drawn = index[:, :n, task]
        assert set(np.unique(drawn)) == set(range(n))
        share = np.bincount(drawn.ravel(), minlength=n) / drawn.size
        np.testing.assert_allclose(share, 1 / n, atol=5 * (1 / n / drawn.size) ** 0.5)
        padding = np.arange(n, len(index[0]))
        np.testing.assert_array_equal(index[:, n:, task], np.tile(padding, (len(index), 1)))
    within = np.corrcoef(index[:, 0, 0], index[:, 1, 0])[0, 1]
    across = np.corrcoef(index[:, 0, 0], index[:, 0, 3])[0, 1]
    assert max(abs(within), abs(across)) < 5 / 20_000**0.5


@pytest.mark.parametrize("chunk", [1, 77, 1000])
def test_result_does_not_depend_on_the_chunk_size(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_intervals() -> list[Interval]:
        single = [
            interval(statistic, scores, resamples=500)
            for statistic in AGGREGATES.values()
            for scores in (EVEN, RAGGED)
        ]
        pairs = [improvement_interval(scores, OTHER, resamples=500) for scores in (EVEN, RAGGED)]
        return single + pairs

    expected = all_intervals()
    monkeypatch.setattr(bootstrap, "CHUNK", chunk)
    for left, right in zip(expected, all_intervals(), strict=True):
        check_equal(left, right)


def test_intervals_do_not_depend_on_the_order_of_runs() -> None:
    flipped = Scores("flipped", RAGGED.tasks, tuple(runs[::-1] for runs in RAGGED.runs))
    check_equal(interval(iqm, RAGGED, 200), interval(iqm, flipped, 200))
    check_equal(improvement_interval(RAGGED, EVEN, 200), improvement_interval(flipped, EVEN, 200))


def test_several_statistics_equal_single_ones() -> None:
    together = intervals(AGGREGATES, RAGGED, resamples=200)
    assert list(together) == list(AGGREGATES)
    for name, statistic in AGGREGATES.items():
        check_equal(together[name], interval(statistic, RAGGED, resamples=200))


def test_coverage() -> None:
    """300 experiments of 10 runs on 8 tasks; percentile intervals of few runs cover less."""
    random, covered = np.random.default_rng(0), np.zeros(3)
    tasks = tuple("abcdefgh")
    center = np.arange(8) / 4
    for seed in range(300):
        x, y = (
            Scores(name, tasks, tuple(random.normal(center, 0.5, (10, 8)).T)) for name in ("x", "y")
        )
        for kind, (got, truth) in enumerate(
            (
                (interval(mean, x, 400, seed=seed), center.mean()),
                (interval(iqm, x, 400, seed=seed), center.mean()),  # symmetric, so IQM = mean
                (improvement_interval(x, y, 400, seed=seed), 0.5),
            )
        ):
            covered[kind] += got.low <= truth <= got.high
    assert (covered / 300 > 0.88).all()
    assert (covered / 300 < 0.99).all()


def test_invalid_arguments() -> None:
    with pytest.raises(UserError, match="only one has task 4"):
        improvement_interval(EVEN, make("five", (5,) * 5))
    reordered = Scores("reordered", EVEN.tasks[::-1], EVEN.runs)
    with pytest.raises(UserError, match="order differs"):
        improvement_interval(EVEN, reordered)


def test_difference_interval_resamples_both_sides_independently() -> None:
    x, y = np.array([0.2, 0.5, 0.9, 0.7]), np.array([0.1, 0.3, 0.2])
    sides = [Scores(name, ("task",), (runs,)) for name, runs in (("x", x), ("y", y))]
    found = difference_interval(lambda runs: runs.mean((-2, -1)), *sides, resamples=20_000)
    rng = np.random.default_rng(0)
    drawn = [rng.choice(x, 4).mean() - rng.choice(y, 3).mean() for _ in range(20_000)]
    assert found.estimate == pytest.approx(x.mean() - y.mean())
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)
