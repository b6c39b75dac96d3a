"""When updates are made."""

import pytest
from experiments.training_runs import training

from contrastive_ucb.training.deep import Trainer


def updates_by_step(rate: float, first: int, steps: int) -> list[int]:
    """How many updates were made by the end of each step."""
    task = training(steps=steps, updates_per_step=rate, first_update=first)
    trainer: Trainer = task.trainer()
    return [trainer.agent.n_updates for _ in trainer.run(steps)]


def test_two_updates_a_step() -> None:
    assert updates_by_step(2, 20, 23) == [0] * 19 + [2, 4, 6, 8]


def test_an_update_every_fourth_step() -> None:
    assert updates_by_step(0.25, 20, 28) == [0] * 22 + [1] * 4 + [2, 2]


@pytest.mark.parametrize("rate", [0.3, 1.7])
def test_fractions_add_up(rate: float) -> None:
    assert updates_by_step(rate, 21, 30)[-1] == int(rate * 10)


def test_one_and_one_point_nought_are_the_same_run() -> None:
    whole, real = (training(updates_per_step=rate).spec() for rate in (1, 1.0))
    assert whole.to_json() == real.to_json()
    assert str(whole.to_json()) == str(real.to_json())


def test_no_updates_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="updates_per_step must be positive"):
        _ = training(updates_per_step=0).config
