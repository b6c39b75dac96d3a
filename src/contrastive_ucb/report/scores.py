"""From run folders to scores: one number per run, and the runs of an agent on its tasks.

| runs of          | one number per run                 | compared by              |
|------------------|------------------------------------|--------------------------|
| Atari 100K       | mean score of the final weights    | human-normalized score   |
| other deep tasks | mean score of the last evaluations | the same                 |
| finite MDPs      | average regret                     | fraction of V* earned    |
| ... with no V*   | average regret (less is better)    | the same                 |
| finite games     | average gap (less is better)       | the same                 |

The last evaluations of a deep run are those of `evaluation/rollouts.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.words import flat, text_of
from contrastive_ucb.report.read import AGAIN, Group, RunRecord, agent_order
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.published import game_of, normalise

FEW = 3  # settings that a label can spell out
BEST = "optimal_value"  # V*, of the summary
OF_TASKS = ("env", "env_seed", "suite", "steps", "rounds")


@dataclass(frozen=True)
class Kind:
    """What runs of one kind are judged by."""

    name: str
    title: str
    key: str  # of the summary
    raw: str  # what that number is
    score: str  # what it becomes, and is compared by
    curve: str  # of metrics.jsonl, over time
    sign: int = 1  # -1: less is better
    goal: float | None = None  # of the optimality gap, where scores have a scale


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "atari",
            "Atari 100K",
            "evaluation.mean",
            "mean score of the final weights",
            "human-normalised score",
            "charts/episodic_return",
            goal=1.0,
        ),
        Kind(
            "deep",
            "Deep agents",
            "evaluation.mean",
            "mean score of the last evaluations",
            "mean score of the last evaluations",
            "charts/episodic_return",
        ),
        Kind(
            "mdp",
            "MDPs",
            "average_regret",
            "average regret",
            "part of V* earned, on average over all rounds",
            "average_regret",
        ),
        Kind(
            "regret",
            "MDPs whose V* is 0 or not known",
            "average_regret",
            "average regret",
            "average regret",
            "average_regret",
            -1,
        ),
        Kind(
            "game", "Zero-sum games", "average_gap", "average gap", "average gap", "average_gap", -1
        ),
    )
}


@dataclass
class Planned:
    """A group of runs that there should be, begun or not."""

    label: str
    spec: RunSpec
    seeds: set[int]
    eval_episodes: int | None
    command: str | None = None  # where the specification alone does not tell it
    words: tuple[str, ...] = ()  # of the command without seeds, where a sweep wrote them down


@dataclass(frozen=True)
class Entry:
    """A group of runs under the names that a report gives to its task and its agent."""

    group: Group
    task: str
    agent: str
    kind: Kind | None  # None: no run is finished, so nobody knows
    plan: Planned | None = None  # what runs it should have, if that was written down

    @property
    def raw(self) -> list[float]:
        """The number of every finished run, by seed, as its summary has it."""
        return [_number(run, self.kind) for run in self.group.finished]

    @property
    def scores(self) -> list[float]:
        """The same on the scale of the kind."""
        return [_scaled(run, self.kind) for run in self.group.finished]


def label(groups: Sequence[Group], names: Mapping[Path, str] | None = None) -> list[Entry]:
    """The groups with names that tell them apart: settings are added where two would be alike.

    names  what the agents of some folders are called, such as "algorithm-1, never rebuilt"
    """
    called = names or {}
    entries = [Entry(g, g.task, called.get(g.folder, g.agent), _kind_of(g)) for g in groups]
    tasks = _told_apart([(e.task, "", _settings(e.group, True)) for e in entries])
    entries = [replace(e, task=name) for e, name in zip(entries, tasks, strict=True)]
    agents = _told_apart([(e.agent, e.task, _settings(e.group, False)) for e in entries])
    named = [replace(e, agent=name) for e, name in zip(entries, agents, strict=True)]
    # The part of V* can be told of a task only where every run of it has a V*.
    bare = {e.task for e in named if e.kind is KINDS["regret"]}
    named = [replace(e, kind=KINDS["regret"]) if _in(e, bare) else e for e in named]
    return sorted(named, key=lambda e: (natural(e.task), *agent_order(e.group.agent), e.agent))


def scores_by_agent(entries: Iterable[Entry], kind: Kind) -> list[Scores]:
    """What each agent reached on the tasks that it has finished runs of; agents in their order."""
    rows: dict[str, dict[str, Array]] = {}
    ordered = sorted(entries, key=lambda e: (*agent_order(e.group.agent), e.agent, natural(e.task)))
    for entry in ordered:
        if entry.kind == kind and entry.group.finished:
            rows.setdefault(entry.agent, {})[entry.task] = np.array(entry.scores)
    return [Scores(name, tuple(tasks), tuple(tasks.values())) for name, tasks in rows.items()]


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts names as people do, numbers by their size: DeepSea-8 before DeepSea-10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def on_shared_tasks(scores: Sequence[Scores]) -> list[Scores]:
    """The same methods on the tasks that all of them have, in one order; none: an empty list."""
    shared = [task for task in scores[0].tasks if all(task in one.tasks for one in scores)]
    return [on_tasks(one, shared) for one in scores] if shared else []


def comparable(scores: Sequence[Scores]) -> list[Scores]:
    """All methods on the tasks that they share or, if that is one at most, those with most tasks.

    Whoever calls it says who is left out.
    """
    shared = on_shared_tasks(scores)
    most = max(len(one.tasks) for one in scores)
    if most < 2 or (shared and len(shared[0].tasks) > 1):
        return shared
    widest = [one for one in scores if len(one.tasks) == most]
    return on_shared_tasks([one for one in widest if one.tasks == widest[0].tasks])


def on_tasks(scores: Scores, tasks: Sequence[str]) -> Scores:
    """The method on some of its tasks, in the order given."""
    by_task = dict(zip(scores.tasks, scores.runs, strict=True))
    return Scores(scores.name, tuple(tasks), tuple(by_task[task] for task in tasks))


def _kind_of(group: Group) -> Kind | None:
    if not group.finished:
        return None
    first = group.finished[0]
    for name in ("atari", "mdp", "game"):
        if first.number(KINDS[name].key) is not None:
            if name == "atari" and game_of(group.task) is None:
                return KINDS["deep"]
            if name == "mdp" and any((run.number(BEST) or 0) <= 0 for run in group.finished):
                return KINDS["regret"]
            return KINDS[name]
    raise UserError(f"{first.path / 'DONE'} has no score; remove it and {AGAIN}")


def _in(entry: Entry, tasks: Collection[str]) -> bool:
    return entry.kind is KINDS["mdp"] and entry.task in tasks


def _number(run: RunRecord, kind: Kind | None) -> float:
    value = None if kind is None else run.number(kind.key)
    if value is None:
        missing = kind.key if kind else "score"
        raise UserError(f"{run.path / 'DONE'} has no {missing}; remove it and {AGAIN}")
    return value


def _scaled(run: RunRecord, kind: Kind | None) -> float:
    value = _number(run, kind)
    if kind is KINDS["atari"]:
        return float(normalise(run.spec.task, value))
    best = run.number(BEST) if kind is KINDS["mdp"] else None
    return value if best is None else 1 - value / best


def _settings(group: Group, of_task: bool) -> dict[str, Any]:
    """What makes the task (environment, budget, suite), or what makes the agent, by name."""
    spec = group.runs[0].spec
    found = dict(flat({"suite": spec.suite, **spec.config}))
    return {
        key.removeprefix("env." if of_task else "agent."): value
        for key, value in found.items()
        if (key in OF_TASKS or key.startswith("env.")) == of_task
    }


def _told_apart(named: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """Names, with the settings in which two of the same name in the same place differ.

    named  (name, place, settings) of each
    """
    differing: dict[str, set[str]] = {}
    for name, place, settings in named:
        for other, elsewhere, others in named:
            if (other, elsewhere) == (name, place):
                keys = settings.keys() | others.keys()
                changed = {key for key in keys if settings.get(key) != others.get(key)}
                differing.setdefault(name, set()).update(changed)
    return [
        named_with_settings(name, {key: settings.get(key) for key in sorted(differing[name])})
        for name, _, settings in named
    ]


def named_with_settings(name: str, settings: Mapping[str, Any]) -> str:
    """The name followed by the settings, or by a hash of them if there are many."""
    if not settings:
        return name
    if len(settings) > FEW:
        mark = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]
        return f"{name} #{mark}"
    return f"{name} ({', '.join(f'{key}={text_of(value)}' for key, value in settings.items())})"
