"""Atari 100K: the published numbers of the paper's table and figures, and own runs of the 26 games.

The best two published methods are bold in each row, as in the paper. A number of own runs is bold
if it would be among the best two published ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.load import COLUMNS
from contrastive_ucb.report.scores import (
    AGGREGATES,
    aggregate,
    commands_of,
    finished,
    load_scores,
    missing_runs,
    on_shared_tasks,
    runs_text,
    score_runs,
    scores_by_agent,
    sorted_gaps,
    with_settings,
)
from contrastive_ucb.report.tables import NOTHING, episodes_of
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.published import atari100k, game_of, printed_aggregates

PAPER = ("CURL", "OTR", "DER", "SimPLe", "DrQ", "DrQ(eps)", "SPR", "SPR-UCB")  # its column order
OURS, BASE = "SPR-UCB", "SPR"
STEPS = 100_000
EPISODES = 100  # of the published evaluations
RELEASED = {"bonus.preset": "reference", "bonus.scale": 0.0}  # SPR as in the released code
LEVEL = 0.05  # of Welch's tests
DIGITS = 4  # of the table, as in the paper
MIN_DEVIATION = 0.005  # smaller deviations are printed as 0.00


# --- Own runs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnRuns:
    """The runs of Atari 100K in a folder: finished runs, missing runs, problems of damaged ones."""

    runs: pd.DataFrame
    missing: pd.DataFrame
    problems: Sequence[str] = ()

    @cached_property
    def scores(self) -> list[Scores]:
        return scores_by_agent(self.runs)

    @property
    def complete(self) -> list[Scores]:
        """The agents with runs of all 26 games, which figures show next to published numbers."""
        return [one for one in self.scores if one.tasks == atari100k().games]

    @property
    def shared(self) -> list[Scores]:
        return on_shared_tasks(self.scores) if self.scores else []


def own_runs(root: Path | None) -> OwnRuns:
    """The runs of the 26 games below `root`, and those that are missing."""
    if root is None:
        nothing = score_runs(pd.DataFrame(columns=list(COLUMNS)))
        return OwnRuns(nothing, missing_runs(nothing))
    loaded = load_scores(root)
    games = as_games(loaded.runs.dropna(subset=["identity"]))
    names = games.drop_duplicates("identity")[["identity", "task_name", "agent_name"]]
    gaps = missing_runs(loaded.runs).drop(columns=["task_name", "agent_name"])
    gaps = gaps.merge(names, on="identity")
    others = [row for row in _missing_games(games) if row["identity"] not in set(gaps["identity"])]
    if others:
        gaps = pd.concat([gaps, pd.DataFrame(others)], ignore_index=True)
    return OwnRuns(finished(games), sorted_gaps(gaps), loaded.problems)


def as_games(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the 26 games under the names of the games.

    SPR-UCB is named with its bonus, and runs of another length than Atari 100K with their steps.
    """
    games = runs.assign(task_name=runs["task"].map(game_of)).dropna(subset=["task_name"])
    games["agent_name"] = [_agent_name(row) for row in games.to_dict("records")]
    for (agent, game), group in games.groupby(["agent_name", "task_name"]):
        if group["identity"].nunique() > 1:
            folders = ", ".join(group["group"].drop_duplicates())
            raise UserError(
                f"{agent} has several settings of {game} ({folders}); move one of these folders"
                " elsewhere"
            )
    return games


def _agent_name(run: Mapping[str, Any]) -> str:
    """The name of the agent, with its bonus if it has one; labels of a sweep are kept."""
    name, inputs = run["agent_name"], run["inputs"]
    is_labeled = isinstance(run["label"], str) and run["label"] != run["agent"]
    if not is_labeled and isinstance(inputs, Mapping):
        settings = dict(inputs.get("settings") or {})
        if run["agent"] == "spr-ucb":
            name = with_settings(f"SPR-UCB ({settings.pop('bonus.preset', 'paper')})", settings)
        elif run["agent"] == "spr" and settings.items() >= RELEASED.items():
            others = {key: value for key, value in settings.items() if key not in RELEASED}
            name = with_settings("SPR (released code)", others)
    steps = run["config"].get("steps", STEPS)
    return name if steps == STEPS else f"{name} ({steps:,} steps)"


