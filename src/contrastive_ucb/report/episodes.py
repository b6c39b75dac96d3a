"""How many episodes the evaluations had that scores come from."""

from __future__ import annotations

from collections.abc import Sequence

from contrastive_ucb.report.scores import Entry
from contrastive_ucb.report.tables import NOTHING

EPISODES = 100  # in the paper and in what it compares with
NAMED = 4  # groups that a remark names


def episodes_of(entry: Entry) -> list[int]:
    """How many episodes the last evaluations had, each number once; those unknown are left out."""
    known = (run.number("evaluation.episodes") for run in entry.group.finished)
    return sorted({int(count) for count in known if count})


def episodes_text(entry: Entry) -> str:
    return ", ".join(map(str, episodes_of(entry))) or NOTHING


def episodes_remark(entries: Sequence[Entry]) -> str:
    """Which runs of Atari were not evaluated as the published ones; empty if all were."""
    other = [entry for entry in entries if episodes_of(entry) != [EPISODES]]
    if not other:
        return ""
    named = ", ".join(f"{e.agent} on {e.task} ({episodes_text(e)})" for e in other[:NAMED])
    more = f" and {len(other) - NAMED} more" if len(other) > NAMED else ""
    return (
        f"Published scores come from evaluations of {EPISODES} episodes; other numbers of episodes"
        f" here: {named}{more}."
    )
