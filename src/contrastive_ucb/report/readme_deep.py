"""The README's results of the deep tier: who explores the deep sea, scores, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import binomtest

from contrastive_ucb.report.interval import FEW, FEWEST, mean_interval
from contrastive_ucb.report.tables import Table

Record = Mapping[str, Any]


def deep_text(records: Mapping[str, Record]) -> str:
    """The deep sea, MinAtar and Atari, and the costs; what has no file is left out."""
    runs = [record for record in records.values() if "runs" in record]
    seas = [record for record in runs if record["runs"][0]["env"].startswith("DeepSea-")]
    games = [record for record in runs if record not in seas]
    parts = []
    if seas:
        parts += [
            "**The deep sea** (N x N cells; solved: by that episode, more than one in ten had found"
            " the treasure)",
            sea_table(sorted(seas, key=lambda record: _size(record["runs"][0]["env"]))),
        ]
    if games:
        few = any(FEWEST <= len(record["runs"]) < FEW for record in games)
        remark = f"; an interval of fewer than {FEW} seeds is little more than their range"
        parts += [
            "**MinAtar and Atari** (raw scores of whole episodes at the end of training, without"
            " noise and bonus, with each agent's own part of random actions, .05 for `drq` and .001"
            f" for most{remark if few else ''})",
            score_table(games),
        ]
    if "bench-deep" in records:
        parts.append(costs_text(records["bench-deep"]))
    return "\n\n".join(parts)


def sea_table(records: Sequence[Record]) -> str:
    """How many seeds solved each sea, with Wilson's interval, and when."""
    rows = []
    for record in records:
        runs = record["runs"]
        solved = [run["solved_at"] for run in runs if run["solved_at"] is not None]
        when = f"{median(solved):.0f} ({min(solved)} to {max(solved)})" if solved else "never"
        chance = binomtest(len(solved), len(runs)).proportion_ci(method="wilson")
        count = f"{len(solved)} of {len(runs)} ({chance.low:.0%} to {chance.high:.0%})"
        episodes = f"{runs[0]['episodes']:,}"
        rows.append((runs[0]["env"], agent_name(runs[0]), count, when, episodes))
    solvers = "seeds that solved it (95% interval)"
    header = ("sea", "agent", solvers, "at episode: median (range)", "of episodes")
    return Table(header, tuple(rows)).to_markdown()


def score_table(records: Sequence[Record]) -> str:
    """The mean score over seeds, with a 95% interval where there are several."""
    rows = []
    for record in records:
        runs = record["runs"]
        scores = np.array([[run["evaluation"]["mean"]] for run in runs])
        mean, low, high = (float(one[0]) for one in mean_interval(scores))
        interval = f"{low:.2f} to {high:.2f}" if len(runs) > 1 else "one seed"
        lengths = f"{runs[0]['steps']:,}", f"{runs[0].get('updates', 0):,}"
        shown = f"{mean:.2f}", interval, str(len(runs))
        rows.append((runs[0]["env"], agent_name(runs[0]), *lengths, *shown))
    header = ("game", "agent", "steps", "updates", "mean score", "95% interval", "seeds")
    return Table(header, tuple(sorted(rows))).to_markdown()


def agent_name(run: Mapping[str, Any]) -> str:
    """The algorithm and, if it has one, its bonus, and its precision if that is not float32."""
    parts = [run["algo"], run.get("bonus", "none"), run.get("precision", "none")]
    return ", ".join(part for part in parts if part != "none")


def costs_text(bench: Record) -> str:
    """What an update costs, against the plain implementation of the published order."""
    figures = bench["summary"]
    missed = [
        f"`{name}` {figures[name]:.3g} ({sign} {mark:g})"
        for name, (sign, mark) in bench.get("marks", {}).items()
        if not (figures[name] >= mark if sign == ">=" else figures[name] <= mark)
    ]
    misses = f" Marks that are missed: {', '.join(missed)}." if missed else ""
    return (
        "**Costs of the deep tier** (`cucb bench deep`, on 2 cores): an update of"
        f" SPR takes {figures['ms_update_spr']:.0f} ms, of SPR-UCB `paper`"
        f" {figures['ms_update_spr_ucb_paper']:.0f} ms, of `reference`"
        f" {figures['ms_update_spr_ucb_reference']:.0f} ms. A plain implementation of the published"
        f" order of work takes {figures['yardstick_over_paper']:.1f}x as long as `paper`"
        f" ({figures['yardstick_default_over_paper']:.1f}x with the default allocator),"
        f" {figures['yardstick_spr_over_spr']:.1f}x for SPR alone,"
        f" {figures['yardstick_over_reference']:.1f}x for `reference`. An update of SPR takes"
        f" {figures['spr_over_drq']:.1f}x as long as one of DrQ, {figures['spr_over_der']:.1f}x as"
        " long as one of DER, and there are two of them a step instead of one. MinAtar:"
        f" {figures['minatar_updates_per_second_one_core_spr']:.0f} updates a second on one core."
        f"{misses}{_rounded(figures)}"
    )


def _rounded(figures: Mapping[str, float]) -> str:
    """What products in bfloat16 gain, where that was measured."""
    if "paper_over_bfloat16" not in figures:
        return ""
    return (
        " With `precision=bfloat16`, which is not the default, an update of `paper` takes"
        f" {figures['ms_update_spr_ucb_paper_bfloat16']:.0f} ms, and the plain implementation, in"
        f" float32, {figures['yardstick_over_bfloat16']:.1f}x as long"
        f" ({figures['yardstick_default_over_bfloat16']:.1f}x with the default allocator)."
    )


def _size(env: str) -> int:
    return int(env.removeprefix("DeepSea-"))
