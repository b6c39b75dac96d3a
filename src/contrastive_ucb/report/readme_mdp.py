"""The README's results on MDPs: who explores, how they do on easy MDPs, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from contrastive_ucb.report.tables import Table

NO_NEGATIVES = ("rep-ucb", "lsvi-ucb", "ucbvi", "rep-ulcb", "omni-vi")


def mdp_text(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Who solves the exploration tasks, how they do on low-rank MDPs, and what it costs."""
    runs = {name: record for name, record in records.items() if "runs" in record["summary"]}
    solving = [r for r in runs.values() if "solved_at" in r["summary"]]
    easy = [r for r in runs.values() if "solved_at" not in r["summary"]]
    parts = [
        "**Exploration tasks** (10 seeds each; a round costs H trajectories)",
        solved_table(solving),
    ]
    parts += [
        "**Random low-rank MDPs** (S=10, A=3, d=3, H=4; 10,000 rounds, 10 seeds)",
        _regrets(easy),
    ]
    parts += [_costs(records["bench-theory"]["summary"])] if "bench-theory" in records else []
    return "\n\n".join(parts)


def solved_table(records: list[Mapping[str, Any]]) -> str:
    """How many seeds solved each task, and when."""
    rows = []
    for record in records:
        runs = record["summary"].get("runs", [record["summary"]])
        solved = [run["solved_at"] for run in runs if run["solved_at"] is not None]
        rounds = f"{median(solved):.0f} ({min(solved)} to {max(solved)})" if solved else "never"
        algo, kind = runs[0]["algo"], f"{runs[0]['env']}, {learns_from(record)}"
        rows.append((kind, algo, f"{len(solved)} of {len(runs)}", rounds, f"{runs[0]['rounds']:,}"))
    header = ("task", "algorithm", "seeds that solved it", "at round: median (range)", "of rounds")
    return Table(header, tuple(rows)).to_markdown()


def _regrets(records: list[Mapping[str, Any]]) -> str:
    rows = []
    for record in records:
        mean = record["summary"]
        figures = (mean["average_regret"], mean["final_gap"], mean["zeta"])
        rows.append((learns_from(record), mean["algo"], *(f"{value:.4f}" for value in figures)))
    header = ("learns from", "algorithm", "average regret", "final gap", "model error zeta")
    return Table(header, tuple(rows)).to_markdown()


def learns_from(record: Mapping[str, Any]) -> str:
    if record["summary"]["algo"] in NO_NEGATIVES:
        return "all transitions"
    return "exact negatives" if "--negatives exact" in record["command"] else "sampled negatives"


def _costs(figures: Mapping[str, float]) -> str:
    whole = next(name for name in figures if name.startswith("seconds_10_seeds"))
    return (
        f"**Costs** on 2 cores: a round at k = 100,000 takes"
        f" {figures['late_round_over_round_100']:.2f}x the time of one at k = 100 (memory"
        f" {figures['late_memory_over_round_100']:.2f}x), ten batched seeds"
        f" {figures['ten_seeds_over_one']:.2f}x the time of one; 10 seeds x 10,000 rounds take"
        f" {figures[whole]:.0f} s; S=2,000, A=10, H=10, d=10 peaks at"
        f" {figures['large_sampled_peak_gb']:.2f} GB"
        f" ({figures['large_sampled_seconds_a_round']:.2f} s a round)."
    )
