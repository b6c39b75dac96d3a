"""One number over all tasks with its interval, for methods that were published or run here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from contrastive_ucb.report.fair import PAPER, runs_of
from contrastive_ucb.report.interval import FEW, FEWEST
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.style import FIRST_AGENTS, colour
from contrastive_ucb.report.tables import NOTHING, Table
from contrastive_ucb.stats.aggregate import Scores, iqm, mean, median, optimality_gap
from contrastive_ucb.stats.bootstrap import Statistic, improvement_interval, intervals
from contrastive_ucb.stats.published import atari100k, printed_aggregates

STATISTICS: dict[str, tuple[str, Statistic]] = {
    "median": ("median", median),
    "iqm": ("IQM", iqm),
    "mean": ("mean", mean),
    "optimality_gap": ("optimality gap", optimality_gap),
}
RESAMPLES = 10_000
PAIR_RESAMPLES = 2000  # of a comparison of two methods
MANY_PAIRS = 10  # more comparisons than these are made with the first method only

PUBLISHED = "#7C8A99"


class Estimate(NamedTuple):
    """A number and, where there is one, its 95% interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """The aggregates of one method; a statistic that nobody published is not in `values`."""

    name: str
    runs: str  # how many runs a task they come from
    here: bool  # run here, or published
    values: Mapping[str, Estimate]
    shade: str = PUBLISHED  # its colour
    first: bool = False  # the one that stands out

    @property
    def source(self) -> str:
        return "run here" if self.here else "published"


@dataclass(frozen=True)
class Comparison:
    """The probability that a run of `x` beats a run of `y` on a task drawn at random."""

    x: str
    y: str
    chance: Estimate


def printed_rows() -> list[Row]:
    """The published aggregates of the eight methods, 10 runs a game, and of all runs of SPR."""
    rows = []
    for name in PAPER:
        found = {
            entry.statistic: Estimate(entry.estimate, entry.low, entry.high)
            for entry in printed_aggregates()
            if (entry.method, entry.runs) == (name, "10")
        }
        rows.append(Row(name, str(min(10, runs_of(name))), False, found, **_look(name)))
    for entry in printed_aggregates():
        if entry.runs == "all" and entry.low is not None:
            found = {entry.statistic: Estimate(entry.estimate, entry.low, entry.high)}
            runs = str(runs_of(entry.method))
            rows.insert(-1, Row(f"{entry.method}, all runs", runs, False, found))
    return rows


def table_rows(games: Sequence[str] | None = None) -> list[Row]:
    """The means of the paper's table, over some of the games or all of them."""
    table = atari100k()
    chosen = table.games if games is None else games
    at = [table.games.index(game) for game in chosen]
    return [
        Row(
            name,
            str(runs_of(name)),
            False,
            {
                "mean": Estimate(float(table.methods[name].scores[at].mean())),
                "median": Estimate(float(np.median(table.methods[name].scores[at]))),
            },
            **_look(name),
        )
        for name in PAPER
    ]


def run_rows(scores: Sequence[Scores], goal: float | None = 1.0) -> list[Row]:
    """The aggregates of methods that were run here, with stratified-bootstrap intervals.

    goal  of the optimality gap; None: the scores have no scale on which there would be one
    """
    chosen = {
        name: statistic
        for name, (_, statistic) in STATISTICS.items()
        if goal is not None or name != "optimality_gap"
    }
    styles = palette([one.name for one in scores])
    rows = []
    for one in scores:
        found = intervals(chosen, one, resamples=RESAMPLES)
        # A task with a run or two has no spread to offer, so there is no honest interval.
        spread = one.n_runs.min() >= FEWEST
        values = {
            name: Estimate(float(e.estimate), *((float(e.low), float(e.high)) if spread else ()))
            for name, e in found.items()
        }
        shade, first = styles[one.name]["color"], one.name in FIRST_AGENTS
        rows.append(Row(one.name, count_text(one), True, values, shade, first))
    return rows


def comparisons(scores: Sequence[Scores], sign: int = 1) -> list[Comparison]:
    """How likely each method is to beat the others; of many, the first one to beat each other.

    sign  -1 where less is better
    """
    pairs = list(combinations(scores, 2))
    if len(pairs) > MANY_PAIRS:
        pairs = [(scores[0], other) for other in scores[1:]]
    found = []
    for x, y in pairs:
        left, right = (
            Scores(one.name, one.tasks, tuple(sign * r for r in one.runs)) for one in (x, y)
        )
        e = improvement_interval(left, right, resamples=PAIR_RESAMPLES)
        spread = min(x.n_runs.min(), y.n_runs.min()) >= FEWEST
        ends = (float(e.low), float(e.high)) if spread else ()
        found.append(Comparison(x.name, y.name, Estimate(float(e.estimate), *ends)))
    return found


def _look(method: str) -> dict[str, Any]:
    """How a published method is drawn: grey, but for the paper's own."""
    agent = method.lower()
    return {"shade": colour(agent), "first": True} if agent in FIRST_AGENTS else {}


def count_text(scores: Scores) -> str:
    """How many runs a task there are: "10", or "3 to 10"."""
    least, most = int(scores.n_runs.min()), int(scores.n_runs.max())
    return str(most) if least == most else f"{least} to {most}"


def few_text(counts: Iterable[int]) -> str:
    """A remark where intervals are missing or say little; empty if there are runs enough."""
    least = min(counts, default=FEW)
    if least >= FEW:
        return ""
    return (
        f"Few runs: some groups have {least} only. There is no interval below {FEWEST} runs, and"
        f" below {FEW} it is likely to be too narrow."
    )


def runs_text(count: str) -> str:
    """ "1 run", "10 runs", "3 to 10 runs"."""
    return f"{count} run{'s' * (count != '1')}"


def estimate_text(estimate: Estimate | None) -> str:
    if estimate is None:
        return NOTHING
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def aggregate_table(rows: Sequence[Row], names: Sequence[str] = tuple(STATISTICS)) -> Table:
    """The rows in figures, with the number of runs and where they come from."""
    header = ("method", "source", "runs a task", *(STATISTICS[name][0] for name in names))
    cells = tuple(
        (row.name, row.source, row.runs, *(estimate_text(row.values.get(name)) for name in names))
        for row in rows
    )
    return Table(header, cells)


def comparison_table(found: Sequence[Comparison]) -> Table:
    header = ("method", "compared with", "probability of improvement")
    return Table(header, tuple((one.x, one.y, estimate_text(one.chance)) for one in found))
