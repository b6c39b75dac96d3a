"""Aggregates against their definitions, SciPy and known values; properties; errors."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import mannwhitneyu

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.stats.aggregate import (
    Scores,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)

AGGREGATES = (mean, median, iqm, optimality_gap)
VALUES = st.floats(-3, 3).map(lambda value: round(value, 1))  # few values, so there are ties
SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5))
GRIDS = SHAPES.flatmap(lambda shape: arrays(float, shape, elements=VALUES))


@st.composite
def ragged(draw: st.DrawFn) -> Scores:
    """Tasks with 1 to 6 runs each."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    runs = tuple(np.array(draw(st.lists(VALUES, min_size=n, max_size=n))) for n in sizes)
    return Scores("method", tuple(f"task {i}" for i in range(len(sizes))), runs)


@given(ragged())
def test_aggregates_against_their_definitions(scores: Scores) -> None:
    grid, tasks = scores.matrix, scores.runs
    means = [float(np.mean(runs)) for runs in tasks]
    pooled = sorted(float(score) for runs in tasks for score in runs)
    cut = int(0.25 * len(pooled))
    middle = pooled[cut : len(pooled) - cut]
    capped = [float(np.mean([min(score, 1.0) for score in runs])) for runs in tasks]
    assert mean(grid) == pytest.approx(np.mean(means))
    assert median(grid) == pytest.approx(np.median(means))
    assert iqm(grid) == pytest.approx(sum(middle) / len(middle))
    assert optimality_gap(grid) == pytest.approx(1 - np.mean(capped))


@given(GRIDS, st.data())
def test_aggregates_are_monotone(grid: Array, data: st.DataObject) -> None:
    better = grid.copy()
    place = tuple(data.draw(st.integers(0, size - 1)) for size in grid.shape)
    better[place] += data.draw(st.floats(0, 5))
    for aggregate in (mean, median, iqm):
        assert aggregate(better) >= aggregate(grid) - 1e-12
    assert optimality_gap(better) <= optimality_gap(grid) + 1e-12
    assert probability_of_improvement(better, grid) >= 0.5 - 1e-12


def test_leading_axes() -> None:
    stack = np.random.default_rng(0).normal(size=(3, 2, 5, 4))
    for aggregate in AGGREGATES:
        expected = [[aggregate(grid) for grid in row] for row in stack]
        np.testing.assert_allclose(aggregate(stack), expected, rtol=1e-13)
    profile = performance_profile(stack, [-1, 0, 1])
    assert profile.shape == (3, 2, 3)
    np.testing.assert_array_equal(profile[1, 1], performance_profile(stack[1, 1], [-1, 0, 1]))
    probabilities = probability_of_improvement(stack, stack[0, 0, :3])
    assert probabilities.shape == (3, 2)
    assert probabilities[2, 1] == probability_of_improvement(stack[2, 1], stack[0, 0, :3])


@given(ragged(), st.data())
def test_probability_of_improvement_against_mann_whitney(x: Scores, data: st.DataObject) -> None:
    runs = st.lists(VALUES, min_size=1, max_size=6).map(np.array)
    y = Scores("other", x.tasks, tuple(data.draw(runs) for _ in x.tasks))
    with np.errstate(all="ignore"):  # the p-value, which is not used, may divide by 0
        shares = [
            mannwhitneyu(left, right, method="asymptotic").statistic / (len(left) * len(right))
            for left, right in zip(x.runs, y.runs, strict=True)
        ]
    probability = probability_of_improvement(x.matrix, y.matrix)
    assert probability == pytest.approx(np.mean(shares))
    assert probability + probability_of_improvement(y.matrix, x.matrix) == pytest.approx(1)
    assert probability_of_improvement(x.matrix, x.matrix) == pytest.approx(0.5)


@given(ragged(), st.lists(VALUES, min_size=1, max_size=6).map(sorted))
def test_profiles_are_decreasing_fractions(scores: Scores, thresholds: list[float]) -> None:
    profile = performance_profile(scores.matrix, thresholds)
    expected = [np.mean([np.mean(runs > level) for runs in scores.runs]) for level in thresholds]
    np.testing.assert_allclose(profile, expected, atol=1e-12)
    assert (np.diff(profile) <= 1e-12).all()
    assert performance_profile(scores.matrix, [-4.0, 3.0]) == pytest.approx([1, 0])


def test_invalid_scores() -> None:
    with pytest.raises(UserError, match="SPR has a score of nan on Pong"):
        Scores("SPR", ("Pong",), (np.array([1.0, np.nan]),))
    with pytest.raises(UserError, match="SPR has no runs of Pong"):
        Scores("SPR", ("Pong",), (np.array([]),))


def test_statistics_do_not_load_torch() -> None:
    code = (
        "import sys, contrastive_ucb.stats.published, contrastive_ucb.stats.slopes;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
