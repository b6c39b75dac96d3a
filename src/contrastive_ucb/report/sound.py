"""The runs of a folder that can be reported, and apart from them those that are damaged.

One damaged run says nothing about the others. It counts as one that is not finished.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.read import AGAIN, Damage, Group, RunRecord, read_groups

SCORES = ("evaluation.mean", "average_regret", "average_gap")  # one of them tells the kind of a run
NUMBERS = (*SCORES, "evaluation.episodes", "optimal_value")


def sound_groups(root: Path) -> tuple[list[Group], list[Damage]]:
    """All groups under `root` whose finished runs have scores of one kind, and what is damaged."""
    damaged: list[Damage] = []
    groups = [_sound(group, damaged) for group in read_groups(root, damaged=damaged)]
    return groups, sorted(damaged)


def _sound(group: Group, damaged: list[Damage]) -> Group:
    kept: list[RunRecord] = []
    kind: str | None = None  # of the first finished run
    for run in group.runs:
        try:
            kind = _checked(run, kind) or kind
        except UserError as error:
            damaged.append(Damage(run.path, str(error)))
            run = replace(run, lines=(), summary=None)
        kept.append(run)
    return replace(group, runs=tuple(kept))


def _checked(run: RunRecord, kind: str | None) -> str | None:
    """Which score a finished run has; an error if it is not that of its peers, or none."""
    if not run.finished:
        return None
    found = {name for name in NUMBERS if run.number(name) is not None}
    own = kind if kind in found else next((name for name in SCORES if name in found), None)
    if own is None or (kind is not None and own != kind):
        wanted = kind or f"score (none of {', '.join(SCORES)})"
        raise UserError(f"{run.path / 'DONE'} has no {wanted}; remove it and {AGAIN}")
    return own
