"""From the table of runs to scores: one number per run, aggregates over tasks, missing runs.

| runs of          | one number per run                 | compared by              |
|------------------|------------------------------------|--------------------------|
| Atari 100K       | mean score of the final weights    | human-normalized score   |
| other deep tasks | mean score of the last evaluations | the same                 |
| finite MDPs      | average regret                     | fraction of V* earned    |
| ... with no V*   | average regret (less is better)    | the same                 |
| finite games     | average gap (less is better)       | the same                 |
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.report.load import Loaded, flatten, load
from contrastive_ucb.runs.spec import command_words, commands, value_text
from contrastive_ucb.stats.aggregate import Scores, iqm, mean, median, optimality_gap
from contrastive_ucb.stats.bootstrap import (
    Interval,
    Statistic,
    improvement_interval,
    intervals,
)
from contrastive_ucb.stats.published import game_of, normalise

STATISTICS: dict[str, tuple[str, Statistic]] = {
    "median": ("median", median),
    "iqm": ("IQM", iqm),
    "mean": ("mean", mean),
    "optimality_gap": ("optimality gap", optimality_gap),
}
AGGREGATES = ["method", "here", "runs", "statistic", "value", "low", "high"]
RESAMPLES = 10_000  # of aggregates over tasks
PAIR_RESAMPLES = 2000  # of the probability of improvement
SEED_RESAMPLES = 2000  # of the mean over seeds
MAX_PAIRS = 10  # if there are more, only the first method is compared with each other one
MIN_RUNS = 3  # an interval needs at least so many runs
FEW_RUNS = 5  # an interval of fewer runs is likely to be too narrow
MAX_SETTINGS = 3  # a name lists at most so many settings; more are replaced by a hash
TASK_SETTINGS = ("env", "env_seed", "suite", "steps", "rounds")  # the others belong to the agent
RETURN = "charts/episodic_return"
BINS = 40  # of the curve of training returns; episodes end at different steps in each run
POINTS = 100  # at most, of other curves
ORDER = (*(name for name in GAME_PRESETS if name not in PRESETS), *PRESETS, *ALGORITHMS)


@dataclass(frozen=True)
class Kind:
    """A kind of task and the number that its runs are compared by."""

    name: str
    title: str
    key: str  # of the summary
    raw: str  # description of that number
    score: str  # description of the number that is compared
    curve: str  # tag of the main curve
    sign: int = 1  # -1: less is better
    goal: float | None = None  # of the optimality gap, if scores have a common scale


KINDS = {
    kind.name: kind
    for kind in (
        Kind("atari", "Atari 100K", "evaluation.mean", "mean score of the final weights",
             "human-normalized score", RETURN, goal=1.0),
        Kind("deep", "Deep agents", "evaluation.mean", "mean score of the last evaluations",
             "mean score of the last evaluations", RETURN),
        Kind("mdp", "MDPs", "average_regret", "average regret",
             "part of V* earned, on average over all rounds", "average_regret"),
        Kind("regret", "MDPs whose V* is 0 or unknown", "average_regret", "average regret",
             "average regret", "average_regret", -1),
        Kind("game", "Zero-sum games", "average_gap", "average gap", "average gap",
             "average_gap", -1),
    )
}  # fmt: skip


def load_scores(root: Path, may_be_empty: bool = False) -> Loaded:
    """The runs below a folder with their names and scores, see `load` and `score_runs`."""
    loaded = load(root, may_be_empty)
    return replace(loaded, runs=score_runs(loaded.runs))


def score_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the columns task_name, agent_name, kind, raw and score, in the order of tables.

    Settings are added to a name if two groups would have the same name otherwise. `raw` is the
    number that the run wrote and `score` the number that is compared, NaN for unfinished runs.
    """
    groups = runs.dropna(subset=["identity"]).drop_duplicates("identity")
    settings = [_settings(row) for row in groups.to_dict("records")]
    tasks = _distinct(list(groups["task"]), [""] * len(groups), [one[0] for one in settings])
    agents = _distinct(
        list(groups["label"].fillna(groups["agent"])), tasks, [one[1] for one in settings]
    )
    names = pd.DataFrame({"identity": groups["identity"], "task_name": tasks, "agent_name": agents})
    named = runs.merge(names, on="identity", how="left")
    for column in ("task", "agent"):
        named[f"{column}_name"] = named[f"{column}_name"].fillna(named[column])
    named = named.join(_numbers(finished(named)))
    return in_order(named, "task_name", "agent", "agent_name", "seed")


