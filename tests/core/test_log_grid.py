"""The grid of rounds that are written down."""

from math import floor, log10

import pytest

from contrastive_ucb.core.events import on_grid


@pytest.mark.parametrize("per_decade", [10, 100])
def test_a_round_is_on_the_grid_when_its_logarithm_passes_a_mark(per_decade: int) -> None:
    for k in range(2, 5000):
        marks = [floor(per_decade * log10(n) + 1e-9) for n in (k - 1, k)]
        assert on_grid(k, 10_000, per_decade) == (marks[1] > marks[0])


def test_first_and_last_are_on_the_grid_and_a_longer_run_has_the_same() -> None:
    assert on_grid(1, 999, 10)
    assert on_grid(999, 999, 10)
    assert not on_grid(999, 5000, 10)
    short, long = ([k for k in range(1, 1000) if on_grid(k, last)] for last in (10_000, 10**6))
    assert short == long


def test_a_decade_has_as_many_points_as_asked_for() -> None:
    assert sum(on_grid(k, 10**6) for k in range(1000, 10_000)) == 100
