"""Lemke-Howson in whole numbers: one of the equilibria by support, without error, on any game."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.matrix_oracles import equilibria_by_support

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning import pivoting as exact_pivoting
from contrastive_ucb.planning.pivoting import exact_lemke_howson, lemke_howson, measured_gap

seeds = st.integers(0, 10**6)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


def assert_one_of_the_equilibria(row: Array, column: Array) -> None:
    x, y = exact_lemke_howson(row, column)
    for i in range(row.shape[-1]):
        assert any(
            np.allclose(x[:, i], one_x, atol=1e-12) and np.allclose(y[:, i], one_y, atol=1e-12)
            for one_x, one_y in equilibria_by_support(row[..., i], column[..., i])
        )


def gain(payoff: Array, own: list[Fraction], other: list[Fraction]) -> Fraction:
    """What a player who maximises `payoff` (own, other) gains by the best pure action."""
    of_action = [
        sum((Fraction(v) * q for v, q in zip(line, other, strict=True)), Fraction(0))
        for line in payoff.tolist()
    ]
    return max(of_action) - sum(p * v for p, v in zip(own, of_action, strict=True))


@settings(max_examples=40, deadline=None)
@given(seed=seeds, size=sizes)
def test_random_games_end_at_an_equilibrium_by_support(seed: int, size: tuple[int, int]) -> None:
    assert_one_of_the_equilibria(*np.random.default_rng(seed).normal(size=(2, *size, 3)))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, most=st.integers(0, 2))
def test_games_with_ties_end_at_an_equilibrium_by_support(
    seed: int, size: tuple[int, int], most: int
) -> None:
    games = np.random.default_rng(seed).integers(-most, most + 1, (2, *size, 3)).astype(float)
    assert_one_of_the_equilibria(*games)


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 1)])
def test_one_action_against_many(size: tuple[int, int]) -> None:
    row, column = np.random.default_rng(0).normal(size=(2, *size, 20))
    x, y = exact_lemke_howson(row, column)
    np.testing.assert_array_equal(x, np.eye(size[0])[:, row.argmax(0)[0]])
    np.testing.assert_array_equal(y, np.eye(size[1])[:, column.argmax(1)[0]])
    assert_one_of_the_equilibria(np.round(row), np.round(column))


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    exponents=st.sampled_from([(0, 0), (-12, 12), (-300, 300), (-323, -300)]),
    ties=st.booleans(),
)
def test_the_answer_has_no_gain_at_all_before_it_is_rounded(
    seed: int, size: tuple[int, int], exponents: tuple[int, int], ties: bool
) -> None:
    """The mixtures are kept as fractions here, and both gains are exactly zero."""
    rng = np.random.default_rng(seed)
    row, column = rng.integers(-1, 2, (2, *size)) if ties else rng.normal(size=(2, *size))
    row, column = (a * 10.0 ** rng.integers(*exponents, size, endpoint=True) for a in (row, column))
    kept: list[list[Fraction]] = []

    class Kept(exact_pivoting._RationalTableau):
        def mixture(self, labels: list[int]) -> list[float]:
            mass = dict(zip(self.basis, self.table[:, -1], strict=True))
            total = sum(mass.get(label, 0) for label in labels)
            kept.append([Fraction(mass.get(label, 0), total) for label in labels])
            return super().mixture(labels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_pivoting, "_RationalTableau", Kept)
        rounded = exact_lemke_howson(row[..., None], column[..., None])
    x, y = kept
    assert gain(row, x, y) == gain(column.T, y, x) == 0
    for whole, floats in zip(kept, rounded, strict=True):
        assert [float(p) for p in whole] == floats[:, 0].tolist()


FIRST_OF_EQUALS_CYCLES = (
    [[0, 1, 0, 0], [1, 2, 2, 0], [2, 2, 2, 0], [0, 1, 1, 2]],
    [[2, 2, 2, 0], [1, 2, 1, 1], [1, 0, 2, 1], [0, 0, 1, 0]],
)
LAST_OF_EQUALS_CYCLES = (
    [[0, 1, 0, 0], [2, 2, 0, 2], [2, 0, 1, 1], [1, 1, 0, 2]],
    [[2, 0, 2, 2], [0, 1, 1, 0], [2, 2, 0, 0], [0, 2, 0, 1]],
)


@pytest.mark.parametrize("game", [FIRST_OF_EQUALS_CYCLES, LAST_OF_EQUALS_CYCLES])
def test_ties_in_the_ratio_test_do_not_make_the_path_cycle(
    game: tuple[list[list[int]], list[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rows with equal ratios, neither the first nor the last may always be taken."""
    pivots = []

    class Counted(exact_pivoting._RationalTableau):
        def pivot(self, entering: int) -> int:
            pivots.append(entering)
            assert len(pivots) < 100, "the path cycles"
            return super().pivot(entering)

    monkeypatch.setattr(exact_pivoting, "_RationalTableau", Counted)
    row, column = np.array(game, dtype=float)[..., None]
    assert_one_of_the_equilibria(row, column)


def test_games_of_zeros_and_ones() -> None:
    rng = np.random.default_rng(1)
    for size in (4, 8, 12):
        games = rng.integers(0, 2, (2, size, size, 10)).astype(float)
        games[..., 0], games[..., 1] = 0.0, np.eye(size)
        x, y = exact_lemke_howson(*games)
        assert (measured_gap(x[:, None] * y, games[0], -games[1]) <= 1e-14).all()


@pytest.mark.parametrize("size", [(3, 3), (4, 7), (10, 10)])
def test_pivoting_in_floats_finds_the_same_kind_of_answer(size: tuple[int, int]) -> None:
    """Both start with label 0; where the nudge does not matter the path is the same one."""
    games = np.random.default_rng(2).normal(size=(2, *size, 20))
    same = [
        np.isclose(a, b, atol=1e-9).all(0)
        for a, b in zip(exact_lemke_howson(*games), lemke_howson(*games), strict=True)
    ]
    assert (same[0] & same[1]).mean() >= 0.5


def test_no_game() -> None:
    x, y = exact_lemke_howson(np.zeros((3, 2, 0)), np.zeros((3, 2, 0)))
    assert x.shape == (3, 0)
    assert y.shape == (2, 0)
