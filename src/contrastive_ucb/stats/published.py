"""Published scores of Atari 100K and human-normalized scores, from the data files of this package.

The published scores are means over runs. Statistics that need single runs (IQM, optimality gap,
intervals) cannot be computed from them; `printed_aggregates` returns them as published.

A human-normalized score is 0 for random play and 1 for a human player (l.460 of the paper). It is
defined for the 26 games of Atari 100K, which have published scores of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari import ATARI_100K, name_key


@dataclass(frozen=True)
class Method:
    """The published scores of one method on the games of `Atari100K.games`."""

    name: str
    n_runs: int | None  # per game; None if not published
    scores: Array  # (games,) human-normalized, mean over runs
    deviations: Array | None  # (games,) standard deviation over runs, if published


@dataclass(frozen=True)
class Atari100K:
    """The 26 games, raw scores of random and human play, and the scores of published methods."""

    games: tuple[str, ...]
    random: Array  # (games,)
    human: Array  # (games,)
    methods: Mapping[str, Method]  # by name


# name, runs per game, column; columns with "_raw" hold raw scores
_COLUMNS: tuple[tuple[str, int | None, str], ...] = (
    ("SimPLe", 5, "SimPLe_hns_tab"),
    ("OTR", 100, "OTR_hns_tab"),
    ("DER", 100, "DER_hns_tab"),
    ("CURL", 100, "CURL_hns_tab"),
    ("DrQ", 100, "DrQ_hns_tab"),
    ("DrQ(eps)", 100, "DrQ_eps_hns_tab"),
    ("SPR", 100, "SPR_hns_tab"),
    ("SPR-UCB", 10, "SPRUCB_hns_tab"),
    # Released runs of the baselines, and later methods.
    ("SPR (all runs)", 100, "SPR_raw100"),
    ("SPR (first 10 runs)", 10, "SPR_raw_first10"),
    ("EfficientZero", None, "EfficientZero_raw"),
    ("IRIS", 5, "IRIS_raw5"),
    ("DIAMOND", 5, "DIAMOND_raw5"),
    ("STORM", 5, "STORM_raw5"),
    ("BBF (replay ratio 2)", None, "BBF_RR2_raw"),
    ("BBF (replay ratio 8)", None, "BBF_RR8_raw"),
)
_GAMES = {name_key(game): game for game in ATARI_100K}


@lru_cache
def atari100k() -> Atari100K:
    """The published scores. The arrays are shared; do not change them."""
    table = _read("atari100k_published.csv").set_index("game").astype(float)
    random, human = table["random"].to_numpy(), table["human"].to_numpy()
    methods = {}
    for name, n_runs, column in _COLUMNS:
        scores, deviations = table[column].to_numpy(), column.replace("_hns", "_sd_hns")
        if "_raw" in column:
            scores = human_normalised(scores, random, human)
        has_deviations = deviations != column and deviations in table
        spread = table[deviations].to_numpy() if has_deviations else None
        methods[name] = Method(name, n_runs, scores, spread)
    return Atari100K(tuple(table.index), random, human, methods)


@lru_cache
def printed_aggregates() -> pd.DataFrame:
    """The aggregates as published: method, runs, statistic, estimate, low, high.

    runs       "10" or "all"
    statistic  median, iqm, mean or optimality_gap
    low, high  the 95% interval, NaN if it was not published
    """
    return _read("atari100k_aggregates.csv").astype(
        dict.fromkeys(("estimate", "low", "high"), float)
    )


def game_of(name: str) -> str | None:
    """The Atari 100K game of a name such as "ALE/Pong-v5" or "road_runner"; None for others."""
    return _GAMES.get(name_key(name))


def human_normalised(score: ArrayLike, random: ArrayLike, human: ArrayLike) -> Array:
    """Raw game scores on the scale on which random play is 0 and a human player is 1."""
    score, random, human = (np.asarray(array, dtype=float) for array in (score, random, human))
    return np.asarray((score - random) / (human - random))


def normalise(name: str, score: ArrayLike) -> Array:
    """Human-normalized scores of the raw scores of a game, which may have any spelling."""
    if (game := game_of(name)) is None:
        raise UserError(f"{name!r} is none of the 26 games of Atari 100K; use its raw scores")
    table = atari100k()
    at = table.games.index(game)
    return human_normalised(score, table.random[at], table.human[at])


def _read(name: str) -> pd.DataFrame:
    file = files("contrastive_ucb.stats").joinpath(name)
    with file.open(encoding="utf-8") as lines:
        return pd.read_csv(lines, comment="#", dtype=str)  # float() rounds exactly
