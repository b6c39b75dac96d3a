"""The README's results of the deep tier: DeepSea, MinAtar and Atari scores, and costs.

A row is one agent or control on one task. Scores are aggregated over seeds by the interquartile
mean and compared with `spr` by the probability of improvement, both with 95% intervals of a
stratified bootstrap over seeds (Agarwal et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import binomtest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.interval import FEW, FEWEST
from contrastive_ucb.report.tables import NOTHING, Table
from contrastive_ucb.stats.aggregate import Scores, iqm
from contrastive_ucb.stats.bootstrap import Interval, improvement_interval, interval
from contrastive_ucb.stats.control_scores import NAMES

Record = Mapping[str, Any]
BASELINE = "spr"
RESAMPLES = 10_000
TREASURE = 0.5  # an evaluation with a higher mean reached the treasure of DeepSea
EARLIER = (
    " Rows with `1 x 20` evaluations are earlier runs that were not repeated yet: only their final"
    " weights were evaluated, and the agents other than `simple` had other details of noise,"
    " augmentation and replay (see CHANGELOG.md)."
)
STATISTICS = ("IQM", "95% interval", f"P(better than `{BASELINE}`)", "95% interval")


def deep_text(records: Mapping[str, Record]) -> str:
    """DeepSea, MinAtar and Atari, and the costs; tasks without records are left out."""
    runs = [record for record in records.values() if "runs" in record]
    seas = [record for record in runs if record["runs"][0]["env"].startswith("DeepSea-")]
    games = [record for record in runs if record not in seas]
    few = any(FEWEST <= len(record["runs"]) < FEW for record in runs)
    remark = (
        f" With fewer than {FEW} seeds an interval is little more than their range." if few else ""
    )
    if any("points" not in run["evaluation"] for record in runs for run in record["runs"]):
        remark += EARLIER
    parts = []
    if seas:
        parts += [
            "**DeepSea** (N x N cells). A seed has solved the task at the first episode by which"
            " more than 10% of all training episodes had found the treasure. The score of a run is"
            " the fraction of its evaluations that reach the treasure; IQM is the interquartile"
            f" mean of this score over seeds.{remark}",
            sea_table(seas),
        ]
    if games:
        parts += [
            "**MinAtar and Atari**. The score of a run is the mean raw score of its evaluations,"
            " without noise and bonus, with each agent's own fraction of random actions (.05 for"
            " `drq`, .001 for most). IQM is the interquartile mean of this score over seeds. The"
            f" random policy and the best constant action are controls.{remark}",
            score_table(games),
        ]
    if "bench-deep" in records:
        parts.append(costs_text(records["bench-deep"]))
    return "\n\n".join(parts)


def sea_table(records: Sequence[Record]) -> str:
    """Solved seeds with Wilson's interval, the episode, and the scores of the last evaluations."""
    rows = []
    for record in _ordered(records):
        runs = record["runs"]
        solved, when, episodes = (NOTHING,) * 3
        if not _is_control(record):
            at = [run["solved_at"] for run in runs if run["solved_at"] is not None]
            chance = binomtest(len(at), len(runs)).proportion_ci(method="wilson")
            solved = f"{len(at)} of {len(runs)} ({chance.low:.0%} to {chance.high:.0%})"
            when = f"{median(at):.0f} ({min(at)} to {max(at)})" if at else "never"
            episodes = f"{runs[0]['episodes']:,}"
        scores = treasure_scores(record)
        base = _baseline(record, records)
        cells = statistics_cells(scores, None if base is None else treasure_scores(base))
        shown = (solved, when, episodes, evaluations_text(runs[0]), str(len(runs)))
        rows.append((runs[0]["env"], agent_name(runs[0]), *shown, *cells))
    header = (
        *("task", "agent", "solved seeds (95% interval)", "at episode: median (range)"),
        *("episodes", "evaluations", "seeds", *STATISTICS),
    )
    return Table(header, tuple(rows)).to_markdown()


def score_table(records: Sequence[Record]) -> str:
    """The interquartile mean of the run scores over seeds, and the comparison with SPR."""
    rows = []
    for record in _ordered(records):
        runs, base = record["runs"], _baseline(record, records)
        cells = statistics_cells(run_scores(record), None if base is None else run_scores(base))
        lengths = f"{runs[0]['steps']:,}", f"{runs[0].get('updates', 0):,}"
        shown = *lengths, evaluations_text(runs[0]), str(len(runs))
        rows.append((runs[0]["env"], agent_name(runs[0]), *shown, *cells))
    header = ("game", "agent", "steps", "updates", "evaluations", "seeds", *STATISTICS)
    return Table(header, tuple(rows)).to_markdown()


