"""Games that once stopped the solvers: one huge payoff, near ties, scales at the ends of floats."""

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from planning.matrix_oracles import no_path, pairs, zero_sum_value

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning import matrix_game
from contrastive_ucb.planning.matrix_game import (
    CCE,
    ROUNDING,
    STAGES,
    deviation_gain,
    games_a_program,
    solve_cce,
    solve_nash,
)

EPSILON = 2.0**-52


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def forbidden_move(seed: int, payoff: float, size: int = 4) -> Array:
    """A game of unit scale with one payoff of quite another."""
    rng = np.random.default_rng(seed)
    game = rng.uniform(-1, 1, (size, size))
    game[rng.integers(size), rng.integers(size)] = payoff
    return game


def near_ties(seed: int, noise: float, n_games: int = 40, size: int = 5) -> Array:
    rng = np.random.default_rng(seed)
    shape = (n_games, size, size)
    return np.asarray(rng.integers(-1, 2, shape) + noise * rng.normal(size=shape))


def assert_within_the_limit(answer: CCE, upper: Array, lower: Array, tolerance: float) -> None:
    largest = np.maximum(np.abs(upper), np.abs(lower)).max((-2, -1))
    assert (answer.gap <= np.maximum(tolerance, ROUNDING * EPSILON * largest)).all()
    np.testing.assert_array_equal(answer.gap, deviation_gain(answer.joint, upper, lower))
    np.testing.assert_allclose(answer.joint.sum((-2, -1)), 1, atol=1e-13)
    assert (answer.joint >= 0).all()


@pytest.mark.parametrize("payoff", [1e9, -1e9, 1e10, -1e10, 1e11, -1e11, 1e12, -1e12])
def test_one_huge_payoff_stopped_both_solvers(payoff: float) -> None:
    games = np.stack([forbidden_move(seed, payoff) for seed in range(20)])
    others = np.random.default_rng(0).uniform(-1, 1, games.shape)
    for upper, lower in ((games, games), (games, others), (others, games)):
        assert_within_the_limit(solve_cce(upper, lower), upper, lower, 1e-7)
    nash = solve_nash(games)
    assert (nash.gap <= 2 * ROUNDING * EPSILON * abs(payoff)).all()


def test_the_game_of_the_report() -> None:
    game = forbidden_move(8, -1e10)
    answer = solve_cce(game, game, tolerance=1e-9)
    assert STAGES[int(answer.stage)] == "exact"
    assert answer.gap <= 10 * EPSILON * 1e10
    small = np.clip(game, -1e3, None)  # nobody ends in that cell, so its depth hardly matters
    assert solve_nash(game).value == pytest.approx(zero_sum_value(small), abs=2e-3)


@pytest.mark.parametrize("noise", [1e-12, 1e-10, 1e-9, 1e-8, 1e-6])
@pytest.mark.parametrize("tolerance", [1e-9, 0.0])
def test_near_ties_stopped_both_solvers(noise: float, tolerance: float) -> None:
    upper, lower = near_ties(0, noise), near_ties(1, noise)
    assert_within_the_limit(solve_cce(upper, upper, tolerance), upper, upper, tolerance)
    assert_within_the_limit(solve_cce(upper, lower, tolerance), upper, lower, tolerance)
    assert (solve_nash(upper, tolerance).gap <= max(tolerance, 2 * ROUNDING * EPSILON * 2)).all()


def test_the_exact_stage_is_reached_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
    monkeypatch.setattr(matrix_game, "cce_by_lp", lambda upper, lower, cost: np.nan * cost)
    upper, lower = pairs(13, (2, 30, 3, 4))
    whole = solve_cce(upper, lower, tolerance=0.0)
    assert_within_the_limit(whole, upper, lower, 0.0)
    exact = whole.stage == STAGES.index("exact")
    assert 0.3 < exact.mean() < 0.9  # the others have an equilibrium in pure actions
    assert (whole.gap[exact] <= 12 * EPSILON).all()
    for i in np.ndindex(2, 30):
        one = solve_cce(upper[i], lower[i], tolerance=0.0)
        np.testing.assert_array_equal(one.joint, whole.joint[i])
        assert one.stage == whole.stage[i]


