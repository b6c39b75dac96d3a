"""Published scores of Atari 100K and human-normalized scores, from the data files of this package.

The published scores are means over runs. Statistics that need single runs (IQM, optimality gap,
intervals) cannot be computed from them; `printed_aggregates` returns them as published.

A human-normalized score is 0 for random play and 1 for a human player (l.460 of the paper). It is
defined for the 26 games of Atari 100K, which have published scores of both.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari import ATARI_100K, name_key
from contrastive_ucb.stats.aggregate import human_normalised

Source = Literal["paper", "released", "later"]


@dataclass(frozen=True)
class Method:
    """The published scores of one method on the games of `Atari100K.games`."""

    name: str
    source: Source  # the table of the paper, released runs of its baselines, or a later method
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


@dataclass(frozen=True)
class Aggregate:
    """One published statistic over all games, with its 95% interval if published."""

    method: str
    runs: str  # "10" or "all"
    statistic: str  # median, iqm, mean or optimality_gap
    estimate: float
    low: float | None
    high: float | None


# name, source, runs per game, column; columns with "_raw" hold raw scores
_COLUMNS: tuple[tuple[str, Source, int | None, str], ...] = (
    ("SimPLe", "paper", 5, "SimPLe_hns_tab"),
    ("OTR", "paper", 100, "OTR_hns_tab"),
    ("DER", "paper", 100, "DER_hns_tab"),
    ("CURL", "paper", 100, "CURL_hns_tab"),
    ("DrQ", "paper", 100, "DrQ_hns_tab"),
    ("DrQ(eps)", "paper", 100, "DrQ_eps_hns_tab"),
    ("SPR", "paper", 100, "SPR_hns_tab"),
    ("SPR-UCB", "paper", 10, "SPRUCB_hns_tab"),
    ("SPR (all runs)", "released", 100, "SPR_raw100"),
    ("SPR (first 10 runs)", "released", 10, "SPR_raw_first10"),
    ("EfficientZero", "later", None, "EfficientZero_raw"),
    ("IRIS", "later", 5, "IRIS_raw5"),
    ("DIAMOND", "later", 5, "DIAMOND_raw5"),
    ("STORM", "later", 5, "STORM_raw5"),
    ("BBF (replay ratio 2)", "later", None, "BBF_RR2_raw"),
    ("BBF (replay ratio 8)", "later", None, "BBF_RR8_raw"),
)
_GAMES = {name_key(game): game for game in ATARI_100K}


@lru_cache
def atari100k() -> Atari100K:
    """The published scores; the arrays are shared and read-only."""
    rows = _rows("atari100k_published.csv")
    random, human = _column(rows, "random"), _column(rows, "human")
    methods = {}
    for name, source, n_runs, column in _COLUMNS:
        scores = _column(rows, column)
        if "_raw" in column:
            scores = _fixed(human_normalised(scores, random, human))
        deviation = column.replace("_hns", "_sd_hns")
        is_published = deviation != column and deviation in rows[0]
        deviations = _column(rows, deviation) if is_published else None
        methods[name] = Method(name, source, n_runs, scores, deviations)
    games = tuple(row["game"] for row in rows)
    return Atari100K(games, random, human, MappingProxyType(methods))


@lru_cache
def printed_aggregates() -> tuple[Aggregate, ...]:
    """The aggregates as published."""
    return tuple(
        Aggregate(
            row["method"],
            row["runs"],
            row["statistic"],
            float(row["estimate"]),
            float(row["low"]) if row["low"] else None,
            float(row["high"]) if row["high"] else None,
        )
        for row in _rows("atari100k_aggregates.csv")
    )


def game_of(name: str) -> str | None:
    """The Atari 100K game of a name such as "ALE/Pong-v5" or "road_runner"; None for others."""
    return _GAMES.get(name_key(name))


def normalise(name: str, score: ArrayLike) -> Array:
    """Human-normalized scores of the raw scores of a game, which may have any spelling."""
    game = game_of(name)
    if game is None:
        near = get_close_matches(name_key(name), _GAMES, n=1)
        hint = f"did you mean {_GAMES[near[0]]!r}?" if near else "use its raw scores"
        raise UserError(f"{name!r} is none of the 26 games of Atari 100K; {hint}")
    table = atari100k()
    at = table.games.index(game)
    return human_normalised(score, table.random[at], table.human[at])


def _rows(name: str) -> list[dict[str, str]]:
    lines = files("contrastive_ucb.stats").joinpath(name).read_text("utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _column(rows: list[dict[str, str]], name: str) -> Array:
    return _fixed(np.array([float(row[name]) for row in rows]))


def _fixed(values: Array) -> Array:
    values.flags.writeable = False
    return values
