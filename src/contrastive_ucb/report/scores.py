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
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.evaluation.rollouts import default_episodes
from contrastive_ucb.report.load import flatten
from contrastive_ucb.stats.aggregate import Scores, iqm, mean, median, optimality_gap
from contrastive_ucb.stats.bootstrap import Statistic, improvement_interval, intervals
from contrastive_ucb.stats.published import game_of, normalise

STATISTICS: dict[str, tuple[str, Statistic]] = {
    "median": ("median", median),
    "iqm": ("IQM", iqm),
    "mean": ("mean", mean),
    "optimality_gap": ("optimality gap", optimality_gap),
}
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


def name_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the columns kind, task_name and agent_name, in the order of tables.

    Settings are added to a name if two groups would have the same name otherwise.
    """
    named = runs.drop_duplicates("identity").dropna(subset=["identity"])
    settings = [_settings(row) for row in named.to_dict("records")]
    tasks = _distinct(list(named["task"]), [""] * len(named), [one[0] for one in settings])
    agents = [label or agent for label, agent in zip(named["label"], named["agent"], strict=True)]
    agents = _distinct(agents, tasks, [one[1] for one in settings])
    by_identity = dict(zip(named["identity"], zip(tasks, agents, strict=True), strict=True))
    found = runs.copy()
    pairs = [
        by_identity.get(key, pair) for key, *pair in runs[["identity", "task", "agent"]].values
    ]
    found["task_name"], found["agent_name"] = [p[0] for p in pairs], [p[1] for p in pairs]
    found["kind"] = _kinds(found)
    found["place"] = [
        (natural(task), *agent_order(agent), name, seed)
        for task, agent, name, seed in found[["task_name", "agent", "agent_name", "seed"]].values
    ]
    return found.sort_values("place", kind="stable").reset_index(drop=True)


def score_runs(named: pd.DataFrame) -> pd.DataFrame:
    """One row per finished run: kind, task, agent, seed, raw and score, and its other columns."""
    finished = named[named["status"] == "finished"].copy()
    raw, score = [], []
    for row in finished.to_dict("records"):
        value = float(row[KINDS[row["kind"]].key])
        raw.append(value)
        if row["kind"] == "atari":
            value = float(normalise(row["task"], value))
        elif row["kind"] == "mdp":
            value = 1 - value / row["optimal_value"]
        score.append(value)
    return finished.assign(
        raw=raw, score=score, agent_id=finished["agent"], task_id=finished["task"],
        agent=finished["agent_name"], task=finished["task_name"],
    )  # fmt: skip


def scores_by_agent(scores: pd.DataFrame, kind: str) -> list[Scores]:
    """The scores of each agent on its tasks."""
    own = scores[scores["kind"] == kind]
    agents = sorted({(agent_order(row.agent_id), row.agent) for row in own.itertuples()})
    found = []
    for _, agent in agents:
        tasks = own[own["agent"] == agent].groupby("task", sort=False)["score"]
        by_task = {task: values.to_numpy() for task, values in tasks}
        ordered = sorted(by_task, key=natural)
        found.append(Scores(agent, tuple(ordered), tuple(by_task[task] for task in ordered)))
    return found


def on_shared_tasks(scores: Sequence[Scores]) -> list[Scores]:
    """The same methods restricted to the tasks that all of them have; [] if there are none."""
    shared = [task for task in scores[0].tasks if all(task in one.tasks for one in scores)]
    restricted: list[Scores] = []
    for one in scores if shared else ():
        by_task = dict(zip(one.tasks, one.runs, strict=True))
        restricted.append(Scores(one.name, tuple(shared), tuple(by_task[task] for task in shared)))
    return restricted


def comparable(scores: Sequence[Scores]) -> list[Scores]:
    """All methods on their shared tasks or, if these are fewer than 2, those with most tasks."""
    shared = on_shared_tasks(scores)
    most = max(len(one.tasks) for one in scores)
    if most < 2 or (shared and len(shared[0].tasks) > 1):
        return shared
    widest = [one for one in scores if len(one.tasks) == most]
    return on_shared_tasks([one for one in widest if one.tasks == widest[0].tasks])


def aggregate(scores: Sequence[Scores], goal: float | None = 1.0) -> pd.DataFrame:
    """Aggregates over tasks with stratified-bootstrap intervals: method, statistic, value, ...

    goal  of the optimality gap; None leaves it out
    """
    chosen = {
        name: statistic
        for name, (_, statistic) in STATISTICS.items()
        if goal is not None or name != "optimality_gap"
    }
    rows = []
    for one in scores:
        reliable = one.n_runs.min() >= MIN_RUNS
        for name, found in intervals(chosen, one, resamples=RESAMPLES).items():
            ends = (float(found.low), float(found.high)) if reliable else (None, None)
            rows.append((one.name, True, runs_text(one), name, float(found.estimate), *ends))
    return aggregate_frame(rows)


def aggregate_frame(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    columns = ["method", "here", "runs", "statistic", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns).astype({"low": float, "high": float})


def improvements(scores: Sequence[Scores], sign: int = 1) -> pd.DataFrame:
    """The probability that a run of x beats a run of y on a random task: x, y, value, low, high.

    sign  -1 if less is better
    """
    pairs = list(combinations(scores, 2))
    if len(pairs) > MAX_PAIRS:
        pairs = [(scores[0], other) for other in scores[1:]]
    rows = []
    for x, y in pairs:
        left, right = (
            Scores(one.name, one.tasks, tuple(sign * runs for runs in one.runs)) for one in (x, y)
        )
        found = improvement_interval(left, right, resamples=PAIR_RESAMPLES)
        reliable = min(x.n_runs.min(), y.n_runs.min()) >= MIN_RUNS
        ends = (float(found.low), float(found.high)) if reliable else (None, None)
        rows.append((x.name, y.name, float(found.estimate), *ends))
    return pd.DataFrame(rows, columns=["x", "y", "value", "low", "high"]).astype(
        {"low": float, "high": float}
    )


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
    `BINS` intervals of equal length; of other curves at most `POINTS` points remain.
    """
    own = curves[(curves["tag"] == tag) & curves["run"].isin(runs)]
    measured = [own[own["run"] == run] for run in runs]
    if not measured or any(one.empty for one in measured):
        return np.empty(0, dtype=np.int64), np.empty((len(measured), 0))
    if tag == RETURN:
        edges = np.linspace(0, max(one["step"].max() for one in measured), BINS + 1)[1:]
        values = np.array([_binned(one, edges) for one in measured])
        known = ~np.isnan(values).any(0)
        return np.ceil(edges[known]).astype(np.int64), values[:, known]
    by_step = [dict(zip(one["step"], one["value"], strict=True)) for one in measured]
    steps = np.array(sorted(set.intersection(*(set(one) for one in by_step))), dtype=np.int64)
    chosen = np.unique(np.linspace(0, steps.size - 1, POINTS).round().astype(np.int64))
    steps = steps[chosen] if steps.size else steps
    values = np.array([[one[step] for step in steps.tolist()] for one in by_step], dtype=float)
    return steps, values.reshape(len(measured), steps.size)


