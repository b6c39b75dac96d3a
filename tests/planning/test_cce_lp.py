"""The block-diagonal program against one program a game, and what happens when the solver fails."""

import numpy as np
import pytest
from planning.matrix_oracles import cce_by_linprog, gain_by_loops

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning import matrix_game as cce_lp
from contrastive_ucb.planning.matrix_game import cce_by_lp, deviation_gain, deviations

SHAPE = (7, 3, 4)


def test_one_row_of_gains_an_action() -> None:
    rng = np.random.default_rng(0)
    upper, lower = rng.normal(size=(2, *SHAPE))
    joint = rng.dirichlet(np.ones(12), 7).reshape(SHAPE)
    gains = (deviations(upper, lower) @ joint.reshape(7, 12, 1))[..., 0]  # (B, A1 + A2)
    slow = [gain_by_loops(*game) for game in zip(joint, upper, lower, strict=True)]
    np.testing.assert_allclose(gains.max(1), slow, atol=1e-13)


@pytest.mark.parametrize("most", [1, 3, 200])
def test_programs_of_any_size_find_the_best_cce(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cce_lp, "MOST_GAMES", most)
    upper, lower, cost = np.random.default_rng(1).normal(size=(3, *SHAPE))
    joint = cce_by_lp(1e6 * upper, 1e-6 * lower, cost)
    assert (deviation_gain(joint, upper, lower) <= 1e-9).all()
    for i in range(7):
        slow = cce_by_linprog(upper[i], lower[i], cost[i])
        np.testing.assert_allclose((joint[i] * cost[i]).sum(), (slow * cost[i]).sum(), atol=1e-7)


def test_one_game_that_fails_does_not_spoil_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    upper, lower, cost = np.random.default_rng(2).normal(size=(3, *SHAPE))
    whole = cce_lp._one_program

    def fails(u: Array, low: Array, c: Array, tolerance: float) -> Array | None:
        bad = (u == cce_lp._unit(upper)[4]).all((1, 2)).any()
        return None if bad else whole(u, low, c, tolerance)

    monkeypatch.setattr(cce_lp, "_one_program", fails)
    joint = cce_by_lp(upper, lower, cost)
    gap = deviation_gain(joint, upper, lower)
    assert np.isnan(gap[4])
    assert (np.delete(gap, 4) <= 1e-9).all()