def _missing_games(games: pd.DataFrame) -> list[dict[str, Any]]:
    """The games that an agent has no runs of, although it has runs of others."""
    gaps = []
    for agent in sorted(games.loc[games["status"] != "planned", "agent_name"].unique()):
        own = games[games["agent_name"] == agent]
        first, seeds = own.iloc[0].to_dict(), tuple(sorted(set(own["seed"])))
        for game in sorted(set(atari100k().games) - set(own["task_name"])):
            config = {**first["config"], "env": game}
            spec = RunSpec(first["suite"], first["agent"], game, 0, config)
            run = {**first, "words": None}
            if isinstance(first["inputs"], dict):
                run["inputs"] = {**first["inputs"], "env": game}
            gap = {"task_name": game, "agent_name": agent, "seeds": seeds}
            gaps.append({**gap, "identity": spec.identity(), "commands": commands_of(run, seeds)})
    return gaps


def other_episodes(runs: pd.DataFrame) -> list[str]:
    """The groups of runs that were evaluated with another number of episodes, with this number."""
    return [
        f"{agent} on {task} ({', '.join(map(str, counts)) or NOTHING})"
        for (task, agent), group in runs.groupby(["task_name", "agent_name"], sort=False)
        if (counts := episodes_of(group)) != [EPISODES]
    ]


# --- Published numbers ----------------------------------------------------------------------------


def games_table(own: Sequence[Scores]) -> pd.DataFrame:
    """Games x methods, with the average over games as the last row."""
    methods, games = atari100k().methods, atari100k().games
    published = np.array([_with_average(methods[name].scores) for name in PAPER]).round(DIGITS)
    threshold = np.sort(published, axis=0)[-2]  # of the best two
    columns: dict[str, list[str]] = {"game": [*games, "Average"]}
    for name in PAPER:
        method = methods[name]
        spread = np.full(len(games), np.nan) if method.deviations is None else method.deviations
        # The published scores of SPR-UCB come from the released code, preset `reference`.
        title = f"{name} (released code)" if name == OURS else name
        cells = _cells(_with_average(method.scores), _with_average(spread), threshold)
        columns[f"{title}, {method.n_runs} runs"] = cells
    for one in own:
        by_game = dict(zip(one.tasks, one.runs, strict=True))
        runs = [by_game.get(game, np.empty(0)) for game in games]
        means = np.array([scores.mean() if scores.size else np.nan for scores in runs])
        spread = np.array([scores.std(ddof=1) if scores.size > 1 else np.nan for scores in runs])
        cells = _cells(_with_average(means), _with_average(spread), threshold)
        count = runs_text(one)
        if "to" in count:  # a number of runs per game
            cells = [
                f"{cell} ({scores.size})" if scores.size else cell
                for cell, scores in zip(cells, [*runs, np.empty(0)], strict=True)
            ]
        columns[f"{one.name} (run here), {count} run{'s' * (count != '1')}"] = cells
    return pd.DataFrame(columns)


def _with_average(values: Array) -> Array:
    return np.append(values, values.mean())


def _cells(means: Array, deviations: Array, threshold: Array) -> list[str]:
    cells = []
    for value, deviation, limit in zip(means, deviations, threshold, strict=True):
        text = f"**{value:.{DIGITS}f}**" if round(value, DIGITS) >= limit else f"{value:.{DIGITS}f}"
        text += "" if isnan(deviation) else f" ± {deviation:.2f}"
        cells.append(NOTHING if isnan(value) else text)
    return cells


def welch_tests() -> tuple[pd.DataFrame, list[str]]:
    """Welch's test of SPR-UCB against SPR per game, smallest p first, and the untestable games."""
    from scipy.stats import ttest_ind_from_stats  # slow to import

    left, right = (atari100k().methods[name] for name in (OURS, BASE))
    assert left.deviations is not None
    assert right.deviations is not None
    games = pd.DataFrame({
        "game": atari100k().games,
        "ours": left.scores,
        "ours_deviation": left.deviations,
        "base": right.scores,
        "base_deviation": right.deviations,
    })  # fmt: skip
    can_test = games[["ours_deviation", "base_deviation"]].min(axis="columns") >= MIN_DEVIATION
    tests = games[can_test]
    ours = tests["ours"], tests["ours_deviation"], left.n_runs
    base = tests["base"], tests["base_deviation"], right.n_runs
    found = ttest_ind_from_stats(*ours, *base, equal_var=False)
    tests = tests.assign(
        difference=tests["ours"] - tests["base"], t=found.statistic, p=found.pvalue
    )
    return tests.sort_values("p").reset_index(drop=True), list(games.loc[~can_test, "game"])


