"""Write learning curves and scores of Atari runs, also of unfinished ones, to results/atari/.

    .venv/bin/python benchmarks/atari_progress.py RUNS

RUNS is the --out folder of `cucb sweep benchmarks/atari_freeway.toml`. There is one file per game.
An unfinished run has the steps it has reached and no score.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from deep_results import RETURN, curve
from finite_results import ROOT, versions

from contrastive_ucb.stats.published import atari100k

PUBLISHED = ("SPR", "SPR-UCB")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/atari_progress.py RUNS")
    by_game: dict[str, list[dict[str, Any]]] = {}
    for spec in sorted(Path(sys.argv[1]).glob("**/seed_*/spec.json")):
        run = progress(spec.parent)
        by_game.setdefault(run["env"], []).append(run)
    if not by_game:
        sys.exit(f"no run folders below {sys.argv[1]}; pass the --out folder of the sweep")
    for game, runs in by_game.items():
        target = ROOT / "results" / "atari" / f"{game.lower()}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        record = {"published": published(game), "runs": runs, "versions": versions()}
        target.write_text(json.dumps(record, indent=1) + "\n")
        for run in runs:
            print(f"{game} {run['agent']} seed {run['seed']}: step {run['step']} of {run['steps']}")


def progress(folder: Path) -> dict[str, Any]:
    """The current step of a run, its mean returns per twentieth of the run, and its final score."""
    spec = json.loads((folder / "spec.json").read_text())
    config, metrics = spec["config"], folder / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    run = {
        "agent": spec["agent"],
        "atari": config["agent"].get("atari"),
        "bonus": config["agent"].get("bonus"),
        "env": config["env"],
        "seed": spec["seed"],
        "step": max((line["step"] for line in lines), default=0),
        "steps": config["steps"],
        "episodes": sum(RETURN in line for line in lines),
        "curve": curve(metrics, config["steps"]),
    }
    done = folder / "DONE"
    return run | {
        "evaluation": json.loads(done.read_text())["evaluation"] if done.exists() else None
    }


def published(game: str) -> dict[str, Any]:
    """Human-normalized scores of the paper's table, their raw scores, and numbers of runs."""
    table = atari100k()
    at = table.games.index(game)
    low, high = float(table.random[at]), float(table.human[at])
    scores: dict[str, Any] = {"random": low, "human": high}
    for name in PUBLISHED:
        method = table.methods[name]
        score = float(method.scores[at])
        deviation = None if method.deviations is None else float(method.deviations[at])
        scores[name] = {
            "human_normalized": score,
            "standard_deviation": deviation,
            "raw": round(low + score * (high - low), 2),
            "runs": method.n_runs,
        }
    return scores


if __name__ == "__main__":
    main()
