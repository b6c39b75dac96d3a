"""Criteria of both algorithms: bounds hold, gaps decrease, and hard exploration tasks are solved.

The slow tests are the settings of the paper-sized claims, ten seeds in one batch, each with its own
environment. `solved_at` is exact: five rounds in a row within the limit of the environment.
"""

from typing import Any

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.envs import Lock, LockGame, LowRankGame
from contrastive_ucb.runs.session import Session

SEEDS = list(range(10))
CONTROLS = ["no-bonus", "epsilon-greedy", "uniform"]


@pytest.mark.parametrize("n_actions", [2, 3])
def test_bounds_hold_and_the_gap_falls(n_actions: int) -> None:
    """Bounds and iota_k hold in every round of every seed; the average gap decreases."""
    games = [LowRankGame(6, n_actions, 3, 3, seed=seed) for seed in range(3)]
    session, averages = Session(ContrastiveULCB(games, seed=[0, 1, 2])), {}
    for played in session.rounds(800):
        assert (played.figures["cce_gap"] <= 0.1 / np.sqrt(played.step) + 1e-12).all()
        averages[played.step] = played.figures["average_gap"].mean()
    assert (session.tracker.bracketed == 800).all()  # type: ignore[attr-defined]
    assert averages[800] <= 0.8 * averages[50]


def n_solved(agent: Any, rounds: int) -> int:
    """The number of seeds that solve the task within `rounds` rounds."""
    session = Session(agent)
    for _ in session.rounds(rounds):
        if session.tracker.solved_at.all():
            break
    return int((session.tracker.solved_at > 0).sum())


def locks(algo: str, negatives: str) -> ContrastiveUCB:
    envs = [Lock(horizon=6, n_actions=5, n_dead=20, seed=seed) for seed in SEEDS]
    return ContrastiveUCB(envs, seed=SEEDS, algo=algo, negatives=negatives)


@pytest.mark.slow
@pytest.mark.parametrize(("negatives", "rounds"), [("exact", 800), ("sampled", 5000)])
def test_contrastive_ucb_solves_the_lock_and_the_controls_do_not(
    negatives: str, rounds: int
) -> None:
    assert n_solved(locks("contrastive-ucb", negatives), rounds) >= 9
    for algo in CONTROLS:
        assert n_solved(locks(algo, negatives), rounds) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["contrastive-ulcb", "no-bonus", "uniform"])
def test_only_contrastive_ulcb_solves_the_lock_game_within_1500_rounds(algo: str) -> None:
    games = [LockGame(5, seed=seed) for seed in SEEDS]
    solved = n_solved(ContrastiveULCB(games, seed=SEEDS, algo=algo), 1500)
    assert solved >= 9 if algo == "contrastive-ulcb" else solved == 0
