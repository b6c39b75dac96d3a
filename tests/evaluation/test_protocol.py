"""The evaluation protocol: when runs are evaluated, and with how many episodes."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.envs.registry import canonical_name
from contrastive_ucb.evaluation.rollouts import (
    default_episodes,
    evaluation_steps,
    is_atari,
    n_evaluations,
)


def test_evaluations_are_evenly_spaced_over_the_last_tenth() -> None:
    assert evaluation_steps(10_000, 5) == [9200, 9400, 9600, 9800, 10_000]
    assert evaluation_steps(100_000, 1) == [100_000]


def test_short_runs_list_each_step_once() -> None:
    assert evaluation_steps(30, 5) == [28, 29, 30]
    assert evaluation_steps(1, 5) == [1]


@given(st.integers(1, 10**6), st.integers(1, 20))
def test_points_equal_exact_fractions_rounded_up(steps: int, count: int) -> None:
    exact = [steps * (Fraction(9, 10) + Fraction(at, 10 * count)) for at in range(1, count + 1)]
    points = evaluation_steps(steps, count)
    assert points == sorted({ceil(point) for point in exact})
    assert points[-1] == steps
    assert points[0] >= 1
    assert len(points) == count or steps < 10 * count


@pytest.mark.parametrize(("steps", "count"), [(0, 5), (10, 0)])
def test_wrong_sizes_are_errors(steps: int, count: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        evaluation_steps(steps, count)


@pytest.mark.parametrize(
    ("name", "atari"),
    [
        ("Pong", True),
        ("ALE/RoadRunner-v5", True),
        ("MinAtar/Breakout-v1", False),
        ("DeepSea-10", False),
        ("RichLock-6", False),
        ("CartPole-v1", False),
        ("Blackjack-v1", False),  # there is an Atari game of this name too
    ],
)
def test_atari_has_its_own_protocol(name: str, atari: bool) -> None:
    known = canonical_name(name)
    assert is_atari(known) == atari
    assert (n_evaluations(known), default_episodes(known)) == ((1, 100) if atari else (5, 20))
