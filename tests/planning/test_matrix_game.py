"""Equilibria of matrix games: certificates on hard games, known answers, every stage, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.matrix_oracles import (
    cce_by_linprog,
    gain_by_loops,
    no_path,
    pairs,
    zero_sum_value,
)

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning import matrix_game
from contrastive_ucb.planning.matrix_game import (
    CCE,
    ROUNDING,
    STAGES,
    best_responses,
    deviation_gain,
    solve_cce,
    solve_nash,
)

seeds = st.integers(0, 10**6)
sizes = st.tuples(st.integers(1, 5), st.integers(1, 5))
RPS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
PENNIES = np.array([[1.0, -1], [-1, 1]])


def stages(answer: CCE) -> set[str]:
    return {STAGES[i] for i in answer.stage.ravel()}


def assert_solved(upper: Array, lower: Array, tolerance: float = 1e-7) -> CCE:
    answer = solve_cce(upper, lower, tolerance)
    assert answer.joint.shape == np.shape(upper)
    assert answer.gap.shape == answer.stage.shape == np.shape(upper)[:-2]
    assert (answer.joint >= 0).all()
    np.testing.assert_allclose(answer.joint.sum((-2, -1)), 1, atol=1e-12)
    np.testing.assert_array_equal(answer.gap, deviation_gain(answer.joint, upper, lower))
    largest = np.maximum(np.abs(upper), np.abs(lower)).max((-2, -1))
    assert (answer.gap <= np.maximum(tolerance, ROUNDING * 2.3e-16 * largest)).all()
    return answer


@settings(max_examples=50, deadline=None)
@given(seed=seeds, size=sizes)
def test_gap_equals_the_loops(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    upper, lower = rng.normal(size=(2, 2, 3, *size))
    joint = rng.dirichlet(np.ones(size[0] * size[1]), (2, 3)).reshape(upper.shape)
    gap = deviation_gain(joint, upper, lower)
    for i in np.ndindex(2, 3):
        np.testing.assert_allclose(gap[i], gain_by_loops(joint[i], upper[i], lower[i]), atol=1e-13)
    assert deviation_gain(joint[0, 0], upper[0, 0], lower[0, 0]) == gap[0, 0]


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, width=st.sampled_from([0.0, 1e-3, 1.0, 10.0]))
def test_random_games(seed: int, size: tuple[int, int], width: float) -> None:
    assert_solved(*pairs(seed, (30, *size), width))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, most=st.integers(0, 2))
def test_games_with_ties_and_duplicates(seed: int, size: tuple[int, int], most: int) -> None:
    rng = np.random.default_rng(seed)
    upper, lower = rng.integers(-most, most + 1, (2, 30, *size)).astype(float)
    assert_solved(upper, lower)
    assert_solved(np.tile(upper, (1, 2, 1)), np.tile(lower, (1, 2, 1)))
    assert_solved(np.tile(upper, (1, 1, 3)), np.tile(lower, (1, 1, 3)))


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    size=sizes,
    upper_scale=st.sampled_from([1e-9, 1.0, 1e9]),
    lower_scale=st.sampled_from([1e-9, 1.0, 1e9]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
)
def test_badly_scaled_games(
    seed: int, size: tuple[int, int], upper_scale: float, lower_scale: float, offset: float
) -> None:
    upper, lower = pairs(seed, (20, *size))
    assert_solved(upper_scale * upper + offset, lower_scale * lower - offset, tolerance=1e-9)
    assert_solved(upper_scale * upper, lower_scale * lower, tolerance=0.0)


@pytest.mark.parametrize("noise", [1e-15, 1e-12, 1e-10, 1e-9, 1e-7])
def test_ties_broken_by_noise_of_the_size_of_the_nudge(noise: float) -> None:
    rng = np.random.default_rng(0)
    upper = rng.integers(-1, 2, (150, 6, 6)) + noise * rng.normal(size=(150, 6, 6))
    assert_solved(upper, upper)
    assert_solved(upper, upper + noise * rng.normal(size=upper.shape))


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (6, 1), (3, 3), (12, 17)])
def test_constant_and_thin_games(size: tuple[int, int]) -> None:
    assert_solved(np.full(size, 2.0), np.full(size, -3.0))
    assert_solved(*pairs(0, (20, *size)))
    upper, lower = pairs(1, (20, *size))
    assert_solved(upper, np.zeros_like(lower))


def test_rock_paper_scissors_with_a_duplicated_action() -> None:
    np.testing.assert_allclose(assert_solved(RPS, RPS).joint, np.full((3, 3), 1 / 9))
    doubled = RPS[[0, 0, 1, 2]][:, [0, 1, 1, 2, 2]]
    joint = assert_solved(doubled, doubled).joint
    by_kind = [joint.sum(1)[:2].sum(), *joint.sum(1)[2:]]
    np.testing.assert_allclose(by_kind, np.full(3, 1 / 3))


def test_matching_pennies_and_a_dominant_action() -> None:
    np.testing.assert_allclose(assert_solved(PENNIES, PENNIES).joint, np.full((2, 2), 1 / 4))
    defect = np.array([[-1.0, -3.0], [0.0, -2.0]])  # the second row, for both, whatever the other
    answer = assert_solved(defect, -defect.T)
    np.testing.assert_array_equal(answer.joint, [[0, 0], [0, 1]])
    assert stages(answer) == {"pure"}


def test_whole_numbers_and_lists_are_games_too() -> None:
    assert_solved([[1, -1], [-1, 1]], [[1, -1], [-1, 1]])  # type: ignore[arg-type]


def test_the_pure_stage_takes_the_cell_with_the_smallest_gain() -> None:
    near = np.array([[0.0, 1.0], [-1.0, 1e-8]])
    answer = solve_cce(near, near, tolerance=1e-7)
    assert stages(answer) == {"pure"}
    np.testing.assert_array_equal(answer.joint, [[1, 0], [0, 0]])


def test_the_previous_answer_is_kept_while_it_is_good() -> None:
    upper, lower = pairs(3, (40, 3, 3))
    first = solve_cce(upper, lower)
    mixed = np.flatnonzero(first.stage == STAGES.index("pivoting"))
    assert mixed.size
    drift = 1e-9 * np.random.default_rng(0).normal(size=upper.shape)
    again = solve_cce(upper + drift, lower + drift, start=first.joint)
    np.testing.assert_array_equal(again.joint[mixed], first.joint[mixed])
    assert {STAGES[i] for i in again.stage[mixed]} == {"previous"}
    moved = solve_cce(upper + 0.5 * upper[::-1], lower, start=first.joint)
    assert "pivoting" in stages(moved)


def test_the_midpoint_stage_is_exact_when_the_width_is_a_sum() -> None:
    rng = np.random.default_rng(4)
    middle = RPS + 0.1 * rng.normal(size=(20, 3, 3))
    half = 0.2 * rng.normal(size=(20, 3, 1)) + 0.2 * rng.normal(size=(20, 1, 3))
    answer = assert_solved(middle + half, middle - half)
    assert stages(answer) <= {"pure", "midpoint"}
    assert "midpoint" in stages(answer)
    # The Nash of (U + L) / 2 itself is not an equilibrium: the sum shifts what the players prefer.
    plain = solve_nash(middle)
    joint = plain.row[:, :, None] * plain.column[:, None, :]
    assert deviation_gain(joint, middle + half, middle - half).max() > 0.01


def test_the_midpoint_is_off_by_at_most_the_range_of_what_is_no_sum() -> None:
    rng = np.random.default_rng(5)
    middle, half = rng.normal(size=(2, 3, 3, 200))
    rest = half - half.mean(0) - half.mean(1)[:, None]
    bound = np.ptp(rest, (0, 1))
    joint = matrix_game._midpoint(middle + half, middle - half, np.full(200, np.inf))
    first = [np.moveaxis(a, -1, 0) for a in (joint, middle + half, middle - half)]
    assert (deviation_gain(*first) <= bound + 1e-12).all()


def test_pivoting_solves_what_is_left_without_regret_matching() -> None:
    for size in (2, 3, 5, 8):
        assert stages(assert_solved(*pairs(size, (200, size, size)))) == {"pure", "pivoting"}


def test_regret_matching_takes_over_from_pivoting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    answer = assert_solved(*pairs(6, (100, 3, 3)), tolerance=0.02)
    assert stages(answer) == {"pure", "regret-matching"}


def test_the_linear_program_takes_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    answer = assert_solved(*pairs(7, (100, 3, 4)))
    assert {"pure", "linear-program"} <= stages(answer)
    game = 2 * RPS + 0.01 * np.arange(9).reshape(3, 3) ** 2
    assert stages(assert_solved(game, game)) == {"linear-program"}
    nash = solve_nash(game)
    np.testing.assert_allclose(nash.value, zero_sum_value(game), atol=1e-9)


def test_an_answer_beyond_the_tolerance_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    monkeypatch.setattr(matrix_game, "cce_by_lp", lambda upper, lower, cost: np.nan * cost)
    monkeypatch.setattr(matrix_game, "exact_lemke_howson", no_path)
    games = np.stack([np.zeros((3, 3)), 2 * RPS + 0.01 * np.arange(9).reshape(3, 3) ** 2])
    with pytest.raises(
        ArithmeticError, match=r"game \(1,\) \(3x3\) is off by .* 1\.0e-12, .*report"
    ):
        solve_cce(games, games, tolerance=1e-12)
    with pytest.raises(ArithmeticError, match=r"game \(\) \(3x3\)"):
        solve_cce(games[1], games[1], tolerance=1e-12)


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (4, 2)])
def test_tight_is_the_narrowest_equilibrium(size: tuple[int, int]) -> None:
    upper, lower = pairs(8, (25, *size))
    width = upper - lower
    tight = solve_cce(upper, lower, objective="tight")
    assert stages(tight) == {"linear-program"}
    narrow = (tight.joint * width).sum((-2, -1))
    assert (narrow <= (solve_cce(upper, lower).joint * width).sum((-2, -1)) + 1e-9).all()
    for i in range(25):
        slow = cce_by_linprog(upper[i], lower[i], width[i])
        np.testing.assert_allclose(narrow[i], (slow * width[i]).sum(), atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=sizes)
def test_nash_value_equals_the_linear_program(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    payoff = np.concatenate([rng.normal(size=(3, *size)), rng.integers(-1, 2, (3, *size))])
    nash = solve_nash(payoff)
    best, worst = best_responses(payoff, nash.row, nash.column)
    np.testing.assert_array_equal(nash.gap, best - worst)
    assert (nash.gap <= 1e-7).all()
    np.testing.assert_allclose(nash.row.sum(-1), 1)
    np.testing.assert_allclose(nash.value, [zero_sum_value(m) for m in payoff], atol=1e-7)


def test_nash_of_a_saddle_is_exact() -> None:
    nash = solve_nash([[3.0, 1.0], [0.0, -2.0]])
    assert nash.value == 1.0
    assert nash.gap == 0.0
    np.testing.assert_array_equal(nash.row, [1, 0])
    np.testing.assert_array_equal(nash.column, [0, 1])


@pytest.mark.parametrize("shape", [(0, 3, 3), (4, 0, 2, 5)])
@pytest.mark.parametrize("objective", ["any", "tight"])
def test_an_empty_batch(shape: tuple[int, ...], objective: matrix_game.Objective) -> None:
    answer = solve_cce(np.zeros(shape), np.zeros(shape), objective=objective)
    assert answer.joint.shape == shape
    assert answer.gap.shape == answer.stage.shape == shape[:-2]
    assert solve_nash(np.zeros(shape)).value.shape == shape[:-2]


def test_the_payoffs_are_left_as_they_were() -> None:
    upper, lower = pairs(12, (50, 3, 3))
    kept = upper.copy(), lower.copy()
    first = solve_cce(upper, lower)
    start = first.joint.copy()
    solve_cce(upper, lower + 1, start=first.joint)
    for now, before in zip((upper, lower, first.joint), (*kept, start), strict=True):
        np.testing.assert_array_equal(now, before)


def test_bad_input_is_named() -> None:
    good = np.zeros((2, 3, 3))
    bad = good.copy()
    bad[1, 0, 2] = np.nan
    for call, message in [
        (lambda: solve_cce(bad, good), r"q_upper\[1, 0, 2\] is nan; .* finite"),
        (lambda: solve_cce(good, -bad), r"q_lower\[1, 0, 2\] is nan"),
        (lambda: solve_nash(bad + np.inf), r"payoff\[0, 0, 0\] is inf"),
        (lambda: solve_cce(good, good, start=bad), r"start\[1, 0, 2\]"),
        (lambda: solve_cce(good, good[0]), r"\(2, 3, 3\) and q_lower \(3, 3\)"),
        (lambda: solve_cce(good, good, start=good[0]), r"start has shape \(3, 3\)"),
        (lambda: solve_cce(good, good, start=good), r"start\[0\] is no distribution .* sum 0\)"),
        (lambda: solve_cce(good[0], good[0], start=-np.eye(3)), r"start\[\] is no .*entry -1"),
        (lambda: solve_cce(np.zeros(3), np.zeros(3)), r"q_upper must have shape .* got \(3,\)"),
        (lambda: solve_cce(np.zeros((3, 0)), np.zeros((3, 0))), r"got \(3, 0\)"),
        (lambda: solve_cce(good * 1j, good), "real numbers, got dtype complex128"),
        (lambda: solve_cce([["a"]], [[1.0]]), "real numbers"),
        (lambda: solve_cce(good, good, tolerance=-1.0), "tolerance must be at least 0, got -1"),
        (lambda: solve_cce(good, good, tolerance=np.nan), "tolerance"),
        (lambda: solve_cce(good, good, objective="best"), "'any' or 'tight', got 'best'"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(ValueError, match=message):
            call()
