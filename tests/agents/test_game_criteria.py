"""Criteria of Contrastive ULCB: bounds hold, the gap decreases, and the lock game is solved.

The slow tests are the settings of the paper-sized claims, ten seeds each with a game of its own.
"""

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.envs import LockGame, LowRankGame
from contrastive_ucb.runs.session import Session

SEEDS = list(range(10))


def low_rank(n_actions: int, seeds: list[int]) -> ContrastiveULCB:
    games = [LowRankGame(6, n_actions, 3, 3, seed=seed) for seed in seeds]
    return ContrastiveULCB(games, seed=seeds)


def check_low_rank(agent: ContrastiveULCB, early: int, late: int, part: float) -> None:
    """Bounds and iota_k hold in every round of every seed; the average gap decreases."""
    session = Session(agent)
    averages = {}
    for played in session.rounds(late):
        assert (played.figures["cce_gap"] <= 0.1 / np.sqrt(played.number) + 1e-12).all()
        averages[played.number] = played.figures["average_gap"].mean()
    assert (session.tracker.bracketed == late).all()  # type: ignore[attr-defined]
    assert averages[late] <= part * averages[early]


@pytest.mark.parametrize("n_actions", [2, 3])
def test_bounds_hold_and_the_gap_falls(n_actions: int) -> None:
    check_low_rank(low_rank(n_actions, [0, 1, 2]), 50, 800, 0.8)


@pytest.mark.slow
@pytest.mark.parametrize("n_actions", [2, 3])
def test_bounds_hold_in_5000_rounds_and_the_gap_halves(n_actions: int) -> None:
    check_low_rank(low_rank(n_actions, SEEDS), 500, 5000, 0.5)


def n_solved(algo: str, horizon: int, rounds: int, seeds: list[int]) -> int:
    games = [LockGame(horizon, seed=seed) for seed in seeds]
    session = Session(ContrastiveULCB(games, seed=seeds, algo=algo))
    for _ in session.rounds(rounds):
        if session.tracker.solved_at.all():
            break
    return int((session.tracker.solved_at > 0).sum())


@pytest.mark.slow
def test_contrastive_ulcb_solves_the_lock_game_within_1500_rounds() -> None:
    assert n_solved("contrastive-ulcb", 5, 1500, SEEDS) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["no-bonus", "uniform"])
def test_controls_do_not_solve_the_lock_game(algo: str) -> None:
    assert n_solved(algo, 5, 1500, SEEDS) == 0
