"""A game alone, the same game in a batch: equal bit for bit, up to where programs are shared."""

import numpy as np
import pytest
from planning.matrix_oracles import no_path, pairs

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.planning import matrix_game
from contrastive_ucb.planning.matrix_game import STAGES, deviation_gain, solve_cce, solve_nash


def mixed_games(size: tuple[int, int]) -> tuple[Array, Array]:
    """500 games of all kinds: random, zero-sum, with ties, separable width, badly scaled."""
    rng = np.random.default_rng(9)
    upper, lower = pairs(10, (500, *size))
    lower[100:150] = upper[100:150]
    upper[150:250], lower[150:250] = rng.integers(-1, 2, (2, 100, *size))
    lower[250:300] = upper[250:300] - rng.random((50, 1, size[1]))
    upper[300:350] *= 1e9
    lower[350:400] *= 1e-9
    return upper, lower


@pytest.mark.parametrize("size", [(3, 3), (9, 1), (1, 9), (4, 10)])
@pytest.mark.parametrize("pivoting", [True, False])
def test_a_game_alone_equals_the_game_in_a_batch_bit_for_bit(
    size: tuple[int, int], pivoting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerance = 1e-7
    if not pivoting:  # up to regret matching, whose checks see every game
        monkeypatch.setattr(matrix_game, "lemke_howson", no_path)
        tolerance = 0.05
    upper, lower = mixed_games(size)
    games = slice(0, 500) if pivoting else slice(0, 40)
    upper, lower = upper[games], lower[games]
    whole = solve_cce(upper, lower, tolerance)
    gap = deviation_gain(whole.joint, upper, lower)
    nash = solve_nash(upper, max(tolerance, 0.1))
    for i in range(len(upper)):
        one = solve_cce(upper[i], lower[i], tolerance)
        np.testing.assert_array_equal(one.joint, whole.joint[i])
        assert (one.gap, one.stage) == (whole.gap[i], whole.stage[i])
        assert deviation_gain(one.joint, upper[i], lower[i]) == gap[i]
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
        one = solve_cce(upper[i], lower[i], objective=objective)
        np.testing.assert_array_equal(one.joint, whole.joint[i])
        np.testing.assert_array_equal(one.stage, whole.stage[i])