def significance() -> dict[str, Any]:
    """The published difference between SPR-UCB and SPR, and the games with a significant one."""
    tests, untested = welch_tests()
    found = tests[tests["p"] < LEVEL]
    limits = LEVEL / (len(tests) - np.arange(len(tests)))  # Holm's correction
    n_kept = int(np.cumprod(tests["p"].to_numpy() <= limits).sum())
    cells = {
        "game": found["game"],
        **{
            f"{name} ({runs_of(name)} runs)": [
                f"{mean:.4f} ± {deviation:.2f}"
                for mean, deviation in found[[column, f"{column}_deviation"]].to_numpy()
            ]
            for name, column in ((OURS, "ours"), (BASE, "base"))
        },
        "difference": [f"{value:+.4f}" for value in found["difference"]],
        "t": [f"{value:.2f}" for value in found["t"]],
        "p": [f"{value:.1e}" if value < 0.001 else f"{value:.3f}" for value in found["p"]],
    }
    return {
        "table": pd.DataFrame(cells),
        "n_tests": len(tests),
        "better": int((found["difference"] > 0).sum()),
        "kept": list(tests["game"][:n_kept]),
        "untested": untested,
        "level": LEVEL,
        "means": {name: (runs_of(name), float(method.scores.mean()))
                  for name, method in atari100k().methods.items() if method.n_runs},
        "printed": next(e for e in printed_aggregates()
                        if (e.method, e.runs, e.statistic) == (BASE, "10", "mean") and e.low),
    }  # fmt: skip


def published_aggregates() -> pd.DataFrame:
    """The printed aggregates of the eight methods, 10 runs per game, and of all runs of SPR."""
    rows: list[tuple[Any, ...]] = []
    for name in PAPER:
        for e in printed_aggregates():
            if (e.method, e.runs) == (name, "10"):
                runs = str(min(10, runs_of(name)))
                rows.append((name, False, runs, e.statistic, e.estimate, e.low, e.high))
            elif (name, e.runs) == (BASE, "all") and e.low is not None:
                own = (f"{e.method}, all runs", False, str(runs_of(e.method)))
                rows.append((*own, e.statistic, e.estimate, e.low, e.high))
    return pd.DataFrame(rows, columns=AGGREGATES).astype({"low": float, "high": float})


def published_means(games: Sequence[str] | None = None) -> pd.DataFrame:
    """Mean and median of the paper's table over some or all games."""
    table = atari100k()
    at = [table.games.index(game) for game in (table.games if games is None else games)]
    rows = []
    for name in PAPER:
        scores = table.methods[name].scores[at]
        for statistic, value in (("mean", scores.mean()), ("median", np.median(scores))):
            rows.append((name, False, str(runs_of(name)), statistic, float(value), None, None))
    return pd.DataFrame(rows, columns=AGGREGATES).astype({"low": float, "high": float})


def aggregates_of(what: str, own: OwnRuns) -> pd.DataFrame:
    """The numbers of "figure-mean" or "figure-aggregates"."""
    here = aggregate(own.complete)
    if what == "figure-aggregates":
        return pd.concat([published_aggregates(), here], ignore_index=True)
    means = pd.concat([published_means(), here], ignore_index=True)
    return means[means["statistic"] == "mean"].reset_index(drop=True)


def sources() -> dict[str, Any]:
    """The numbers of runs that the published scores come from."""
    printed = {e.method for e in printed_aggregates() if e.runs == "10" and e.low is not None}
    others = [name for name in PAPER if name != OURS]
    counts = sorted({runs_of(name) for name in others}, reverse=True)
    return {
        "ours": runs_of(OURS),
        "others": {count: [n for n in others if runs_of(n) == count] for count in counts},
        "printed": [name for name in PAPER if name in printed],
    }


def runs_of(name: str) -> int:
    """The number of runs per game of a published method."""
    count = atari100k().methods[name].n_runs
    if count is None:
        raise ValueError(f"the number of runs of {name} was not published")
    return count
