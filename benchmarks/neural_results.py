"""Run the experiments of the neural class and write their results to results/neural/.

    .venv/bin/python benchmarks/neural_results.py [NAME ...]     # all, or those with these names

Each file contains the command, the summary that `cucb` printed (means and every seed) and versions;
continuous.json also contains the slope of zeta for every seed. Runs are stored in runs/neural/, so
an interrupted script resumes.
"""

import json
import sys
from pathlib import Path

import numpy as np
from finite_results import ROOT, cucb, record_of

from contrastive_ucb.agents.finite.config import DEFAULTS
from contrastive_ucb.stats.slopes import slope

OUT = ROOT / "results" / "neural"
RUNS = ROOT / "runs" / "neural"
ROUNDS = 3000  # of the continuous MDP

FRESH_SEED = 100  # lower seeds were used to choose the settings
LOCKS = {6: (40, 10), 12: (70, 10), 24: (200, 5), 50: (400, 1)}  # H: maximal rounds, seeds
CONTROLLED = {6: (42, 5), 12: (78, 3), 24: (264, 2)}
CONTROLS = ["no-bonus", "uniform"]
LONG_SEED = 101  # at H=50; seed 100 was used there with the default settings
LONG = "--alpha 0.04 --epochs 5"  # gamma = 2, and longer fits
DEEP_SEEDS = {6: 3, 12: 1}  # seeds of the deep control, by H; at H=12 one takes 30 minutes
UPDATES_PER_STEP = 0.25  # of the deep control, as published; the default for vectors is 1


def lock(algo: str, horizon: int, rounds: int, n_seeds: int, seed: int = FRESH_SEED) -> str:
    return (
        f"solve rich-lock --n-actions 10 --algo {algo} --horizon {horizon} --rounds {rounds}"
        f" --seed {seed} --seeds {n_seeds}"
    )


def deep_learner(horizon: int, n_seeds: int) -> str:
    """Rainbow without a bonus on the same locks, with as many trajectories as the controls."""
    rounds, _ = CONTROLLED[horizon]
    steps = rounds * DEFAULTS["trajectories"] * horizon**2  # H per round, of H steps
    return (
        f"train RichLock-{horizon} --algo rainbow --set updates_per_step={UPDATES_PER_STEP}"
        f" --steps {steps} --seed {FRESH_SEED} --seeds {n_seeds}"
    )


EXPERIMENTS = {
    **{
        f"rich-lock-{horizon}-contrastive-ucb": lock("contrastive-ucb", horizon, *size)
        for horizon, size in LOCKS.items()
    },
    "rich-lock-50-epochs": f"{lock('contrastive-ucb', 50, 400, 1, LONG_SEED)} {LONG}",
    **{
        f"rich-lock-{horizon}-{algo}": lock(algo, horizon, *size)
        for horizon, size in CONTROLLED.items()
        for algo in CONTROLS
    },
    **{f"rich-lock-{h}-rainbow": deep_learner(h, n_seeds) for h, n_seeds in DEEP_SEEDS.items()},
    **{
        f"rich-lock-game-{algo}": (
            f"solve rich-lock-game --algo {algo} --horizon 4 --rounds 60 --seeds 5"
        )
        for algo in ("contrastive-ulcb", *CONTROLS)
    },
    "continuous": (
        "solve continuous --algo contrastive-ucb --rank 4 --horizon 4 --n-actions 3"
        f" --rounds {ROUNDS} --seeds 10"
    ),
}


def main(names: list[str]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name in names or EXPERIMENTS:
        if name not in EXPERIMENTS:
            sys.exit(f"unknown experiment {name!r}; choose from {', '.join(EXPERIMENTS)}")
        command = EXPERIMENTS[name]
        summary = cucb(f"{command} --out {RUNS}")
        summary.setdefault("runs", [summary.copy()])  # with one seed there is no list
        if name == "continuous":
            summary |= slopes(summary)
        content = json.dumps(record_of(command, summary), indent=1)
        (OUT / f"{name}.json").write_text(content + "\n")
        print(name, "done")


def slopes(summary: dict) -> dict:
    """Slope of log zeta on log k over [K/30, K] for every seed."""
    values = []
    for run in summary["runs"]:
        lines = (Path(run["run_dir"]) / "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        rounds, zeta = (np.array([row[key] for row in rows]) for key in ("step", "zeta"))
        values.append(float(slope(rounds, zeta, (ROUNDS / 30, ROUNDS))))
    return {"zeta_slopes": values}


if __name__ == "__main__":
    main(sys.argv[1:])
