"""Tasks x agents: mean ± deviation over runs, how many runs, the best in bold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.report.html import Section
from contrastive_ucb.report.scores import KINDS, Entry, Kind, scores_by_agent
from contrastive_ucb.report.tables import NOTHING, Table, number_text

BEST = 2  # in bold, of more agents than these


def shown_of(entry: Entry, kind: Kind) -> list[float]:
    """What tables show of each run: of MDPs the part of V* that was earned, else the raw number."""
    return entry.scores if kind is KINDS["mdp"] else entry.raw


def task_table(entries: Sequence[Entry], kind: Kind) -> Table:
    """A row a task, a column an agent; what was not run is left open."""
    found = {(e.task, e.agent): np.array(shown_of(e, kind)) for e in entries if e.group.finished}
    tasks = list(dict.fromkeys(task for task, _ in found))
    agents = [one.name for one in scores_by_agent(entries, kind)]
    rows, bold = [], set()
    for line, task in enumerate(tasks):
        runs = [found.get((task, agent)) for agent in agents]
        rows.append((task, *(_text(one) for one in runs)))
        bold |= {(line, 1 + column) for column in _best(runs, kind.sign)}
    return Table(("task", *agents), tuple(rows), frozenset(bold))


def task_section(entries: Sequence[Entry], kind: Kind) -> Section | None:
    """The table, where there is something to compare."""
    table = task_table(entries, kind)
    if len(table.header) < 3:
        return None
    shown = kind.score if kind is KINDS["mdp"] else kind.raw
    less = " (less is better)" if kind.sign < 0 else ""
    count = "The best two are" if len(table.header) > 1 + BEST else "The best is"
    return Section(
        f"{kind.title}: tasks and agents",
        (f"The {shown}{less}: mean ± standard deviation over runs, in brackets their number.",),
        table=table,
        table_caption=f"{count} bold in each row, and what is printed alike.",
    )


def _best(runs: Sequence[Array | None], sign: int) -> set[int]:
    """The columns of the best means; what is printed alike is bold alike."""
    means = {at: sign * float(one.mean()) for at, one in enumerate(runs) if one is not None}
    n_best = min(BEST, len(means) - 1)
    chosen = sorted(means.values(), reverse=True)[:n_best]
    printed = {number_text(value) for value in chosen}
    return {at for at, value in means.items() if number_text(value) in printed}


def _text(runs: Array | None) -> str:
    if runs is None:
        return NOTHING
    spread = f" ± {number_text(float(runs.std(ddof=1)))}" if len(runs) > 1 else ""
    return f"{number_text(float(runs.mean()))}{spread} ({len(runs)})"
