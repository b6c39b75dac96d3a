"""Slopes of power laws against least squares and loops, coverage of intervals, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats.slopes import slope, slope_interval, within_from

ROUNDS = np.arange(1.0, 301)


def noisy(exponent: float, n_seeds: int, noise: float = 0.3, seed: int = 0) -> Array:
    """Power laws with a random factor per seed and small noise per point."""
    random = np.random.default_rng(seed)
    logs = random.normal(0, noise, (n_seeds, 1)) + random.normal(0, 0.1, (n_seeds, len(ROUNDS)))
    return np.asarray(np.exp(logs) * ROUNDS**exponent)


@given(st.floats(-3, 3), st.floats(-5, 5))
def test_slopes_of_power_laws_are_exact(exponent: float, log_factor: float) -> None:
    curve = np.exp(log_factor) * ROUNDS**exponent
    assert slope(ROUNDS, curve) == pytest.approx(exponent, abs=1e-10)
    assert slope(ROUNDS, curve, window=(10, 300)) == pytest.approx(exponent, abs=1e-10)


def test_slope_against_least_squares() -> None:
    curves = noisy(-0.5, 4)
    inside = (ROUNDS >= 10) & (ROUNDS <= 200)
    x = np.log(ROUNDS[inside])
    expected = [np.polyfit(x, np.log(curve[inside]), 1)[0] for curve in curves]
    np.testing.assert_allclose(slope(ROUNDS, curves, window=(10, 200)), expected)


def test_windows_include_both_ends() -> None:
    bent = np.where(ROUNDS < 10, 5.0, ROUNDS**-1)
    assert slope(ROUNDS, bent, window=(10, 300)) == pytest.approx(-1)
    assert slope(ROUNDS, bent, window=(1, 9)) == pytest.approx(0)
    assert slope(ROUNDS, bent, window=(9, 300)) != pytest.approx(-1, abs=0.01)
    assert slope(ROUNDS, bent, window=(10, 11)) == pytest.approx(-1)  # two points suffice


def test_interval_against_loops() -> None:
    curves = noisy(-0.5, 6)
    got = slope_interval(ROUNDS, curves, window=(10, 300), resamples=200, seed=5)
    times = stream(5, "slope").multinomial(6, np.full(6, 1 / 6), 200)
    resampled = [np.repeat(curves, counts, axis=0).mean(0) for counts in times]
    drawn = [slope(ROUNDS, curve, window=(10, 300)) for curve in resampled]
    assert got.estimate == pytest.approx(slope(ROUNDS, curves.mean(0), window=(10, 300)))
    assert got.low == pytest.approx(np.quantile(drawn, 0.025))
    assert got.high == pytest.approx(np.quantile(drawn, 0.975))
    assert got != slope_interval(ROUNDS, curves, window=(10, 300), resamples=200, seed=6)


def test_coverage() -> None:
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        exponents = random.normal(-0.5, 0.1, (10, 1))  # one per seed
        x = np.arange(1.0, 21)
        got = slope_interval(x, x**exponents, resamples=300, seed=seed)
        truth = slope(x, x**-0.5 * np.exp(0.5 * (0.1 * np.log(x)) ** 2))  # of the expectation
        covered += bool(got.low <= truth <= got.high)
    assert 0.84 < covered / 200 < 0.99


def test_points_without_a_logarithm() -> None:
    curve = 1 / ROUNDS
    for wrong in (0, np.nan, np.inf):
        curve[4] = wrong
        with pytest.raises(UserError, match=r"not positive and finite at x = 5 .* choose a window"):
            slope(ROUNDS, curve)
        assert slope(ROUNDS, curve, window=(6, 300)) == pytest.approx(-1)
    with pytest.raises(UserError, match="at x = 0"):
        slope(np.arange(3.0), np.ones(3))
    with pytest.raises(UserError, match=r"window 400..500 holds 0 points; widen it"):
        slope(ROUNDS, ROUNDS, window=(400, 500))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(-1, 4))
def test_within_from_is_the_start_of_the_last_stretch_below_the_limit(
    values: list[int], limit: int
) -> None:
    x, start = np.arange(2.0, 2 + len(values)), np.nan
    for at in range(len(values)):
        if all(value <= limit for value in values[at:]):
            start = x[at]
            break
    table = np.array([values, values], dtype=float)
    np.testing.assert_array_equal(within_from(x, table, limit), [start, start])
