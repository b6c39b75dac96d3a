"""The published scores of Atari 100K, from the data files beside this module.

They are means over runs, so what needs single runs (IQM, optimality gap, intervals) cannot be
computed from them; `printed_aggregates` holds those as they were published.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.stats.aggregate import human_normalised

Source = Literal["paper", "released", "later"]


@dataclass(frozen=True)
class Method:
    """The published scores of one method on the games of `Atari100K.games`."""

    name: str
    source: (
        Source  # the paper's table, runs released for its baselines, or a method that came later
    )
    n_runs: int | None  # runs a game; None where it was not said
    scores: Array  # (games,) human-normalised, mean over runs
    deviations: Array | None  # (games,) standard deviation over runs, where it was printed


@dataclass(frozen=True)
class Atari100K:
    """The 26 games, their raw scores of random and human play, and what methods reached."""

    games: tuple[str, ...]
    random: Array  # (games,)
    human: Array  # (games,)
    methods: Mapping[str, Method]  # by name


@dataclass(frozen=True)
class Aggregate:
    """One published number over all games, with its 95% interval where one was given."""

    method: str
    runs: str  # "10" or "all"
    statistic: str  # median, iqm, mean or optimality_gap
    estimate: float
    low: float | None
    high: float | None


# name, source, runs a game, column; the column says whether scores are raw.
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


@lru_cache
def atari100k() -> Atari100K:
    """The published scores; the arrays cannot be written to, since everyone gets the same."""
    rows = _rows("atari100k_published.csv")
    random, human = _column(rows, "random"), _column(rows, "human")
    methods = {}
    for name, source, n_runs, column in _COLUMNS:
        scores = _column(rows, column)
        if "_raw" in column:
            scores = _fixed(human_normalised(scores, random, human))
        spread = column.replace("_hns", "_sd_hns")
        deviations = _column(rows, spread) if spread != column and spread in rows[0] else None
        methods[name] = Method(name, source, n_runs, scores, deviations)
    games = tuple(row["game"] for row in rows)
    return Atari100K(games, random, human, MappingProxyType(methods))


@lru_cache
def printed_aggregates() -> tuple[Aggregate, ...]:
    """The aggregates that were published, as they were printed."""
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


def _rows(name: str) -> list[dict[str, str]]:
    lines = files("contrastive_ucb.stats").joinpath(name).read_text("utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _column(rows: list[dict[str, str]], name: str) -> Array:
    return _fixed(np.array([float(row[name]) for row in rows]))


def _fixed(values: Array) -> Array:
    values.flags.writeable = False
    return values
