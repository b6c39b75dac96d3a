"""`cucb train ENV --seeds N`: one process a seed, as many at once as there are cores.

Batching the networks of several seeds in one process would save calls, not arithmetic. Processes
use all cores, for any network, and every seed has the bits that it has alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any

from contrastive_ucb.core.errors import UserError


def train_seeds(words: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """Run `cucb train` with these words for each seed; what all their summaries say together."""
    at_once = min(len(seeds), _cores())
    print(
        f"training {len(seeds)} seeds, {at_once} at once; 'cucb status' with the folder of --out "
        "says how far they are",
        file=sys.stderr,
    )
    with ThreadPoolExecutor(at_once) as pool:
        done = list(pool.map(lambda seed: _run([*words, "--seed", str(seed)], seed), seeds))
    failed = {seed: said for seed, said in zip(seeds, done, strict=True) if isinstance(said, str)}
    if failed:
        seed, said = next(iter(failed.items()))
        raise UserError(
            f"{len(failed)} of {len(seeds)} seeds failed; seed {seed}: {said}; the same command "
            "goes on with those that are not finished"
        )
    runs = [said for said in done if isinstance(said, dict)]
    first = runs[0]
    own = ("algo", "env", "steps", "bonus", "precision")  # the last where it is not the usual one
    summary = {name: first[name] for name in own if name in first}
    summary |= {"seed": seeds[0], "seeds": len(seeds)}
    summary["evaluation"] = {"mean": fmean(run["evaluation"]["mean"] for run in runs)}
    if "solved_at" in first:
        summary["solved"] = sum(run["solved_at"] is not None for run in runs)
    return {**summary, "runs": runs}


def _run(words: Sequence[str], seed: int) -> dict[str, Any] | str:
    """One seed in a process of its own: its summary, or the last line of its complaint."""
    command = [sys.executable, "-m", "contrastive_ucb.cli", "train", *words, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        print(f"seed {seed}: {said[-1]}", file=sys.stderr)
        return said[-1]
    summary: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    score = summary["evaluation"]["mean"]
    print(f"seed {seed}: mean score {score:.5g}, {summary['seconds']:.0f} s", file=sys.stderr)
    return summary


def _cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))
