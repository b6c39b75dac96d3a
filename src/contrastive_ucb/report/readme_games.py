"""The README's results on zero-sum games: random ones, the vault, and what an equilibrium costs.

A record has the command, and the summary with one entry a seed under "runs".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from math import sqrt
from typing import Any

from contrastive_ucb.envs import LockGame
from contrastive_ucb.report.read import agent_order
from contrastive_ucb.report.readme_mdp import learns_from, solved_table
from contrastive_ucb.report.tables import NOTHING, Table, certifies

Record = Mapping[str, Any]


def games_text(records: Mapping[str, Record]) -> str:
    """What there are records of; a part without any is left out."""
    runs = sorted((r for r in records.values() if "algo" in r["summary"]), key=_order)
    random = [r for r in runs if r["summary"]["env"] == "lowrank-game"]
    vault = [r for r in runs if r["summary"]["env"] == "lock-game"]
    parts = []
    if random:
        parts += _random_games(random)
    if vault:
        parts += [
            "**The vault** (a combination lock for an intruder and a guard, reward learnt; solved:"
            f" a gap of at most {LockGame.solved_gap:g} in five rounds running)",
            solved_table(vault),
        ]
    if "bench-games" in records and (costs := _costs(records["bench-games"]["summary"])):
        parts.append(costs)
    return "\n\n".join(parts)


def _random_games(records: list[Record]) -> list[str]:
    """The table of the long runs; the short runs, their beginnings, give it the first gaps."""
    counts = {record["summary"]["rounds"] for record in records}
    short, long = min(counts), max(counts)
    beginnings = {_setting(r): r["summary"] for r in records if r["summary"]["rounds"] == short}
    rows = [
        _row(record, beginnings.get(_setting(record)) if short < long else None)
        for record in records
        if record["summary"]["rounds"] == long
    ]
    header = (
        *("game", "learns from", "algorithm"),
        *(f"average gap, K={short:,}", f"average gap, K={long:,}", "ratio"),
        *("exploitability", "certificate", "bracket held: rounds (seeds)"),
    )
    ideal = f" 1/sqrt(K) would give the ratio {sqrt(short / long):.2f}." if short < long else ""
    return [
        f"**Zero-sum games** (random, S=6, d=3, H=3; means over {len(_seeds(records[0]))} seeds)",
        Table(header, tuple(rows)).to_markdown(),
        f"The average is over the pairs of rounds 1 to K.{ideal} Exploitability is that of the pair"
        " with the smallest certificate V-upper - V-lower; without a bonus, that of the last pair."
        " The bracket is V-lower <= V of an equilibrium <= V-upper; in parentheses, the seeds in"
        " which it held in all rounds.",
    ]


def _row(record: Record, beginning: Mapping[str, Any] | None) -> tuple[str, ...]:
    mean = record["summary"]
    first = None if beginning is None else beginning["average_gap"]
    last = mean["average_gap"]
    known = certifies(mean["certificate"])
    return (
        _size(record),
        learns_from(record),
        mean["algo"],
        _shown(first),
        _shown(last),
        f"{last / first:.2f}" if first else NOTHING,
        _shown(mean["exploitability"]),
        _shown(mean["certificate"] if known else None),
        _bracket(_seeds(record)),
    )


def _bracket(runs: list[Mapping[str, Any]]) -> str:
    """Rounds of all seeds in which it held, and the seeds in which it always did."""
    held = sum(round(run["bracket_fraction"] * run["rounds"]) for run in runs)
    always = sum(run["bracket_fraction"] == 1 for run in runs)
    return f"{held:,} of {sum(run['rounds'] for run in runs):,} ({always} of {len(runs)})"


def _costs(figures: Mapping[str, float]) -> str:
    """How much faster all games at once are than one linear program each, as far as measured."""
    prefix = "speedup_"
    sizes = [n.removeprefix(prefix) for n in figures if re.fullmatch(rf"{prefix}\d+x\d+", n)]
    if not sizes:
        return ""
    listed = ", ".join(f"{figures[prefix + size]:,.0f}x ({size})" for size in sizes)
    gaps = [figures[name] for size in sizes if (name := f"max_gap_{size}") in figures]
    worst = f"; nobody gains more than {max(gaps):.1g} by leaving one" if gaps else ""
    return (
        "**Costs of equilibria**: coarse correlated equilibria of many random games in one call,"
        f" against one call of scipy's linprog a game: faster by {listed}{worst}."
    )


def _order(record: Record) -> tuple[Any, ...]:
    """By game, then agent as the package lists them, sampled negatives before exact ones."""
    exact = learns_from(record) == "exact negatives"
    return _size(record), *agent_order(record["summary"]["algo"]), exact


def _setting(record: Record) -> str:
    """Everything but the number of rounds."""
    return re.sub(r" --rounds \d+", "", record["command"])


def _size(record: Record) -> str:
    """Actions of the row player x those of the column player, 3x3 by default."""
    words = record["command"].split()
    given = dict(pairwise(words))
    rows = given.get("--n-actions", "3")
    return f"{rows}x{given.get('--n-column-actions', rows)}"


def _seeds(record: Record) -> list[Mapping[str, Any]]:
    """The summary of each seed; a run of one seed has no list of them."""
    summary = record["summary"]
    return list(summary.get("runs", [summary]))


def _shown(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
