"""How much memory a whole Atari 100K takes."""

import pytest

from contrastive_ucb.agents.deep.presets import BONUSES
from contrastive_ucb.experiments.train import Training

LIMIT = 900e6  # bytes


@pytest.mark.parametrize("preset", BONUSES)
def test_100k_steps_of_atari_fit(preset: str) -> None:
    replay = Training("Pong", "spr-ucb", {"bonus.preset": preset}).rainbow_trainer().replay
    history = replay.history
    arrays = [history.frame, history.time_of, *history.field.values(), *replay.extras.values()]
    taken = sum(array.nbytes for array in arrays) + replay.tree.node.nbytes
    assert history.capacity == 100_000
    assert 84 * 84 * 100_000 < taken < LIMIT