@pytest.mark.parametrize("off", [np.nan, 1e-3])
def test_a_tight_program_that_fails_leaves_the_game_to_the_other_stages(
    off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in "off by inf" (the program gave up) or in an answer above the limit."""
    upper, lower = pairs(14, (30, 3, 3))
    usual = solve_cce(upper, lower, objective="tight")
    whole = matrix_game.cce_by_lp

    def fails(u: Array, low: Array, cost: Array) -> Array:
        joint = whole(u, low, cost)
        joint[::3] = (1 - off) * joint[::3] + off / 9
        return joint

    monkeypatch.setattr(matrix_game, "cce_by_lp", fails)
    answer = solve_cce(upper, lower, objective="tight")
    assert_within_the_limit(answer, upper, lower, 1e-7)
    assert {STAGES[i] for i in answer.stage[::3]} == {"pure", "pivoting"}
    np.testing.assert_array_equal(answer.joint[1::3], usual.joint[1::3])
    np.testing.assert_array_equal(answer.stage[1::3], usual.stage[1::3])
    np.testing.assert_array_equal(answer.joint[::3], solve_cce(upper[::3], lower[::3]).joint)


def test_tight_programs_that_fail_on_their_own() -> None:
    games = np.stack([forbidden_move(seed, -1e10) for seed in range(10)])
    lower = np.random.default_rng(0).uniform(-1, 1, games.shape)
    answer = solve_cce(games, lower, objective="tight")
    assert_within_the_limit(answer, games, lower, 1e-7)
    assert {STAGES[i] for i in answer.stage} > {"pure"}


def test_programs_of_large_games_hold_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 games of 25x25 in one program took 1.3 GB."""
    assert games_a_program(3, 3) == games_a_program(10, 10) == 200
    for size in ((1, 1), (3, 3), (2, 60), (12, 17), (25, 25), (70, 70)):
        coefficients = games_a_program(*size) * sum(size) * size[0] * size[1]
        assert coefficients <= 400_000 or games_a_program(*size) == 1
    assert games_a_program(25, 25) == 12
    assert games_a_program(100, 100) == 1
    solved = []

    def counts(upper: Array, lower: Array, cost: Array) -> Array:
        solved.append(len(upper))
        return cost

    monkeypatch.setattr(matrix_game, "_solve", counts)
    matrix_game.cce_by_lp(*np.zeros((3, 30, 25, 25)))
    assert solved == [12, 12, 6]


@pytest.mark.parametrize("payoff", [1.1e300, -1e305, 1.7e308, np.inf])
def test_payoffs_whose_sums_overflow_are_refused(payoff: float) -> None:
    game = forbidden_move(0, payoff)
    for solve in (solve_nash, lambda game: solve_cce(game, game)):
        with pytest.raises(ValueError, match=r"is -?(1.*e\+30|inf).* up to 1e\+300; .* divide"):
            solve(game)


@pytest.mark.parametrize("scale", [1e-323, 1e-320, 1e-310, 1e-300, 1e299])
def test_scales_at_the_ends_of_doubles_need_no_tolerance(scale: float) -> None:
    upper, lower = (scale * a for a in pairs(15, (40, 4, 4)))
    for one, other in ((upper, lower), (upper, upper)):
        answer = solve_cce(one, other, tolerance=0.0)
        largest = np.maximum(np.abs(one), np.abs(other)).max((-2, -1))
        assert (answer.gap <= ROUNDING * (EPSILON * largest + 5e-324)).all()


def test_a_tolerance_is_named_as_it_was_passed() -> None:
    with pytest.raises(ValueError, match=r"at least 0, got -1$"):
        solve_nash(np.zeros((2, 2)), tolerance=-1)
    with pytest.raises(ValueError, match=r"at least 0, got nan$"):
        solve_nash(np.zeros((2, 2)), tolerance=np.nan)


def test_games_of_true_and_false_are_games_of_one_and_zero() -> None:
    won = np.random.default_rng(1).random((30, 4, 4)) < 0.5
    np.testing.assert_array_equal(solve_nash(won).value, solve_nash(won.astype(float)).value)
    assert_within_the_limit(solve_cce(won, won), won, won, 1e-7)
