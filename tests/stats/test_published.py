"""Published scores against published aggregates, and human-normalized scores."""

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari import ATARI_100K
from contrastive_ucb.stats.aggregate import mean
from contrastive_ucb.stats.published import (
    atari100k,
    game_of,
    normalise,
    printed_aggregates,
)


def published_scores(method: str) -> Array:
    return atari100k().methods[method].scores[None]  # the mean over runs as a single run


@pytest.mark.parametrize(
    ("method", "average"),
    [
        ("CURL", 0.2615),
        ("OTR", 0.2171),
        ("DER", 0.3503),
        ("SimPLe", 0.3320),
        ("DrQ", 0.3691),
        ("DrQ(eps)", 0.4647),
        ("SPR", 0.6158),
        ("SPR-UCB", 0.6938),
    ],
)
def test_last_row_of_the_table_of_the_paper(method: str, average: float) -> None:
    assert mean(published_scores(method)) == pytest.approx(average, abs=0.0001)


def test_raw_scores_of_spr_give_the_column_of_the_paper() -> None:
    table = atari100k()
    raw = table.methods["SPR (all runs)"].scores
    rounding = 0.05 / (table.human - table.random) + 0.00005  # raw scores have one decimal
    assert (np.abs(raw - table.methods["SPR"].scores) <= 1.01 * rounding).all()
    assert mean(published_scores("SPR (all runs)")) == pytest.approx(0.616, abs=0.0005)


def test_published_tables_are_complete() -> None:
    table = atari100k()
    assert table.games == ATARI_100K == tuple(sorted(table.games))
    assert len(table.games) == 26
    assert {len(method.scores) for method in table.methods.values()} == {26}
    assert all(np.isfinite(method.scores).all() for method in table.methods.values())
    assert len(printed_aggregates()) == 7 * 5 + 2
    assert set(printed_aggregates()["method"]) <= set(table.methods)
    known = printed_aggregates().dropna()
    assert ((known["low"] < known["estimate"]) & (known["estimate"] < known["high"])).all()


# Human-normalized scores


def test_random_play_is_0_and_a_human_player_1() -> None:
    table = atari100k()
    for game, *ends in zip(table.games, table.random, table.human, strict=True):
        np.testing.assert_allclose(normalise(game, np.array(ends)), [0, 1], atol=1e-12)


@pytest.mark.parametrize(
    "name", ["RoadRunner", "road_runner", "ALE/RoadRunner-v5", "RoadRunnerNoFrameskip-v4"]
)
def test_spellings_of_a_game(name: str) -> None:
    assert game_of(name) == "RoadRunner"
    assert normalise(name, 1000.0) == normalise("RoadRunner", 1000.0)


@pytest.mark.parametrize("name", ["MinAtar/Freeway-v1", "DeepSea-8", "CartPole-v1", ""])
def test_other_tasks_have_no_human_scores(name: str) -> None:
    assert game_of(name) is None
    with pytest.raises(UserError, match="none of the 26 games"):
        normalise(name, 1.0)
