"""Human-normalised scores: 0 is random play and 1 a human, whatever a game is called."""

import numpy as np
import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari_names import ATARI_100K
from contrastive_ucb.evaluation.normalise import game_of, normalise
from contrastive_ucb.stats.published import atari100k


def test_the_published_table_has_the_26_games() -> None:
    assert atari100k().games == ATARI_100K


@pytest.mark.parametrize("game", ATARI_100K)
def test_random_play_is_0_and_a_human_1(game: str) -> None:
    table = atari100k()
    at = table.games.index(game)
    ends = np.array([table.random[at], table.human[at]])
    np.testing.assert_allclose(normalise(game, ends), [0, 1], atol=1e-12)


@pytest.mark.parametrize(
    "name", ["RoadRunner", "road_runner", "ALE/RoadRunner-v5", "RoadRunnerNoFrameskip-v4"]
)
def test_every_spelling_is_the_same_game(name: str) -> None:
    assert game_of(name) == "RoadRunner"
    assert normalise(name, 1000.0) == normalise("RoadRunner", 1000.0)


def test_a_score_by_hand() -> None:
    assert normalise("Pong", 0.0) == pytest.approx(20.7 / (14.6 + 20.7))  # random -20.7, human 14.6


def test_raw_scores_of_spr_become_the_papers_column() -> None:
    """The file has raw means with one decimal, the paper's table normalised ones with four."""
    table = atari100k()
    raw = table.methods["SPR (all runs)"].scores * (table.human - table.random) + table.random
    ours = [float(normalise(game, raw[at])) for at, game in enumerate(table.games)]
    np.testing.assert_allclose(ours, table.methods["SPR"].scores, atol=0.005)


@pytest.mark.parametrize("name", ["MinAtar/Freeway-v1", "DeepSea-8", "CartPole-v1", ""])
def test_other_tasks_have_no_such_scale(name: str) -> None:
    assert game_of(name) is None
    with pytest.raises(UserError, match="none of the 26 games"):
        normalise(name, 1.0)


def test_a_slip_of_the_keys_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'Pong'"):
        normalise("Pongg", 1.0)
