"""Exact evaluation of MDPs and games against loops, enumeration and known values."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Kernel, LowRankGame, LowRankMDP, TabularGame
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.evaluation.exact import (
    best_responses,
    exploitability,
    game_value,
    model_error,
    nash,
    nash_value,
    optimal_value,
    potential,
    suboptimality,
)

H, S, A = 4, 10, 3
ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])


def random_kernel(seed: int, rank: int, n: int | None = None) -> Kernel:
    rng, leading = np.random.default_rng(seed), () if n is None else (n,)
    features = rng.dirichlet(np.ones(rank), (*leading, H, S * A))
    return Kernel(features, rng.dirichlet(np.ones(S), (*leading, H, rank)))


def matrix_game(payoff: Array) -> TabularGame:
    """A matrix game as a Markov game with one state and one step."""
    return TabularGame(np.ones((1, 1, *payoff.shape, 1)), payoff[None, None])


def random_policies(game: TabularGame, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    shape = (game.horizon, game.n_states)
    row, column = (rng.dirichlet(np.full(n, 0.5), shape) for n in game.n_actions)
    return row, column


def value_by_loops(game: TabularGame, joint: Array) -> float:
    """The expected return by loops; joint (H, S, A1, A2)."""
    v = np.zeros(game.n_states)
    for h in reversed(range(game.horizon)):
        now = np.zeros(game.n_states)
        for s, a, b in np.ndindex(game.n_states, *game.n_actions):
            ahead = sum(game.transitions[h, s, a, b, t] * v[t] for t in range(game.n_states))
            now[s] += joint[h, s, a, b] * (game.rewards[h, s, a, b] + ahead)
        v = now
    return float(game.initial @ v)


# MDPs


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((H, S + 1), dtype=int), "policy has shape"),
        (np.zeros((H, S)), "policy has shape .* of float64"),
        (np.full((H, S), A), r"policy takes action 3; actions are 0\.\.2"),
        (np.full((H, S), -1), "policy takes action -1"),
        (np.full((H, S, A), 0.5), "must be a distribution"),
        (np.full((H, S, A), np.nan), "must be a distribution"),
    ],
)
def test_invalid_policies_of_mdps(policy: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        suboptimality(LowRankMDP(S, A, 3, H), policy)


# Games


def test_game_value_against_loops() -> None:
    game = LowRankGame(4, (2, 3), 2, 3, seed=1)
    row, column = random_policies(game, 0)
    joint = row[..., :, None] * column[..., None, :]
    assert game_value(game, row, column) == pytest.approx(value_by_loops(game, joint))
    correlated = np.random.default_rng(1).dirichlet(np.ones(6), (3, 4)).reshape(3, 4, 2, 3)
    assert game_value(game, correlated) == pytest.approx(value_by_loops(game, correlated))


def test_best_responses_against_all_pure_policies() -> None:
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
def test_matrix_games_with_known_equilibria(payoff: Array, value: float, row: list[float]) -> None:
    equilibrium = nash(matrix_game(payoff))
    assert equilibrium.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(equilibrium.row[0, 0], row, atol=1e-9)
    assert exploitability(matrix_game(payoff), equilibrium.row, equilibrium.column) < 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 2), (4, 4)]))
def test_nash_is_a_saddle_point(seed: int, n_actions: tuple[int, int]) -> None:
    game = LowRankGame(3, n_actions, 2, 3, seed=seed)
    row, column, value = nash(game)
    assert game_value(game, row, column) == pytest.approx(value, abs=1e-6)
    assert -1e-12 <= exploitability(game, row, column) < 1e-6
    others = random_policies(game, seed)
    above, below = best_responses(game, *others)
    assert below - 1e-6 <= value <= above + 1e-6
    assert exploitability(game, *others) >= -1e-12


# Data distributions and model errors


@pytest.mark.parametrize("chunk", [1, 7 * H * S, 1 << 18])
def test_model_error_by_enumeration(chunk: int) -> None:
    true, learned = random_kernel(0, 3), random_kernel(1, 2)
    weights = np.random.default_rng(2).random((H, S * A))
    expected = np.zeros(H)
    for h, z in np.ndindex(H, S * A):
        distance = sum(abs(true.table()[h, z, t] - learned.table()[h, z, t]) for t in range(S))
        expected[h] += weights[h, z] * distance**2
    np.testing.assert_allclose(model_error(true, learned, weights, chunk), expected, rtol=1e-12)
    dense = Kernel(true.table())
    np.testing.assert_allclose(model_error(dense, learned, weights, chunk), expected, rtol=1e-12)
    np.testing.assert_allclose(model_error(dense, true, weights, chunk), 0, atol=1e-25)


# Elliptical potential


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 5), ridge=st.floats(0.4, 10))
def test_potential_lemma(seed: int, d: int, ridge: float) -> None:
    phi = np.random.default_rng(seed).normal(size=(30, 2, d))
    phi /= np.maximum(np.linalg.norm(phi, axis=-1, keepdims=True), 1)
    gains = phi[..., :, None] * phi[..., None, :]
    spent, allowed = potential(gains, ridge)
    assert spent.shape == allowed.shape == (2,)
    assert (spent <= allowed + 1e-12).all()
    sigma, total = ridge * np.eye(d), 0.0
    for gain in gains[:, 0]:
        total += np.trace(gain @ np.linalg.inv(sigma))
        sigma = sigma + gain
    assert spent[0] == pytest.approx(total)
    assert allowed[0] == pytest.approx(2 * np.log(np.linalg.det(sigma) / ridge**d))


# Environments of the wrong kind


def test_environments_with_observations_have_no_tables() -> None:
    """Regression: the error called them neither MDP nor game."""
    actions, row = np.zeros((3, 2), dtype=int), np.full((3, 4, 2), 0.5)
    envs: list[Any] = [RichLock(3, 2), GymObserved("CartPole-v1", 3), RichLockGame(3, 2)]
    for env in envs:
        for call, policies in (
            (optimal_value, ()),
            (suboptimality, (actions,)),
            (best_responses, (row, row)),
            (game_value, (np.full((3, 4, 2, 2), 0.25),)),
        ):
            with pytest.raises(ValueError, match=r"has observations.*result\.gap"):
                call(env, *policies)  # type: ignore[operator]


def test_mdps_and_games_are_not_interchangeable() -> None:
    with pytest.raises(ValueError, match=r"LowRankGame is not an MDP; .*nash_value"):
        optimal_value(LowRankGame())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"LowRankMDP is not a game .*optimal_value"):
        nash_value(LowRankMDP())  # type: ignore[arg-type]
