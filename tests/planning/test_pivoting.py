"""Lemke-Howson, in floats and in rationals, against support enumeration."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.matrix_oracles import equilibria_by_support

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning.pivoting import exact_lemke_howson, lemke_howson

Solver = Callable[[Array, Array], tuple[Array, Array]]
SOLVERS = pytest.mark.parametrize("solve", [lemke_howson, exact_lemke_howson])
seeds = st.integers(0, 10**6)
sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))
small_sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


def gains(row: Array, column: Array, x: Array, y: Array) -> Array:
    """The larger of the two players' gains from deviating (B,); games are on the last axis."""
    of_row = np.einsum("ijb,jb->ib", row, y)
    of_column = np.einsum("ijb,ib->jb", column, x)
    return np.maximum(
        of_row.max(0) - (x * of_row).sum(0), of_column.max(0) - (y * of_column).sum(0)
    )


def assert_nash(row: Array, column: Array, solve: Solver = lemke_howson) -> None:
    x, y = solve(row, column)
    for mixture in (x, y):
        assert (mixture >= 0).all()
        np.testing.assert_allclose(mixture.sum(0), 1, atol=1e-12)
    assert (gains(row, column, x, y) <= 1e-9).all()


def assert_equilibrium_by_support(row: Array, column: Array, solve: Solver) -> None:
    x, y = solve(row, column)
    for i in range(row.shape[-1]):
        assert any(
            np.allclose(x[:, i], expected_x, atol=1e-9)
            and np.allclose(y[:, i], expected_y, atol=1e-9)
            for expected_x, expected_y in equilibria_by_support(row[..., i], column[..., i])
        )


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes)
def test_random_games_and_duplicated_actions(seed: int, size: tuple[int, int]) -> None:
    games = np.random.default_rng(seed).normal(size=(2, *size, 10))
    assert_nash(*games)
    assert_nash(*np.concatenate([games, games], axis=1))
    assert_nash(*np.concatenate([games, games, games], axis=2))


@SOLVERS
@settings(max_examples=40, deadline=None)
@given(seed=seeds, size=small_sizes)
def test_random_games_against_support_enumeration(
    solve: Solver, seed: int, size: tuple[int, int]
) -> None:
    games = np.random.default_rng(seed).normal(size=(2, *size, 3))
    assert_equilibrium_by_support(*games, solve)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=small_sizes, most=st.integers(0, 2))
def test_exact_solutions_of_games_with_ties_against_support_enumeration(
    seed: int, size: tuple[int, int], most: int
) -> None:
    games = np.random.default_rng(seed).integers(-most, most + 1, (2, *size, 3)).astype(float)
    assert_equilibrium_by_support(*games, exact_lemke_howson)


# Rational arithmetic


FIRST_OF_EQUALS_CYCLES = (
    [[0, 1, 0, 0], [1, 2, 2, 0], [2, 2, 2, 0], [0, 1, 1, 2]],
    [[2, 2, 2, 0], [1, 2, 1, 1], [1, 0, 2, 1], [0, 0, 1, 0]],
)
LAST_OF_EQUALS_CYCLES = (
    [[0, 1, 0, 0], [2, 2, 0, 2], [2, 0, 1, 1], [1, 1, 0, 2]],
    [[2, 0, 2, 2], [0, 1, 1, 0], [2, 2, 0, 0], [0, 2, 0, 1]],
)


@pytest.mark.parametrize("game", [FIRST_OF_EQUALS_CYCLES, LAST_OF_EQUALS_CYCLES])
def test_ties_in_the_ratio_test_do_not_cycle(game: tuple[list[list[int]], list[list[int]]]) -> None:
    """Taking the first or the last of rows with equal ratios would cycle."""
    row, column = np.array(game, dtype=float)[..., None]
    assert_equilibrium_by_support(row, column, exact_lemke_howson)
