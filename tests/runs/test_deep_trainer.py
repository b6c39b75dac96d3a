"""When updates are made, and how much is left to chance until then."""

import pytest
from runs.training_runs import training

from contrastive_ucb.agents.deep.trainer import Trainer


def updates_by_step(rate: float, first: int, steps: int) -> list[int]:
    """How many updates were made by the end of each step."""
    task = training(steps=steps, updates_per_step=rate, first_update=first)
    trainer: Trainer = task.trainer()
    return [trainer.agent.n_updates for _ in trainer.run(steps)]


def test_two_updates_a_step() -> None:
    assert updates_by_step(2, 20, 23) == [0] * 20 + [2, 4, 6]


def test_an_update_every_fourth_step() -> None:
    assert updates_by_step(0.25, 20, 28) == [0] * 23 + [1] * 4 + [2]


@pytest.mark.parametrize("changes", [{}, {"bonus.preset": "reference"}], ids=str)
def test_updates_wait_for_something_to_draw(changes: dict[str, object]) -> None:
    """However early they are asked for; with windows it takes longer than an episode."""
    trainer: Trainer = training(steps=30, first_update=0, updates_per_step=1.0, **changes).trainer()
    made = []
    for _ in trainer.run(30):
        made.append(trainer.agent.n_updates)
        assert trainer.agent.n_updates == 0 or trainer.replay.has_some
    waited = made.count(0)
    assert 0 < waited < 30
    assert made[waited:] == list(range(1, 31 - waited))


@pytest.mark.parametrize("rate", [0.3, 1.7])
def test_fractions_add_up(rate: float) -> None:
    assert updates_by_step(rate, 20, 30)[-1] == int(rate * 10)


def test_one_and_one_point_nought_are_the_same_run() -> None:
    whole, real = (training(updates_per_step=rate).spec() for rate in (1, 1.0))
    assert whole.identity() == real.identity()
    assert str(whole.config) == str(real.config)


def test_no_updates_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="updates_per_step must be positive"):
        _ = training(updates_per_step=0).config


def epsilons(steps: int, **changes: object) -> list[float]:
    """The part of uniform actions at each step."""
    trainer: Trainer = training(**changes).trainer()
    found = []
    for trainer.n_steps in range(steps):
        found.append(trainer.epsilon())
    return found


def test_actions_are_uniform_for_exactly_the_steps_before_any_update() -> None:
    assert epsilons(8, first_update=5, epsilon=(1.0, 0.0)) == [1] * 5 + [0] * 3


def test_epsilon_falls_in_a_line() -> None:
    found = epsilons(9, first_update=2, epsilon=(1.0, 0.2), epsilon_steps=4)
    assert found == pytest.approx([1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])