def missing_runs(named: pd.DataFrame) -> pd.DataFrame:
    """Unfinished and absent seeds: task, agent, seeds, commands, group, ... per agent and task.

    A sweep lists its runs. Other agents should have all seeds that were begun on their task.
    """
    begun = named[named["status"] != "planned"].groupby("task_name")["seed"].agg(set).to_dict()
    rows = []
    for (task, agent, _), group in named.dropna(subset=["identity"]).groupby(
        ["task_name", "agent_name", "identity"], sort=False
    ):
        first = group.iloc[0].to_dict()
        wanted = set(group["seed"])
        if first["label"] is None or pd.isna(first["label"]):
            wanted |= begun.get(task, set())
        seeds = tuple(sorted(wanted - set(group.loc[group["status"] == "finished", "seed"])))
        if seeds:
            episodes = group.get("evaluation.episodes", pd.Series(dtype=float)).max()
            first["eval_episodes"] = first.get("eval_episodes") or episodes
            rows.append(
                {
                    "task": task, "agent": agent, "seeds": seeds,
                    "commands": commands_of(first, seeds),
                    **{key: first[key] for key in ("suite", "hash", "group", "identity")},
                    "agent_id": first["agent"],
                }
            )  # fmt: skip
    columns = ["task", "agent", "seeds", "commands", "suite", "hash", "group", "identity"]
    found = pd.DataFrame(rows, columns=[*columns, "agent_id"])
    order = sorted(
        range(len(found)), key=lambda at: (natural(found["task"][at]), found["agent"][at])
    )
    return found.iloc[order].reset_index(drop=True)


