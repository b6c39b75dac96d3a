"""Which runs a folder should have and has not, and the commands that would fill the gaps.

A sweep writes down its runs, so its gaps are known; whoever makes a suite may know more. Other runs
are held against their peers: a seed that one agent began on a task is missing where another has not
finished it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.plan import remembered
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.words import commands as commands_of
from contrastive_ucb.experiments.words import neighbours, spec_elsewhere
from contrastive_ucb.report import fill
from contrastive_ucb.report.read import Damage, Group, RunRecord
from contrastive_ucb.report.scores import Entry, Planned, label, natural
from contrastive_ucb.report.sound import sound_groups
from contrastive_ucb.report.tables import Table

__all__ = ["Found", "Missing", "Planned", "Plans", "PlansOf", "missing_runs", "read_folder"]


@dataclass(frozen=True)
class Missing:
    """Seeds of an agent on a task that are not finished, and what would finish them."""

    agent: str
    task: str
    seeds: tuple[int, ...]
    commands: tuple[str, ...]
    spec: RunSpec  # of any of the seeds


Plans = Mapping[Path, Planned]  # by the folder of each group
PlansOf = Callable[[Sequence[Entry], Path], Plans]


@dataclass(frozen=True)
class Found:
    """Everything in a folder: what was begun, what is planned, and what is damaged."""

    root: Path
    every: tuple[Entry, ...]  # also groups that have no run yet
    damaged: tuple[Damage, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """The groups with runs that were begun."""
        return [entry for entry in self.every if entry.group.begun]

    @cached_property
    def missing(self) -> list[Missing]:
        return missing_runs(self.every, self.root)


def read_folder(root: Path, may_be_empty: bool = False, plans_of: PlansOf | None = None) -> Found:
    """All groups under `root`, under names that tell them and what is planned there apart.

    plans_of  what should be in the folder, beside what its sweeps have written down
    """
    groups, damaged = sound_groups(root)
    if not groups and not damaged and not may_be_empty:
        raise UserError(
            f"there are no runs under {root}; pass the folder given to --out of 'cucb train',"
            " 'cucb solve' or 'cucb sweep'"
        )
    plans = planned(root)
    if plans_of:
        plans = {**plans_of(label(groups), root), **plans}
    begun = {group.folder for group in groups}
    groups += [_not_begun(plan, root) for folder, plan in plans.items() if folder not in begun]
    entries = label(groups, {folder: plan.label for folder, plan in plans.items()})
    every = tuple(replace(entry, plan=plans.get(entry.group.folder)) for entry in entries)
    return Found(root, every, tuple(damaged))


def read_entries(root: Path, may_be_empty: bool = False) -> list[Entry]:
    """All groups under `root` that were begun."""
    return read_folder(root, may_be_empty).entries


def planned(root: Path) -> dict[Path, Planned]:
    """What the sweeps in the folder set out to run, by the folder of each group."""
    plans: dict[Path, Planned] = {}
    for group in remembered(root):
        fresh = Planned(group.label, group.spec, set(), group.eval_episodes, words=group.words)
        plans.setdefault(group.folder(root), fresh).seeds.update(group.seeds)
    return plans


def missing_runs(entries: Sequence[Entry], root: Path) -> list[Missing]:
    """The gaps of everything that was begun or planned under `root`, by task and agent."""
    begun: dict[str, set[int]] = {}
    for entry in entries:
        own = {run.seed for run in entry.group.runs if run.begun}
        begun.setdefault(entry.task, set()).update(own)
    gaps = []
    for entry in entries:
        spec = entry.group.runs[0].spec
        plan = entry.plan or Planned(entry.agent, spec, begun[entry.task], _episodes(entry))
        seeds = plan.seeds | {run.seed for run in entry.group.runs}
        named = replace(plan, label=entry.agent, spec=spec)
        gaps.append(_gap(named, entry.task, sorted(seeds - set(entry.group.seeds)), root))
    found = (gap for gap in gaps if gap.seeds)
    return sorted(found, key=lambda gap: (natural(gap.task), gap.agent))


def missing_games(entries: Sequence[Entry], games: Sequence[str], root: Path) -> list[Missing]:
    """The games that an agent has no runs of at all, though it has runs of others."""
    gaps = []
    for agent in sorted({entry.agent for entry in entries if entry.group.begun}):
        own = [entry for entry in entries if entry.agent == agent]
        seeds = sorted({run.seed for entry in own for run in entry.group.runs})
        spec, episodes = own[0].group.runs[0].spec, _episodes(own[0])
        for game in sorted(set(games) - {entry.task for entry in own}):
            wanted = Planned(agent, spec_elsewhere(spec, game), set(seeds), episodes)
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


def _not_begun(plan: Planned, root: Path) -> Group:
    """A planned group as data: runs of which nothing is there."""
    specs = [replace(plan.spec, seed=seed) for seed in sorted(plan.seeds)]
    runs = [RunRecord(spec.folder(root), spec, (), None, begun=False) for spec in specs]
    return Group(plan.spec.agent, plan.spec.task, tuple(runs))


def _gap(plan: Planned, task: str, seeds: Sequence[int], root: Path) -> Missing:
    """What the plan lacks; `task` is what the report calls its task."""
    if plan.command:
        filled = [plan.command] if seeds else []
    elif plan.words:
        filled = commands_of(plan.words, seeds, root)
    else:
        filled = fill.commands(plan.spec, seeds, root, plan.eval_episodes)
    return Missing(plan.label, task, tuple(seeds), tuple(filled), plan.spec)


def _episodes(entry: Entry) -> int | None:
    """How many episodes the evaluations at the end had."""
    known = [run.number("evaluation.episodes") for run in entry.group.finished]
    return max((int(count) for count in known if count), default=None)
