"""Tasks x agents: mean ± standard deviation over runs, number of runs, the best in bold.

Tasks of deep agents also have columns for the random policy and the best constant action, where
their scores are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.html import Section
from contrastive_ucb.report.scores import KINDS, Entry, Kind, scores_by_agent
from contrastive_ucb.report.tables import NOTHING, Table, number_text
from contrastive_ucb.stats.control_scores import NAMES, control_scores

BEST = 2  # in bold, of more agents than these


def shown_of(entry: Entry, kind: Kind) -> list[float]:
    """What tables show of each run: for MDPs the fraction of V* earned, else the raw number."""
    return entry.scores if kind is KINDS["mdp"] else entry.raw


def task_table(entries: Sequence[Entry], kind: Kind) -> Table:
    """One row per task, one column per agent or control; combinations without runs are empty."""
    found = {(e.task, e.agent): np.array(shown_of(e, kind)) for e in entries if e.group.finished}
    tasks = list(dict.fromkeys(task for task, _ in found))
    agents = [one.name for one in scores_by_agent(entries, kind)]
    played = controls_of(entries, kind)
    controls = [name for name in NAMES.values() if any(name in one for one in played.values())]
    rows, bold = [], set()
    for line, task in enumerate(tasks):
        runs = [found.get((task, agent)) for agent in agents]
        simple = [played.get(task, {}).get(name) for name in controls]
        rows.append((task, *(_text(one) for one in [*runs, *simple])))
        bold |= {(line, 1 + column) for column in _best(runs, kind.sign)}
    return Table(("task", *agents, *controls), tuple(rows), frozenset(bold))


def controls_of(entries: Sequence[Entry], kind: Kind) -> dict[str, Mapping[str, Array]]:
    """The stored scores of the controls (seeds,) by task and name; none for finite MDPs."""
    if kind is not KINDS["deep"]:
        return {}
    stored = control_scores()
    envs = {entry.task: str(entry.group.runs[0].spec.config.get("env")) for entry in entries}
    return {task: stored[env] for task, env in envs.items() if env in stored}


def task_section(entries: Sequence[Entry], kind: Kind) -> Section | None:
    """The table, if there is something to compare."""
    table = task_table(entries, kind)
    if len(table.header) < 3:
        return None
    n_agents = len(scores_by_agent(entries, kind))
    shown = kind.score if kind is KINDS["mdp"] else kind.raw
    less = " (less is better)" if kind.sign < 0 else ""
    said = [f"The {shown}{less}: mean ± standard deviation over runs, in brackets their number."]
    if n_agents + 1 < len(table.header):
        said.append(
            "The random policy and the best constant action are controls, played in the evaluation"
            " episodes of the agents; an agent below one of them has not learned to play."
        )
    bold = "The best two agents are" if n_agents > BEST else "The best agent is"
    caption = f"{bold} bold in each row, and agents with the same printed mean." * (n_agents > 1)
    return Section(
        f"{kind.title}: tasks and agents", tuple(said), table=table, table_caption=caption
    )


def _best(runs: Sequence[Array | None], sign: int) -> set[int]:
    """The columns of the best means, and those with the same printed mean."""
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
