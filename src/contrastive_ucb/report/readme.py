"""The results table of the README, generated from results/mdp/.

    python -m contrastive_ucb.report.readme

Every number comes from a file that a command wrote; nothing is typed by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from contrastive_ucb.errors import UserError
from contrastive_ucb.report.tables import Table
from contrastive_ucb.training.files import write_atomically

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def main(root: Path = Path()) -> None:
    readme = root / "README.md"
    write_atomically(readme, with_results(readme.read_text(), results_text(root / "results/mdp")))


def with_results(text: str, results: str) -> str:
    """The README with what stands between the two markers replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(f"the README needs the markers {BEGIN} and {END} for its results table")
    return f"{before}{BEGIN}\n{results}\n{END}{after}"


def results_text(folder: Path) -> str:
    """Who solves the exploration tasks, how they do on low-rank MDPs, and what it costs."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    runs = {name: record for name, record in records.items() if "runs" in record["summary"]}
    solving = [r for r in runs.values() if "solved_at" in r["summary"]]
    easy = [r for r in runs.values() if "solved_at" not in r["summary"]]
    parts = [
        "**Exploration tasks** (10 seeds each; a round costs H trajectories)",
        _solved(solving),
    ]
    parts += [
        "**Random low-rank MDPs** (S=10, A=3, d=3, H=4; 10,000 rounds, 10 seeds)",
        _regrets(easy),
    ]
    parts += [_costs(records["bench-theory"]["summary"])] if "bench-theory" in records else []
    return "\n\n".join(parts)


def _solved(records: list[Mapping[str, Any]]) -> str:
    rows = []
    for record in records:
        runs = record["summary"]["runs"]
        solved = [run["solved_at"] for run in runs if run["solved_at"] is not None]
        rounds = f"{median(solved):.0f} ({min(solved)} to {max(solved)})" if solved else "never"
        kind, algo = _label(record), runs[0]["algo"]
        rows.append((kind, algo, f"{len(solved)} of {len(runs)}", rounds, f"{runs[0]['rounds']:,}"))
    header = ("task", "algorithm", "seeds that solved it", "at round: median (range)", "of rounds")
    return Table(header, tuple(rows)).to_markdown()


def _regrets(records: list[Mapping[str, Any]]) -> str:
    rows = []
    for record in records:
        mean = record["summary"]
        figures = (mean["average_regret"], mean["final_gap"], mean["zeta"])
        rows.append((_label(record), mean["algo"], *(f"{value:.4f}" for value in figures)))
    header = ("learns from", "algorithm", "average regret", "final gap", "model error zeta")
    return Table(header, tuple(rows)).to_markdown()


def _label(record: Mapping[str, Any]) -> str:
    kind = "exact negatives" if "--negatives exact" in record["command"] else "sampled negatives"
    env, algo = record["summary"]["env"], record["summary"]["algo"]
    if algo in ("rep-ucb", "lsvi-ucb", "ucbvi"):
        kind = "all transitions"  # they need no negatives
    return kind if env == "lowrank" else f"{env}, {kind}"


def _costs(figures: Mapping[str, float]) -> str:
    whole = next(name for name in figures if name.startswith("seconds_10_seeds"))
    return (
        f"**Costs** on 2 cores: a round at k = 100,000 takes"
        f" {figures['late_round_over_round_100']:.2f}x the time of one at k = 100 (memory"
        f" {figures['late_memory_over_round_100']:.2f}x), ten batched seeds"
        f" {figures['ten_seeds_over_one']:.2f}x the time of one; 10 seeds x 10,000 rounds take"
        f" {figures[whole]:.0f} s; S=2,000, A=10, H=10, d=10 peaks at"
        f" {figures['large_sampled_peak_gb']:.2f} GB"
        f" ({figures['large_sampled_seconds_a_round']:.2f} s a round).\n\n"
        "Each figure is from a file under `results/mdp/`, which also holds its command; "
        "`benchmarks/mdp_results.py` writes them."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
