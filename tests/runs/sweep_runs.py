"""Tiny grids, and what it means that two sweeps agree."""

import json
from pathlib import Path
from typing import Any

from runs.training_runs import TINY

from contrastive_ucb.runs.grid import Job, grid_of

LOWRANK = {"n_states": 6, "n_actions": 2, "rank": 2, "horizon": 3}


def solve_table(rounds: int = 12, seeds: int = 2, **changes: Any) -> dict[str, Any]:
    table = {"kind": "solve", "env": "lowrank", "algo": "contrastive-ucb", "settings": LOWRANK}
    return {**table, "rounds": rounds, "seeds": seeds, **changes}


def train_table(steps: int = 24, **changes: Any) -> dict[str, Any]:
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in TINY.items()}
    table = {"kind": "train", "env": "DeepSea-4", "algo": "spr", "settings": settings}
    return {**table, "steps": steps, **changes}


def jobs_of(*tables: dict[str, Any]) -> list[Job]:
    return [job for table in tables for job in grid_of(table, "test").jobs]


def results_of(root: Path) -> dict[str, Any]:
    """Metrics, scores and summaries of all runs below the folder, byte for byte, without clocks."""
    found: dict[str, Any] = {}
    for name in ("metrics.jsonl", "eval.jsonl", "spec.json"):
        found |= {str(p.relative_to(root)): p.read_bytes() for p in root.rglob(name)}
    for path in root.rglob("DONE"):
        summary = json.loads(path.read_text())
        del summary["seconds"], summary["sha256"]
        found[str(path.relative_to(root))] = summary
    return found


def to_toml(table: dict[str, Any]) -> str:
    """A table without parts as TOML; JSON values are TOML values, but for tables."""
    lines = [f"{key} = {json.dumps(v)}" for key, v in table.items() if not isinstance(v, dict)]
    lines += ["[settings]"]
    lines += [f"{json.dumps(key)} = {json.dumps(v)}" for key, v in table["settings"].items()]
    return "\n".join(lines) + "\n"
