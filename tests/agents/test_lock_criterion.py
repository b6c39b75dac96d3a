"""Hard exploration: Contrastive UCB solves the tasks with nearly every seed, the controls do not.

Ten seeds, each with its own lock, as one batch. `solved_at` is exact: five rounds in a row whose
greedy policy earns at least 95% of V*.
"""

import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.envs import DeepSea, Lock
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.runs.session import Session

SEEDS = list(range(10))


def n_solved(envs: list[TabularMDP], algo: str, negatives: str, rounds: int) -> int:
    """The number of seeds that solve the task within `rounds` rounds."""
    agent = ContrastiveUCB(envs, seed=SEEDS, algo=algo, negatives=negatives)
    session = Session(agent)
    for _ in session.rounds(rounds):
        if session.tracker.solved_at.all():
            break
    return int((session.tracker.solved_at > 0).sum())


def locks() -> list[TabularMDP]:
    return [Lock(horizon=6, n_actions=5, n_dead=20, seed=seed) for seed in SEEDS]


@pytest.mark.slow
def test_contrastive_ucb_solves_the_lock_within_800_rounds_with_exact_negatives() -> None:
    assert n_solved(locks(), "contrastive-ucb", "exact", 800) >= 9


@pytest.mark.slow
def test_contrastive_ucb_solves_the_lock_within_5000_rounds_with_the_papers_sampler() -> None:
    assert n_solved(locks(), "contrastive-ucb", "sampled", 5000) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["no-bonus", "epsilon-greedy", "uniform"])
def test_controls_do_not_solve_the_lock_with_exact_negatives(algo: str) -> None:
    assert n_solved(locks(), algo, "exact", 800) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["no-bonus", "epsilon-greedy", "uniform"])
def test_controls_do_not_solve_the_lock_with_the_papers_sampler(algo: str) -> None:
    assert n_solved(locks(), algo, "sampled", 5000) <= 1


@pytest.mark.slow
def test_contrastive_ucb_solves_deepsea_within_2000_rounds_with_exact_negatives() -> None:
    envs: list[TabularMDP] = [DeepSea(10, seed=seed) for seed in SEEDS]
    assert n_solved(envs, "contrastive-ucb", "exact", 2000) >= 9
