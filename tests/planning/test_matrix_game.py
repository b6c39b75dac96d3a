"""Equilibria of matrix games: certificates, oracles, every stage, batches, hard games, errors."""

import warnings

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

EPSILON = 2.0**-52
seeds = st.integers(0, 10**6)
sizes = st.tuples(st.integers(1, 5), st.integers(1, 5))
RPS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def stages(answer: CCE) -> set[str]:
    return {STAGES[i] for i in answer.stage.ravel()}


def assert_solved(
    upper: Array,
    lower: Array,
    tolerance: float = 1e-7,
    objective: matrix_game.Objective = "any",
) -> CCE:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = solve_cce(upper, lower, tolerance, objective=objective)
    assert answer.joint.shape == np.shape(upper)
    assert answer.gap.shape == answer.stage.shape == np.shape(upper)[:-2]
    assert (answer.joint >= 0).all()
    np.testing.assert_allclose(answer.joint.sum((-2, -1)), 1, atol=1e-12)
    np.testing.assert_array_equal(answer.gap, deviation_gain(answer.joint, upper, lower))
    largest = np.maximum(np.abs(upper), np.abs(lower)).max((-2, -1))
    limit = ROUNDING * (EPSILON * largest + 5e-324)
    assert (answer.gap <= np.maximum(tolerance, limit)).all()
    return answer


@settings(max_examples=50, deadline=None)
@given(seed=seeds, size=sizes)
def test_gap_against_loops(seed: int, size: tuple[int, int]) -> None:
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


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=sizes)
def test_nash_value_against_a_linear_program(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    payoff = np.concatenate([rng.normal(size=(3, *size)), rng.integers(-1, 2, (3, *size))])
    nash = solve_nash(payoff)
    best, worst = best_responses(payoff, nash.row, nash.column)
    np.testing.assert_array_equal(nash.gap, best - worst)
    assert (nash.gap <= 1e-7).all()
    np.testing.assert_allclose(nash.row.sum(-1), 1)
    np.testing.assert_allclose(nash.value, [zero_sum_value(m) for m in payoff], atol=1e-7)


# Stages


def test_previous_answer_is_kept_while_its_gap_is_small() -> None:
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


def test_midpoint_stage_is_exact_for_separable_widths() -> None:
    rng = np.random.default_rng(4)
    middle = RPS + 0.1 * rng.normal(size=(20, 3, 3))
    half = 0.2 * rng.normal(size=(20, 3, 1)) + 0.2 * rng.normal(size=(20, 1, 3))
    answer = assert_solved(middle + half, middle - half)
    assert stages(answer) <= {"pure", "midpoint"}
    assert "midpoint" in stages(answer)
    # The Nash equilibrium of (U + L) / 2 is not a CCE: the width changes the preferences.
    nash = solve_nash(middle)
    joint = nash.row[:, :, None] * nash.column[:, None, :]
    assert deviation_gain(joint, middle + half, middle - half).max() > 0.01


@pytest.mark.parametrize(
    ("stage", "tolerance", "has_programs"),
    [("regret-matching", 0.02, True), ("linear-program", 1e-7, True), ("exact", 0.0, False)],
)
def test_later_stages_solve_what_pivoting_does_not(
    stage: str, tolerance: float, has_programs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    if not has_programs:
        monkeypatch.setattr(matrix_game, "cce_by_lp", lambda upper, lower, cost: np.nan * cost)
    upper, lower = pairs(13, (2, 30, 3, 4))
    whole = assert_solved(upper, lower, tolerance)
    assert {"pure", stage} <= stages(whole) <= {"pure", "regret-matching", stage}
    if has_programs:
        game = 2 * RPS + 0.01 * np.arange(9).reshape(3, 3) ** 2
        assert solve_nash(game, tolerance).value == pytest.approx(zero_sum_value(game), abs=0.01)
    if stage == "exact":
        assert (whole.gap[whole.stage == STAGES.index("exact")] <= 12 * EPSILON).all()
    if stage == "linear-program":  # shared by the games of a batch
        return
    for i in np.ndindex(2, 30):
        single = solve_cce(upper[i], lower[i], tolerance)
        np.testing.assert_array_equal(single.joint, whole.joint[i])
        assert single.stage == whole.stage[i]


def test_gap_above_the_limit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    monkeypatch.setattr(matrix_game, "cce_by_lp", lambda upper, lower, cost: np.nan * cost)
    monkeypatch.setattr(matrix_game, "exact_lemke_howson", no_path)
    games = np.stack([np.zeros((3, 3)), 2 * RPS + 0.01 * np.arange(9).reshape(3, 3) ** 2])
    with pytest.raises(ArithmeticError, match=r"game \(1,\) \(3x3\) has gap .* 1\.0e-12, .*report"):
        solve_cce(games, games, tolerance=1e-12)
    with pytest.raises(ArithmeticError, match=r"game \(\) \(3x3\)"):
        solve_cce(games[1], games[1], tolerance=1e-12)


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (4, 2)])
def test_tight_minimizes_the_width(size: tuple[int, int]) -> None:
    upper, lower = pairs(8, (25, *size))
    width = upper - lower
    tight = solve_cce(upper, lower, objective="tight")
    assert stages(tight) == {"linear-program"}
    smallest = (tight.joint * width).sum((-2, -1))
    assert (smallest <= (solve_cce(upper, lower).joint * width).sum((-2, -1)) + 1e-9).all()
    for i in range(25):
        expected = cce_by_linprog(upper[i], lower[i], width[i])
        np.testing.assert_allclose(smallest[i], (expected * width[i]).sum(), atol=1e-7)