def _numbers(runs: pd.DataFrame) -> pd.DataFrame:
    """The kind of finished runs, their raw numbers and their scores."""
    names = ["evaluation.mean", "average_regret", "average_gap", "optimal_value"]
    evaluation, regret, gap, best = runs.reindex(columns=names).astype(float).to_numpy().T
    games = runs["task"].map(game_of)
    # One run without a V* above 0 makes the whole task raw.
    is_bare = runs["task_name"].isin(runs.loc[~(best > 0), "task_name"])
    is_deep, is_mdp = ~np.isnan(evaluation), ~np.isnan(regret)
    tests = {"atari": is_deep & games.notna(), "deep": is_deep, "regret": is_mdp & is_bare}
    kinds = np.select([*tests.values(), is_mdp], [*tests, "mdp"], "game")
    raw = np.select([is_deep, is_mdp], [evaluation, regret], gap)
    score, earned = raw.copy(), kinds == "mdp"
    score[earned] = 1 - raw[earned] / best[earned]
    for at in np.flatnonzero(kinds == "atari"):
        score[at] = normalise(games.iloc[at], raw[at])
    return pd.DataFrame({"kind": kinds, "raw": raw, "score": score}, runs.index)


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that have a score."""
    return runs[runs["status"] == "finished"]


def scores_by_agent(runs: pd.DataFrame) -> list[Scores]:
    """The scores of each agent on its tasks, from finished runs of one kind."""
    found = []
    for name in in_order(runs, "agent", "agent_name")["agent_name"].drop_duplicates():
        by_task = dict(list(runs[runs["agent_name"] == name].groupby("task_name")["score"]))
        tasks = tuple(sorted(by_task, key=natural))
        found.append(Scores(name, tasks, tuple(by_task[task].to_numpy() for task in tasks)))
    return found


def on_shared_tasks(scores: Sequence[Scores]) -> list[Scores]:
    """The same methods restricted to the tasks that all of them have; [] if there are none."""
    by_task = {one.name: dict(zip(one.tasks, one.runs, strict=True)) for one in scores}
    shared = [task for task in scores[0].tasks if all(task in runs for runs in by_task.values())]
    return [
        Scores(name, tuple(shared), tuple(runs[task] for task in shared))
        for name, runs in by_task.items()
        if shared
    ]


def comparable(scores: Sequence[Scores]) -> list[Scores]:
    """All methods on their shared tasks or, if these are fewer than 2, those with most tasks."""
    shared = on_shared_tasks(scores)
    most = max(len(one.tasks) for one in scores)
    if most < 2 or (shared and len(shared[0].tasks) > 1):
        return shared
    widest = [one for one in scores if len(one.tasks) == most]
    return on_shared_tasks([one for one in widest if one.tasks == widest[0].tasks])


def aggregate(scores: Sequence[Scores], goal: float | None = 1.0) -> pd.DataFrame:
    """Aggregates over tasks with stratified-bootstrap intervals, as `AGGREGATES`.

    goal  of the optimality gap; None leaves it out
    """
    chosen = {
        name: statistic
        for name, (_, statistic) in STATISTICS.items()
        if goal is not None or name != "optimality_gap"
    }
    rows = [
        (one.name, True, runs_text(one), name, *_estimate(found, one))
        for one in scores
        for name, found in intervals(chosen, one, resamples=RESAMPLES).items()
    ]
    return pd.DataFrame(rows, columns=AGGREGATES)


def improvements(scores: Sequence[Scores], sign: int = 1) -> pd.DataFrame:
    """The probability that a run of x beats a run of y on a random task: x, y, value, low, high.

    sign  -1 if less is better
    """
    pairs = list(combinations(scores, 2))
    if len(pairs) > MAX_PAIRS:
        pairs = [(scores[0], other) for other in scores[1:]]
    rows = []
    for x, y in pairs:
        left, right = (Scores(s.name, s.tasks, tuple(sign * r for r in s.runs)) for s in (x, y))
        found = improvement_interval(left, right, resamples=PAIR_RESAMPLES)
        rows.append((x.name, y.name, *_estimate(found, x, y)))
    return pd.DataFrame(rows, columns=["x", "y", "value", "low", "high"])


def _estimate(found: Interval, *scores: Scores) -> tuple[float, float, float]:
    """The estimate and its interval, NaN if a task has too few runs for one."""
    reliable = min(one.n_runs.min() for one in scores) >= MIN_RUNS
    low, high = (float(found.low), float(found.high)) if reliable else (np.nan, np.nan)
    return float(found.estimate), low, high


def mean_interval(values: Array) -> tuple[Array, Array, Array]:
    """Mean over seeds with the 95% percentile interval of a bootstrap over seeds.

    values  (n_seeds, n)
    returns mean, low, high, each (n,); whole curves are resampled, with the same draws each time
    """
    n_seeds = len(values)
    counts = stream(0, "report").multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), SEED_RESAMPLES)
    means = counts @ values / n_seeds  # (SEED_RESAMPLES, n)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return values.mean(0), low, high


def runs_text(scores: Scores) -> str:
    """The number of runs per task: "10", or "3 to 10"."""
    least, most = int(scores.n_runs.min()), int(scores.n_runs.max())
    return str(most) if least == most else f"{least} to {most}"


def curve_of(curves: pd.DataFrame, runs: Sequence[str], tag: str) -> tuple[IntArray, Array]:
    """Steps (n,) and values (n_seeds, n) of `tag`, at the steps that all `runs` have.

    If a run has several values at one step, the last one counts. Training returns are averaged in
    `BINS` intervals of equal length, where an interval without values repeats the one before; of
    other curves at most `POINTS` points remain.
    """
    own = curves[(curves["tag"] == tag) & curves["run"].isin(runs)]
    form: Any = {"index": "run", "columns": "step", "values": "value"}
    if tag == RETURN and len(own):
        ends = np.linspace(0, own["step"].max(), BINS + 1)[1:]
        own = own.assign(step=ends[np.searchsorted(ends, own["step"])])
        grid = own.pivot_table(**form, aggfunc="mean").reindex(columns=ends).ffill(axis="columns")
    else:
        grid = own.pivot_table(**form, aggfunc="last")
    grid = grid.reindex(list(runs)).dropna(axis="columns")
    if tag != RETURN and grid.shape[1]:
        grid = grid.iloc[
            :, np.unique(np.linspace(0, grid.shape[1] - 1, POINTS).round().astype(int))
        ]
    return np.ceil(grid.columns.to_numpy(float)).astype(np.int64), grid.to_numpy(float)


def missing_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Unfinished and absent seeds: task_name, agent_name, seeds, commands, ... per group of runs.

    A sweep lists its runs. Other agents should have all seeds that were begun on their task.
    """
    columns = ["task_name", "agent_name", "suite", "agent", "hash", "group", "identity"]
    begun = runs[runs["status"] != "planned"].groupby("task_name")["seed"].agg(set).to_dict()
    rows = []
    for _, group in runs.dropna(subset=["identity"]).groupby("identity", sort=False):
        first = group.iloc[0].to_dict()
        wanted = set(group["seed"])
        if pd.isna(first["label"]):
            wanted |= begun.get(first["task_name"], set())
        if seeds := tuple(sorted(wanted - set(finished(group)["seed"]))):
            if pd.isna(first["eval_episodes"]) and "evaluation.episodes" in group:
                first["eval_episodes"] = group["evaluation.episodes"].max()
            own = {name: first[name] for name in columns}
            rows.append({**own, "seeds": seeds, "commands": commands_of(first, seeds)})
    missing = pd.DataFrame(rows, columns=[*columns, "seeds", "commands"])
    return in_order(missing, "task_name", "agent_name")


