"""Values, best responses and equilibria against loops, known games and OpenSpiel."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import LockGame, LowRankGame, LowRankMDP, TabularGame
from contrastive_ucb.envs.rich_lock import RichLockGame
from contrastive_ucb.evaluation.games import (
    best_responses,
    exploitability,
    game_value,
    nash,
    nash_value,
)

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])


def matrix_game(payoff: Array) -> TabularGame:
    """A matrix game is a Markov game with one state and one step."""
    return TabularGame(np.ones((1, 1, *payoff.shape, 1)), payoff[None, None])


def random_policies(game: TabularGame, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    shape = (game.horizon, game.n_states)
    row, column = (rng.dirichlet(np.full(n, 0.5), shape) for n in game.n_actions)
    return row, column


def slow_value(game: TabularGame, joint: Array) -> float:
    """The mean return by loops; joint (H, S, A1, A2)."""
    v = np.zeros(game.n_states)
    for h in reversed(range(game.horizon)):
        now = np.zeros(game.n_states)
        for s, a, b in np.ndindex(game.n_states, *game.n_actions):
            ahead = sum(game.transitions[h, s, a, b, t] * v[t] for t in range(game.n_states))
            now[s] += joint[h, s, a, b] * (game.rewards[h, s, a, b] + ahead)
        v = now
    return float(game.initial @ v)


def test_value_of_a_joint_policy_equals_loops() -> None:
    game = LowRankGame(4, (2, 3), 2, 3, seed=1)
    row, column = random_policies(game, 0)
    joint = row[..., :, None] * column[..., None, :]
    assert game_value(game, row, column) == pytest.approx(slow_value(game, joint))
    correlated = np.random.default_rng(1).dirichlet(np.ones(6), (3, 4)).reshape(3, 4, 2, 3)
    assert game_value(game, correlated) == pytest.approx(slow_value(game, correlated))


def test_best_responses_equal_all_pure_policies_tried_one_by_one() -> None:
    game = LowRankGame(2, (2, 2), 2, 2, seed=3)
    row, column = random_policies(game, 2)
    pure = [np.eye(2)[np.reshape(c, (2, 2))] for c in itertools.product((0, 1), repeat=4)]
    above, below = best_responses(game, row, column)
    assert above == pytest.approx(max(game_value(game, reply, column) for reply in pure))
    assert below == pytest.approx(min(game_value(game, row, reply) for reply in pure))


@pytest.mark.parametrize(
    ("payoff", "value", "row"),
    [
        (ROCK_PAPER_SCISSORS, 0.0, [1 / 3, 1 / 3, 1 / 3]),
        (PENNIES, 0.0, [0.5, 0.5]),
        (np.array([[0.5, 0.2], [0.9, 0.3]]), 0.3, [0.0, 1.0]),
        (np.array([[1.0, 0.0], [0.0, 0.5]]), 1 / 3, [1 / 3, 2 / 3]),
    ],
)
def test_matrix_games_with_known_answers(payoff: Array, value: float, row: list[float]) -> None:
    found = nash(matrix_game(payoff))
    assert found.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(found.row[0, 0], row, atol=1e-9)
    assert exploitability(matrix_game(payoff), found.row, found.column) < 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 2), (4, 4)]))
def test_nash_is_a_saddle_point_and_nobody_else_has_less_exploitability(
    seed: int, n_actions: tuple[int, int]
) -> None:
    game = LowRankGame(3, n_actions, 2, 3, seed=seed)
    found = nash(game)
    assert game_value(game, found.row, found.column) == pytest.approx(found.value, abs=1e-6)
    assert -1e-12 <= exploitability(game, found.row, found.column) < 1e-6
    others = random_policies(game, seed)
    above, below = best_responses(game, *others)
    assert below - 1e-6 <= found.value <= above + 1e-6
    assert exploitability(game, *others) >= -1e-12


def test_a_vault_in_observations_was_said_to_be_no_game() -> None:
    vault: Any = RichLockGame(3, 2)
    tables = np.full((3, 4, 2), 0.5), np.full((3, 4, 2), 0.5)
    for ask in (
        lambda: exploitability(vault, *tables),
        lambda: best_responses(vault, *tables),
        lambda: game_value(vault, np.full((3, 4, 2, 2), 0.25)),
        lambda: nash_value(vault),
    ):
        with pytest.raises(ValueError, match=r"is seen through observations.*result\.gap"):
            ask()


def test_an_mdp_is_no_game() -> None:
    with pytest.raises(ValueError, match="LowRankMDP is not a game of two players"):
        nash_value(LowRankMDP())  # type: ignore[arg-type]


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_the_vault_is_worth_a_half(horizon: int) -> None:
    assert nash_value(LockGame(horizon, 3, n_dead=3)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        (np.ones((3, 4, 3)) / 3, np.ones((3, 4, 3)) / 3, "row policy has shape"),
        (np.ones((3, 4, 2)) / 2, np.ones((3, 4, 3)), "column policy must be a distribution"),
        (np.full((3, 4, 2), [1.5, -0.5]), np.ones((3, 4, 3)) / 3, "row policy must be"),
    ],
)
def test_wrong_policies_are_refused(row: Array, column: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exploitability(LowRankGame(4, (2, 3), 2, 3), row, column)
