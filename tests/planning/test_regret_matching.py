"""Regret matching: its gap falls, it stops early, and it does not see the rest of the batch."""

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning.matrix_game import deviation_gain, regret_matching

UPPER, LOWER = np.random.default_rng(0).normal(size=(2, 3, 4, 60))


def gap(joint: Array) -> Array:
    return deviation_gain(*(np.moveaxis(a, -1, 0) for a in (joint, UPPER, LOWER)))


def test_the_gap_falls_with_the_iterations() -> None:
    never = np.zeros(60)
    few, many = (regret_matching(UPPER, LOWER, never, iterations=n) for n in (10, 1000))
    np.testing.assert_allclose(many.sum((0, 1)), 1, atol=1e-12)
    assert (many >= 0).all()
    assert gap(many).mean() < gap(few).mean() / 20
    assert gap(many).max() < 0.01


def test_a_game_stops_at_the_first_look_that_finds_it_good() -> None:
    limit = np.full(60, 0.03)
    joint = regret_matching(UPPER, LOWER, limit, iterations=200, every=10)
    looks = [regret_matching(UPPER, LOWER, 0 * limit, iterations=n) for n in range(10, 201, 10)]
    for i in range(60):
        good = [look[..., i] for look in looks if gap(look)[i] <= 0.03]
        np.testing.assert_array_equal(joint[..., i], good[0])


def test_a_game_alone_equals_the_game_in_a_batch_bit_for_bit() -> None:
    limit = np.full(60, 0.01)
    whole = regret_matching(UPPER, LOWER, limit)
    for i in range(60):
        part = slice(i, i + 1)
        one = regret_matching(UPPER[..., part], LOWER[..., part], limit[part])
        np.testing.assert_array_equal(one, whole[..., part])


def test_constant_payoffs_leave_the_uniform_play() -> None:
    flat = np.ones((2, 2, 3))
    np.testing.assert_allclose(regret_matching(flat, flat, np.zeros(3)), np.full((2, 2, 3), 0.25))
