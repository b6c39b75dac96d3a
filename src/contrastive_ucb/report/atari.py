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
    in_order,
    load_scores,
    missing_runs,
    on_shared_tasks,
    runs_text,
    score_runs,
    scores_by_agent,
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
    return OwnRuns(finished(games), in_order(gaps, "task_name", "agent_name"), loaded.problems)


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
    table = atari100k()
    published = [table.methods[name] for name in PAPER]
    averaged = np.array([np.append(one.scores, one.scores.mean()) for one in published])
    threshold = np.sort(averaged.round(DIGITS), axis=0)[-2]  # of the best two
    columns = {"game": [*table.games, "Average"]}
    for method in published:
        # The published scores of SPR-UCB come from the released code, preset `reference`.
        title = f"{method.name} (released code)" if method.name == OURS else method.name
        cells = _cells(method.scores, method.deviations, threshold)
        columns[f"{title}, {method.n_runs} runs"] = cells
    for one in own:
        runs = pd.DataFrame(one.matrix, columns=one.tasks).reindex(columns=table.games)
        cells = _cells(runs.mean().to_numpy(), runs.std().to_numpy(), threshold)
        count = runs_text(one)
        if "to" in count:  # a number of runs per game
            counted = zip(cells, [*runs.count(), 0], strict=True)
            cells = [f"{cell} ({n})" if n else cell for cell, n in counted]
        columns[f"{one.name} (run here), {count} run{'s' * (count != '1')}"] = cells
    return pd.DataFrame(columns)


def _cells(means: Array, deviations: Array | None, threshold: Array) -> list[str]:
    """Mean and deviation of each game, and the average over games."""
    if deviations is None:
        deviations = np.full(len(means), np.nan)
    cells = []
    for value, deviation, limit in zip(
        [*means, means.mean()], [*deviations, deviations.mean()], threshold, strict=True
    ):
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
    tests = games[can_test].assign(difference=games["ours"] - games["base"])
    ours = tests["ours"], tests["ours_deviation"], left.n_runs
    base = tests["base"], tests["base_deviation"], right.n_runs
    tests["t"], tests["p"] = ttest_ind_from_stats(*ours, *base, equal_var=False)
    return tests.sort_values("p").reset_index(drop=True), list(games.loc[~can_test, "game"])


def significance() -> dict[str, Any]:
    """The published difference between SPR-UCB and SPR, and the games with a significant one."""
    tests, untested = welch_tests()
    found = tests[tests["p"] < LEVEL]
    limits = LEVEL / (len(tests) - np.arange(len(tests)))  # Holm's correction
    n_kept = int(np.cumprod(tests["p"].to_numpy() <= limits).sum())
    cells = {"game": found["game"]}
    for name, column in ((OURS, "ours"), (BASE, "base")):
        pairs = zip(found[column], found[f"{column}_deviation"], strict=True)
        cells[f"{name} ({runs_of(name)} runs)"] = [f"{m:.4f} ± {d:.2f}" for m, d in pairs]
    cells["difference"] = found["difference"].map("{:+.4f}".format)
    cells["t"] = found["t"].map("{:.2f}".format)
    cells["p"] = [f"{value:.1e}" if value < 0.001 else f"{value:.3f}" for value in found["p"]]
    printed = printed_aggregates().set_index(["method", "runs", "statistic"])
    return {
        "table": pd.DataFrame(cells),
        "n_tests": len(tests),
        "better": int((found["difference"] > 0).sum()),
        "kept": list(tests["game"][:n_kept]),
        "untested": untested,
        "level": LEVEL,
        "means": {name: (runs_of(name), float(method.scores.mean()))
                  for name, method in atari100k().methods.items() if method.n_runs},
        "printed": printed.loc[(BASE, "10", "mean")].to_dict(),
    }  # fmt: skip


def published_aggregates() -> pd.DataFrame:
    """The printed aggregates of the eight methods, 10 runs per game, and of all runs of SPR."""
    rows = printed_aggregates()
    rows = rows[(rows["runs"] == "10") | rows["low"].notna()]
    rows = rows.sort_values("method", key=lambda names: names.map(PAPER.index), kind="stable")
    is_all, n_runs = rows["runs"] == "all", rows["method"].map(runs_of)
    return rows.assign(
        method=rows["method"].mask(is_all, rows["method"] + ", all runs"),
        here=False,
        runs=n_runs.where(is_all, n_runs.clip(upper=10)).astype(str),
    ).rename(columns={"estimate": "value"})[AGGREGATES]


def published_means(games: Sequence[str] | None = None) -> pd.DataFrame:
    """Mean and median of the paper's table over some or all games."""
    table = atari100k()
    scores = pd.DataFrame({name: table.methods[name].scores for name in PAPER}, table.games)
    scores = scores if games is None else scores.loc[list(games)]
    rows = scores.agg(["mean", "median"]).rename_axis("statistic").reset_index()
    rows = rows.melt("statistic", var_name="method")
    runs = rows["method"].map(runs_of).astype(str)
    return rows.assign(here=False, runs=runs, low=np.nan, high=np.nan)[AGGREGATES]


def aggregates_of(what: str, own: OwnRuns) -> pd.DataFrame:
    """The numbers of "figure-mean" or "figure-aggregates"."""
    here = aggregate(own.complete)
    if what == "figure-aggregates":
        return pd.concat([published_aggregates(), here], ignore_index=True)
    means = pd.concat([published_means(), here], ignore_index=True)
    return means[means["statistic"] == "mean"].reset_index(drop=True)


def sources() -> dict[str, Any]:
    """The numbers of runs that the published scores come from."""
    printed = set(printed_aggregates().query("runs == '10' and low.notna()")["method"])
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