def in_order(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The rows sorted by these columns, as in tables."""
    keys: dict[str, Any] = {"task_name": natural, "agent": agent_order}
    parts = [frame[name].map(keys.get(name, lambda value: value)) for name in columns]
    places = list(zip(*parts, strict=True))
    return frame.iloc[sorted(range(len(places)), key=places.__getitem__)].reset_index(drop=True)


def commands_of(run: Mapping[str, Any], seeds: Sequence[int]) -> tuple[str, ...]:
    """The commands that run these seeds of the group of `run`; () if its inputs are unknown."""
    words, root = run["words"], Path(run["root"])
    if not isinstance(words, tuple):
        if not isinstance(run["inputs"], Mapping) or run["suite"] not in ("solve", "train"):
            return ()
        episodes = None if pd.isna(run["eval_episodes"]) else int(run["eval_episodes"])
        words = command_words(run["suite"], run["inputs"], episodes)
    return tuple(commands(words, seeds, root))


def agent_order(agent: str) -> tuple[int, str]:
    """A sort key: agents in the order of the package (games, MDPs, deep), others by name."""
    return ORDER.index(agent) if agent in ORDER else len(ORDER), agent


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that orders numbers by size: DeepSea-8 before DeepSea-10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def with_settings(name: str, settings: Mapping[str, Any]) -> str:
    """The name followed by the settings, or by their hash if there are many."""
    if not settings:
        return name
    if len(settings) > MAX_SETTINGS:
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]
        return f"{name} #{digest}"
    return f"{name} ({', '.join(f'{key}={value_text(v)}' for key, v in settings.items())})"


def _settings(run: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the task (environment, length, suite) and those of the agent."""
    task, agent = {}, {}
    for key, value in flatten({"suite": run["suite"], **run["config"]}):
        if key in TASK_SETTINGS or key.startswith("env."):
            task[key.removeprefix("env.")] = value
        else:
            agent[key.removeprefix("agent.")] = value
    return task, agent


def _distinct(
    names: Sequence[str], places: Sequence[str], settings: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Names with the settings in which two of the same name in the same place differ."""
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for name, place, one in zip(names, places, settings, strict=True):
        alike.setdefault((name, place), []).append(one)
    differing: dict[str, set[str]] = {}
    for (name, _), members in alike.items():
        for key in {key for one in members for key in one}:
            if any(one.get(key) != members[0].get(key) for one in members):
                differing.setdefault(name, set()).add(key)
    return [
        with_settings(name, {key: one.get(key) for key in sorted(differing.get(name, ()))})
        for name, one in zip(names, settings, strict=True)
    ]