def statistics_cells(scores: Array, base: Array | None) -> tuple[str, str, str, str]:
    """IQM and probability of improvement over `base`, each with its interval, as text.

    scores, base  (seeds,) of the agent and of the agent that it is compared with, if any
    """
    own = Scores("agent", ("task",), (scores,))
    level = interval(iqm, own, RESAMPLES)
    cells = f"{float(level.estimate):.2f}", _interval_text(level, len(scores))
    if base is None:
        return *cells, NOTHING, NOTHING
    chance = improvement_interval(own, Scores("base", ("task",), (base,)), RESAMPLES)
    return (
        *cells,
        f"{float(chance.estimate):.2f}",
        _interval_text(chance, min(len(scores), len(base))),
    )


def run_scores(record: Record) -> Array:
    """The score of each run (seeds,): the mean over its evaluations."""
    return np.array([run["evaluation"]["mean"] for run in record["runs"]], dtype=np.float64)


def treasure_scores(record: Record) -> Array:
    """The fraction of the evaluations of each run (seeds,) that reach DeepSea's treasure."""
    means = [
        [point["mean"] for point in run["evaluation"].get("points", [run["evaluation"]])]
        for run in record["runs"]
    ]
    return np.array([np.mean(np.array(one) > TREASURE) for one in means])


def evaluations_text(run: Mapping[str, Any]) -> str:
    """Number of evaluations and episodes of each, such as "5 x 20"."""
    own = run["evaluation"]
    return f"{len(own.get('points', [own]))} x {own.get('episodes', NOTHING)}"


def agent_name(run: Mapping[str, Any]) -> str:
    """The algorithm, its bonus if it has one, and its precision if that is not float32."""
    if run["algo"] in NAMES:
        return NAMES[run["algo"]]
    parts = [run["algo"], run.get("bonus", "none"), run.get("precision", "none")]
    return ", ".join(part for part in parts if part != "none")


def _is_control(record: Record) -> bool:
    return record["runs"][0]["algo"] in NAMES


def _baseline(record: Record, records: Sequence[Record]) -> Record | None:
    """The runs of SPR on the same task and, unless it is a control, of the same length."""
    run = record["runs"][0]
    for other in records:
        base = other["runs"][0]
        alike = base["env"] == run["env"] and (_is_control(record) or base["steps"] == run["steps"])
        if alike and agent_name(base) == BASELINE and other is not record:
            return other
    return None


def _ordered(records: Sequence[Record]) -> list[Record]:
    """By task, DeepSea by its size, then by agent, controls first."""

    def place(record: Record) -> tuple[str, int, int, bool, str]:
        run = record["runs"][0]
        name, _, size = run["env"].partition("-")
        number = int(size) if size.isdigit() else 0
        return name, number, run["steps"], not _is_control(record), agent_name(run)

    return sorted(records, key=place)


def _interval_text(found: Interval, n_seeds: int) -> str:
    if n_seeds < FEWEST:
        return "one seed" if n_seeds == 1 else f"{n_seeds} seeds"
    return f"{float(found.low):.2f} to {float(found.high):.2f}"


def costs_text(bench: Record) -> str:
    """The cost of an update, compared with a plain implementation of the published procedure."""
    figures = bench["summary"]
    missed = [
        f"`{name}` {figures[name]:.3g} ({sign} {mark:g})"
        for name, (sign, mark) in bench.get("marks", {}).items()
        if not (figures[name] >= mark if sign == ">=" else figures[name] <= mark)
    ]
    misses = f" Targets not reached: {', '.join(missed)}." if missed else ""
    return (
        "**Costs of the deep tier** (`make bench NAME=deep`, on 2 cores): an update of"
        f" SPR takes {figures['ms_update_spr']:.0f} ms, of SPR-UCB `paper`"
        f" {figures['ms_update_spr_ucb_paper']:.0f} ms, of `reference`"
        f" {figures['ms_update_spr_ucb_reference']:.0f} ms. A plain implementation of the published"
        f" procedure takes {figures['yardstick_over_paper']:.1f}x as long as `paper`"
        f" ({figures['yardstick_default_over_paper']:.1f}x with the default allocator),"
        f" {figures['yardstick_spr_over_spr']:.1f}x for SPR alone,"
        f" {figures['yardstick_over_reference']:.1f}x for `reference`. An update of SPR takes"
        f" {figures['spr_over_drq']:.1f}x as long as one of DrQ, {figures['spr_over_der']:.1f}x as"
        " long as one of DER, and there are two per step instead of one. MinAtar:"
        f" {figures['minatar_updates_per_second_one_core_spr']:.0f} updates per second on one core."
        f"{misses}{_rounded(figures)}"
    )


def _rounded(figures: Mapping[str, float]) -> str:
    """The gain from products in bfloat16, if it was measured."""
    if "paper_over_bfloat16" not in figures:
        return ""
    return (
        " With `precision=bfloat16`, which is not the default, an update of `paper` takes"
        f" {figures['ms_update_spr_ucb_paper_bfloat16']:.0f} ms, and the plain implementation, in"
        f" float32, {figures['yardstick_over_bfloat16']:.1f}x as long"
        f" ({figures['yardstick_default_over_bfloat16']:.1f}x with the default allocator)."
    )