# Linear programs


@pytest.mark.parametrize("off", [np.nan, 1e-3])
def test_other_stages_follow_a_failed_tight_program(
    off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the gap was infinite or above the limit."""
    upper, lower = pairs(14, (30, 3, 3))
    usual = solve_cce(upper, lower, objective="tight")
    whole = matrix_game.cce_by_lp

    def fails(u: Array, low: Array, cost: Array) -> Array:
        joint = whole(u, low, cost)
        joint[::3] = (1 - off) * joint[::3] + off / 9
        return joint

    monkeypatch.setattr(matrix_game, "cce_by_lp", fails)
    answer = assert_solved(upper, lower, objective="tight")
    assert {STAGES[i] for i in answer.stage[::3]} == {"pure", "pivoting"}
    np.testing.assert_array_equal(answer.joint[1::3], usual.joint[1::3])
    np.testing.assert_array_equal(answer.stage[1::3], usual.stage[1::3])
    np.testing.assert_array_equal(answer.joint[::3], solve_cce(upper[::3], lower[::3]).joint)


# Batches


def mixed_games(size: tuple[int, int]) -> tuple[Array, Array]:
    """500 games: random, zero-sum, with ties, with separable width, badly scaled."""
    rng = np.random.default_rng(9)
    upper, lower = pairs(10, (500, *size))
    lower[100:150] = upper[100:150]
    upper[150:250], lower[150:250] = rng.integers(-1, 2, (2, 100, *size))
    lower[250:300] = upper[250:300] - rng.random((50, 1, size[1]))
    upper[300:350] *= 1e9
    lower[350:400] *= 1e-9
    return upper, lower


@pytest.mark.parametrize("size", [(3, 3), (9, 1), (1, 9), (4, 10)])
def test_a_single_game_equals_the_game_in_a_batch(size: tuple[int, int]) -> None:
    upper, lower = mixed_games(size)
    whole, nash = solve_cce(upper, lower), solve_nash(upper, 0.1)
    for i in range(len(upper)):
        single = solve_cce(upper[i], lower[i])
        np.testing.assert_array_equal(single.joint, whole.joint[i])
        assert (single.gap, single.stage) == (whole.gap[i], whole.stage[i])
        if i % 10 == 0:
            np.testing.assert_array_equal(solve_nash(upper[i], 0.1).value, nash.value[i])


@pytest.mark.parametrize("objective", ["any", "tight"])
def test_programs_are_shared_along_the_last_leading_axis_only(
    objective: matrix_game.Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    monkeypatch.setattr(matrix_game, "MOST_GAMES", 4)
    upper, lower = pairs(11, (3, 2, 11, 3, 3))
    whole = solve_cce(upper, lower, objective=objective)
    assert STAGES.index("linear-program") in whole.stage
    for i in range(3):
        single = solve_cce(upper[i], lower[i], objective=objective)
        np.testing.assert_array_equal(single.joint, whole.joint[i])
        np.testing.assert_array_equal(single.stage, whole.stage[i])


# Hard games: a single huge payoff, near ties, scales at the limits of doubles


def outlier_game(seed: int, payoff: float, size: int = 4) -> Array:
    """A game of unit scale with a single payoff of another scale."""
    rng = np.random.default_rng(seed)
    game = rng.uniform(-1, 1, (size, size))
    game[rng.integers(size), rng.integers(size)] = payoff
    return game


def test_a_game_that_needs_the_exact_stage() -> None:
    game = outlier_game(8, -1e10)
    answer = solve_cce(game, game, tolerance=1e-9)
    assert STAGES[int(answer.stage)] == "exact"
    assert answer.gap <= 10 * EPSILON * 1e10
    small = np.clip(game, -1e3, None)  # the cell has no mass, so its payoff has little effect
    assert solve_nash(game).value == pytest.approx(zero_sum_value(small), abs=2e-3)


# Arguments


def test_invalid_arguments() -> None:
    good = np.zeros((2, 3, 3))
    bad = good.copy()
    bad[1, 0, 2] = np.nan
    for call, message in [
        (lambda: solve_cce(bad, good), r"q_upper\[1, 0, 2\] is nan; .* finite"),
        (lambda: solve_cce(good, good[0]), r"\(2, 3, 3\) and q_lower \(3, 3\)"),
        (lambda: solve_cce(good, good, start=good[0]), r"start has shape \(3, 3\)"),
        (lambda: solve_cce(good, good, start=good), r"start\[0\] is not a dist.* sum 0\)"),
        (lambda: solve_cce(good[0], good[0], start=-np.eye(3)), r"start\[\] is not .*entry -1"),
        (lambda: solve_cce(np.zeros(3), np.zeros(3)), r"q_upper must have shape .* got \(3,\)"),
        (lambda: solve_cce(good * 1j, good), "real numbers, got dtype complex128"),
        (lambda: solve_cce(good, good, tolerance=-1.0), "tolerance must be at least 0, got -1"),
        (lambda: solve_nash(good + 1.1e300), r"is 1.1e\+300; .* at most 1e\+300; .* divide"),
        (lambda: solve_cce(good, good, objective="best"), "'any' or 'tight', got 'best'"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(ValueError, match=message):
            call()
