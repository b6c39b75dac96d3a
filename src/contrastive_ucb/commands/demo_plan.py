"""What `cucb demo` should have left in a folder, told from the runs of it that are there.

The demo writes down no grid, but its runs say with which options it was started.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from contrastive_ucb.commands.demo import Demo, dives_of, problems_of
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.report.demo_page import SUITE
from contrastive_ucb.report.missing import Planned
from contrastive_ucb.report.read import Group
from contrastive_ucb.report.scores import Entry
from contrastive_ucb.report.sea_page import SEA

LENGTHS = {  # the options that say how long the runs of a task are
    "lowrank": "rounds",
    "lock": "lock_rounds",
    "lowrank-game": "game_rounds",
    "lock-game": "lock_game_rounds",
    SEA: "sea_steps",
}


@dataclass(frozen=True)
class Batch:
    """The runs of all agents on a task that are equally long: those of one way to start it."""

    task: str
    length: int
    seeds: frozenset[int]  # that were begun
    n_finished: int


def demo_plans(entries: Sequence[Entry], root: Path) -> dict[Path, Planned]:
    """The groups of the demo, also those not begun, with the command that would fill them."""
    groups = [entry.group for entry in entries if _length(entry.group) is not None]
    if not groups:
        return {}
    batches = {group.folder: _batch(group, groups) for group in groups}
    plans = {}
    for group in groups:
        batch, spec = batches[group.folder], group.runs[0].spec
        command = command_of(options_of(batches.values(), batch), root)
        plans[group.folder] = Planned(group.agent, spec, set(batch.seeds), None, command)
    begun = {(group.task, group.agent) for group in groups}
    usual = options_of(batches.values())
    for spec in specs_of(usual):
        if (spec.task, spec.agent) not in begun:
            fresh = Planned(spec.agent, spec, set(), None, command_of(usual, root))
            plans.setdefault(spec.folder(root).parent, fresh).seeds.add(spec.seed)
    return plans


def options_of(batches: Iterable[Batch], own: Batch | None = None) -> Demo:
    """How the demo was started that left `own`.

    Of the other tasks (without `own`: of all) it is the start with most finished runs.
    """
    chosen = {b.task: b for b in sorted(batches, key=lambda b: (b.n_finished, b.length))}
    if own is not None:
        chosen[own.task] = own
    first = min(min(batch.seeds) for batch in ([own] if own else chosen.values()))
    options: dict[str, Any] = {LENGTHS[task]: batch.length for task, batch in chosen.items()}
    for name, of_sea in (("seeds", False), ("sea_seeds", True)):
        alike = [batch for task, batch in chosen.items() if (task == SEA) == of_sea]
        if alike:  # as many as there are up to the last, of its own if it has a say
            last = max(max(batch.seeds) for batch in ([own] if own in alike else alike))
            options[name] = max(1, last - first + 1)
    return Demo(seed=first, **options)


def specs_of(options: Demo) -> Iterator[RunSpec]:
    """All runs of the demo."""
    for problem in problems_of(options):
        for seed in range(options.seed, options.seed + options.seeds):
            yield problem.spec(seed)
    for trainings in dives_of(options):
        yield from (training.spec() for training in trainings)


def command_of(options: Demo, root: Path) -> str:
    """What one types to have these options; those that are usual are left out."""
    words = ["cucb", "demo"]
    for option in fields(Demo):
        value = getattr(options, option.name)
        if value != option.default:
            words += [f"--{option.name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--out", str(root)])


def _batch(group: Group, groups: Sequence[Group]) -> Batch:
    alike = [g for g in groups if (g.task, _length(g)) == (group.task, _length(group))]
    seeds = frozenset(run.seed for one in alike for run in one.runs)
    length = _length(group)
    assert length is not None
    return Batch(group.task, length, seeds, sum(len(one.finished) for one in alike))


def _length(group: Group) -> int | None:
    """Rounds or steps of the runs; None if the demo has no such runs."""
    spec = group.runs[0].spec
    if spec.suite != SUITE or spec.task not in LENGTHS:
        return None
    length = spec.config.get("steps" if spec.task == SEA else "rounds")
    return length if isinstance(length, int) else None
