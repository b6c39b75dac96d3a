"""Which runs a folder should have and has not, and the commands that would fill the gaps.

A sweep writes down its grid, so its gaps are known; whoever makes a suite may know more. Other runs
are held against their peers: a seed that one agent began on a task is missing where another has not
finished it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from contrastive_ucb.errors import UserError
from contrastive_ucb.experiments.grid import remembered
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.report.fill import commands, neighbours
from contrastive_ucb.report.read import read_groups
from contrastive_ucb.report.scores import Entry, label, natural
from contrastive_ucb.report.tables import Table


@dataclass(frozen=True)
class Missing:
    """Seeds of an agent on a task that are not finished, and what would finish them."""

    agent: str
    task: str
    seeds: tuple[int, ...]
    commands: tuple[str, ...]


@dataclass
class Planned:
    """A group of runs that there should be, begun or not."""

    label: str
    spec: RunSpec
    seeds: set[int]
    eval_episodes: int | None
    command: str | None = None  # where the specification alone does not tell it


Plans = Mapping[Path, Planned]  # by the folder of each group
PlansOf = Callable[[Sequence[Entry], Path], Plans]


def read_entries(root: Path, may_be_empty: bool = False) -> list[Entry]:
    """All groups under `root`, under the names that sweeps gave them."""
    groups = read_groups(root)
    if not groups and not may_be_empty:
        raise UserError(
            f"there are no runs under {root}; pass the folder given to --out of 'cucb train',"
            " 'cucb solve' or 'cucb sweep'"
        )
    return label(groups, {folder: plan.label for folder, plan in planned(root).items()})


def planned(root: Path) -> dict[Path, Planned]:
    """What the sweeps in the folder set out to run, by the folder of each group."""
    plans: dict[Path, Planned] = {}
    for grid in remembered(root):
        for job in grid.jobs:
            spec = job.spec()
            name = job.label or spec.agent
            fresh = Planned(name, spec, set(), job.eval_episodes)
            plans.setdefault(spec.folder(root).parent, fresh).seeds.add(job.seed)
    return plans


def missing_runs(entries: Sequence[Entry], root: Path, more: Plans | None = None) -> list[Missing]:
    """The gaps of everything that was begun or planned under `root`, by task and agent.

    more  plans that no sweep has written down
    """
    plans = {**(more or {}), **planned(root)}
    begun: dict[str, set[int]] = {}
    for entry in entries:
        begun.setdefault(entry.task, set()).update(run.seed for run in entry.group.runs)
    gaps = []
    for entry in entries:
        plan = plans.pop(entry.group.folder, None)
        own = {run.seed for run in entry.group.runs}
        spec = entry.group.runs[0].spec
        fresh = Planned(entry.agent, spec, begun[entry.task], _episodes(entry))
        wanted = replace(plan or fresh, label=entry.agent, spec=spec)
        seeds = (wanted.seeds | own) - set(entry.group.seeds)
        gaps.append(_gap(wanted, entry.task, sorted(seeds), root))
    for plan in plans.values():
        gaps.append(_gap(plan, plan.spec.task, sorted(plan.seeds), root))
    found = (gap for gap in gaps if gap.seeds)
    return sorted(found, key=lambda gap: (natural(gap.task), gap.agent))


def missing_games(entries: Sequence[Entry], games: Sequence[str], root: Path) -> list[Missing]:
    """The games that an agent has no runs of at all, though it has runs of others."""
    gaps = []
    for agent in sorted({entry.agent for entry in entries}):
        own = [entry for entry in entries if entry.agent == agent]
        seeds = sorted({run.seed for entry in own for run in entry.group.runs})
        spec, episodes = own[0].group.runs[0].spec, _episodes(own[0])
        for game in sorted(set(games) - {entry.task for entry in own}):
            there = replace(spec, task=game, config={**spec.config, "env": game})
            wanted = Planned(agent, there, set(seeds), episodes)
            gaps.append(_gap(wanted, game, seeds, root))
    return gaps


def missing_table(gaps: Sequence[Missing]) -> Table:
    """A row for each agent and task with gaps."""
    rows = tuple((gap.task, gap.agent, seeds_text(gap.seeds)) for gap in gaps)
    return Table(("task", "agent", "missing seeds"), rows)


def seeds_text(seeds: Sequence[int]) -> str:
    """The seeds as a list: "0 to 4, 7"."""
    return ", ".join(
        ", ".join(str(first + at) for at in range(count))
        if count < 3
        else f"{first} to {first + count - 1}"
        for first, count in neighbours(seeds)
    )


def missing_commands(gaps: Sequence[Missing]) -> tuple[str, ...]:
    """What fills all the gaps; a command that fills several is there once."""
    return tuple(dict.fromkeys(command for gap in gaps for command in gap.commands))


def _gap(plan: Planned, task: str, seeds: Sequence[int], root: Path) -> Missing:
    """What the plan lacks; `task` is what the report calls its task."""
    known = [plan.command] if plan.command and seeds else None
    filled = known or commands(plan.spec, seeds, root, plan.eval_episodes)
    return Missing(plan.label, task, tuple(seeds), tuple(filled))


def _episodes(entry: Entry) -> int | None:
    """How many episodes the evaluations at the end had."""
    known = [run.number("evaluation.episodes") for run in entry.group.finished]
    return max((int(count) for count in known if count), default=None)
