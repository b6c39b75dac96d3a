"""Batched Lemke-Howson against support enumeration, on games with ties, alone and in a batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.matrix_oracles import equilibria_by_support

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning import pivoting
from contrastive_ucb.planning.pivoting import chunks, lemke_howson, sum_in_order

seeds = st.integers(0, 10**6)
sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))


def regret(row: Array, column: Array, x: Array, y: Array) -> Array:
    """The larger of the two players' gains from moving alone, a game.   all with games last"""
    of_row = np.einsum("ijb,jb->ib", row, y)
    of_column = np.einsum("ijb,ib->jb", column, x)
    gains = of_row.max(0) - (x * of_row).sum(0), of_column.max(0) - (y * of_column).sum(0)
    return np.maximum(*gains)


def assert_nash(row: Array, column: Array, atol: float = 1e-9) -> None:
    x, y = lemke_howson(row, column)
    for mixture in (x, y):
        assert (mixture >= 0).all()
        np.testing.assert_allclose(mixture.sum(0), 1, atol=1e-12)
    assert (regret(row, column, x, y) <= atol).all()


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes)
def test_every_answer_is_an_equilibrium(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    assert_nash(*rng.normal(size=(2, *size, 20)))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, most=st.integers(0, 2))
def test_ties_neither_cycle_nor_spoil_the_answer(
    seed: int, size: tuple[int, int], most: int
) -> None:
    rng = np.random.default_rng(seed)
    assert_nash(*rng.integers(-most, most + 1, size=(2, *size, 30)).astype(float))


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=sizes)
def test_duplicated_actions(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    games = rng.normal(size=(2, *size, 10))
    assert_nash(*np.concatenate([games, games], axis=1))
    assert_nash(*np.concatenate([games, games, games], axis=2))


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (2, 4), (4, 3)])
def test_the_answer_is_one_of_the_equilibria_by_support(size: tuple[int, int]) -> None:
    games = np.random.default_rng(0).normal(size=(2, *size, 40))
    x, y = lemke_howson(*games)
    for i in range(40):
        all_of_them = equilibria_by_support(games[0, ..., i], games[1, ..., i])
        assert any(
            np.allclose(x[:, i], one_x) and np.allclose(y[:, i], one_y)
            for one_x, one_y in all_of_them
        )


def test_battle_of_the_sexes_and_a_zero_sum_game() -> None:
    pennies = np.array([[1.0, -1.0], [-1.0, 1.0]])[..., None]
    np.testing.assert_allclose(lemke_howson(pennies, -pennies), np.full((2, 2, 1), 0.5))
    row, column = np.array([[3.0, 0], [0, 2]])[..., None], np.array([[2.0, 0], [0, 3]])[..., None]
    x, y = lemke_howson(row, column)
    np.testing.assert_allclose(regret(row, column, x, y), 0, atol=1e-14)


@pytest.mark.parametrize("size", [(3, 3), (5, 2), (1, 4), (9, 1), (10, 10)])
def test_a_game_alone_equals_the_game_in_a_batch_bit_for_bit(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    games = np.concatenate(
        [rng.normal(size=(2, *size, 60)), rng.integers(-1, 2, (2, *size, 60))], axis=-1
    )
    x, y = lemke_howson(*games)
    for i in range(120):
        one_x, one_y = lemke_howson(*games[..., i : i + 1])
        np.testing.assert_array_equal(x[:, i], one_x[:, 0])
        np.testing.assert_array_equal(y[:, i], one_y[:, 0])


def test_pieces_of_the_batch_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    games = np.random.default_rng(2).normal(size=(2, 4, 5, 50))
    whole = lemke_howson(*games)
    monkeypatch.setattr(pivoting, "CACHED_PAYOFFS", 60)
    for a, b in zip(whole, lemke_howson(*games), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_path_given_up_is_tried_from_another_label(monkeypatch: pytest.MonkeyPatch) -> None:
    games = np.random.default_rng(3).normal(size=(2, 5, 5, 200))
    monkeypatch.setattr(pivoting, "pivot_limit", lambda *_: 5)
    later = lemke_howson(*games)
    monkeypatch.setattr(pivoting, "NUDGES", pivoting.NUDGES[:1])
    first = lemke_howson(*games)
    unsolved = [int(np.isnan(x[0]).sum()) for x, _ in (first, later)]
    assert 200 > unsolved[0] > unsolved[1] > 0
    solved = ~np.isnan(later[0][0])
    assert (np.isnan(later[0]) == ~solved).all()
    assert (np.isnan(later[1]) == ~solved).all()
    x, y = (mixture[:, solved] for mixture in later)
    assert (regret(*games[..., solved], x, y) <= 1e-12).all()


def test_no_game_and_one_action() -> None:
    x, y = lemke_howson(np.zeros((3, 2, 0)), np.zeros((3, 2, 0)))
    assert x.shape == (3, 0)
    assert y.shape == (2, 0)
    np.testing.assert_array_equal(lemke_howson(*np.zeros((2, 1, 1, 3))), np.ones((2, 1, 3)))


def test_helpers() -> None:
    assert [(part.start, part.stop) for part in chunks(5, 2)] == [(0, 2), (2, 4), (4, 6)]
    assert len(list(chunks(3, 0))) == 3
    terms = np.random.default_rng(4).normal(size=(17, 3, 1))
    np.testing.assert_allclose(sum_in_order(terms, axis=1), terms.sum(1), atol=1e-14)
    np.testing.assert_array_equal(sum_in_order(np.repeat(terms, 2, 2))[:, :1], sum_in_order(terms))