def commands_of(run: Mapping[str, Any], seeds: Sequence[int]) -> tuple[str, ...]:
    """The commands that run these seeds of the group of `run`; () if its inputs are unknown."""
    if isinstance(run["command"], str):
        return (run["command"],)
    if isinstance(run["words"], (tuple, list)):
        words = [*run["words"]]
    elif isinstance(run["inputs"], Mapping) and run["suite"] in ("solve", "train"):
        words = _words(run["suite"], run["inputs"], run.get("eval_episodes"))
    elif run["suite"] not in ("solve", "train"):
        return (shlex.join(["cucb", run["suite"], "--out", run["root"]]),)
    else:
        return ()
    found = []
    for first, count in consecutive(seeds):
        more = ["--seeds", str(count)] if count > 1 else []
        found.append(shlex.join([*words, "--seed", str(first), *more, "--out", run["root"]]))
    return tuple(found)


def consecutive(seeds: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive seeds: the first of each range, and its length."""
    found: list[tuple[int, int]] = []
    for seed in sorted(set(seeds)):
        first, count = found[-1] if found else (seed, 0)
        if count and seed == first + count:
            found[-1] = (first, count + 1)
        else:
            found.append((seed, 1))
    return found


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
    return f"{name} ({', '.join(f'{key}={setting_text(v)}' for key, v in settings.items())})"


def setting_text(value: Any) -> str:
    """A value as --set reads it."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(setting_text, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


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


def _kinds(runs: pd.DataFrame) -> list[str | None]:
    """The kind of each group of runs; None if no run of it is finished."""
    kinds: dict[str, str] = {}
    finished = runs[runs["status"] == "finished"]
    for identity, group in finished.groupby("identity"):
        first = group.iloc[0]
        best = group.get("optimal_value", pd.Series(0.0, index=group.index))
        if pd.notna(first.get("evaluation.mean")):
            kinds[identity] = "deep" if game_of(first["task"]) is None else "atari"
        elif pd.notna(first.get("average_regret")):
            kinds[identity] = "mdp" if (best.fillna(0) > 0).all() else "regret"
        else:
            kinds[identity] = "game"
    # The fraction of V* is used for a task only if every run of the task has a V*.
    bare = {t for t, i in finished[["task_name", "identity"]].values if kinds[i] == "regret"}
    return [
        "regret" if kinds.get(identity) == "mdp" and task in bare else kinds.get(identity)
        for task, identity in runs[["task_name", "identity"]].values
    ]


def _binned(measured: pd.DataFrame, edges: Array) -> Array:
    """The mean value in each interval; an interval without values repeats the one before."""
    index = np.searchsorted(edges, measured["step"].to_numpy())
    means = measured["value"].groupby(index).mean().reindex(range(len(edges)))
    filled: Array = means.ffill().to_numpy(dtype=np.float64)
    return filled


def _words(suite: str, inputs: Mapping[str, Any], episodes: float | None) -> list[str]:
    """The command line of a run, from its stored inputs."""
    words = ["cucb", suite, str(inputs["env"]), "--algo", str(inputs["algo"])]
    settings = dict(flatten(inputs.get("settings") or {}))
    if suite == "solve":
        for key, value in settings.items():
            words += [f"--{key.rpartition('.')[2].replace('_', '-')}", setting_text(value)]
        return [*words, "--rounds", str(inputs["length"])]
    if settings:
        words += ["--set", *(f"{key}={setting_text(value)}" for key, value in settings.items())]
    words += ["--steps", str(inputs["length"]), "--threads", "1"]  # one thread, as in a sweep
    if episodes and not pd.isna(episodes) and episodes != default_episodes(str(inputs["env"])):
        words += ["--eval-episodes", str(int(episodes))]
    return words
