"""The constants of the theorem, copied again from the paper (l.219)."""

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.tabular_model import TabularModel
from contrastive_ucb.bonus.schedule import PracticalSchedule, TheorySchedule
from contrastive_ucb.envs import LowRankMDP


@pytest.mark.parametrize("k", [1, 2, 100, 100_000])
@pytest.mark.parametrize("size", [1, 16, 10_000])
@pytest.mark.parametrize("c0", [1.0, 4.0])
def test_theory_schedule_is_the_theorem(k: int, size: int, c0: float) -> None:
    n_steps, n_actions, d, floor, delta = 6, 5, 3, 0.04, 0.1
    got = TheorySchedule(n_steps, n_actions, d, floor, float(np.log(size)), delta, c0)(k)
    gamma = 4 * n_steps * (12 * np.sqrt(n_actions * d) + np.sqrt(c0) * d) / floor
    gamma *= np.sqrt(np.log(2 * n_steps * k * size / delta))
    assert got.scale == pytest.approx(gamma, rel=1e-12)
    assert got.ridge == pytest.approx(c0 * d * np.log(n_steps * size * k / delta), rel=1e-12)


def test_practical_schedule_is_the_same_every_round() -> None:
    schedule = PracticalSchedule(horizon=6, alpha=0.4, ridge=2.0)
    assert schedule(1) == schedule(10_000) == (pytest.approx(2.4), 2.0)


def schedule_of(agent: ContrastiveUCB) -> object:
    assert isinstance(agent.model, TabularModel)
    return agent.model.schedule


def test_agent_takes_the_theorems_numbers_from_its_mdp_and_class() -> None:
    agent = ContrastiveUCB(
        LowRankMDP(5, 2, 3, 4), schedule="theory", function_class="finite", class_size=8, tilt=1.0
    )
    floor = float(agent.negatives.min())
    assert floor < 1 / 5
    assert schedule_of(agent) == TheorySchedule(4, 2, 3, floor, float(np.log(8)), 0.05, 1.0)
    infinite = schedule_of(ContrastiveUCB(LowRankMDP(5, 2, 3, 4), schedule="theory"))
    assert isinstance(infinite, TheorySchedule)
    assert infinite.log_class_size == 3 * (10 + 5)  # one e a parameter
