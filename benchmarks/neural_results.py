"""Run the experiments of the neural class and keep their figures under results/neural/.

    .venv/bin/python benchmarks/neural_results.py [NAME ...]     # all, or some by name

Each file holds the command, the summary as `cucb` printed it (means, and every seed) and versions;
continuous.json has the slope of zeta of every seed besides. Runs are kept in runs/neural/, so a
script that was stopped goes on where it was.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from finite_results import inputs_of, versions

from contrastive_ucb.agents.finite.config import DEFAULTS
from contrastive_ucb.experiments.catalog import CONTROLLED, FRESH_SEED, RICH_LOCKS
from contrastive_ucb.experiments.catalog import RICH_CONTROLS as CONTROLS
from contrastive_ucb.stats.slopes import slope

ROOT = Path(__file__).parents[1]
OUT = ROOT / "results" / "neural"
RUNS = ROOT / "runs" / "neural"
ROUNDS = 3000  # of the continuous MDP

LOCKS = {**RICH_LOCKS, 50: (400, 1)}  # H: rounds at most, seeds
LONG_SEED = 101  # at H=50; seed 100 had been seen there with the usual settings
LONG = "--alpha 0.04 --epochs 5"  # gamma = 2, and longer fits of more data
DEEP_SEEDS = {6: 3, 12: 1}  # of the deep learner as a control, by H; of 12 one takes half an hour
UPDATES_PER_STEP = 0.25  # of the deep learner, as published; its default for vectors is 1


def lock(algo: str, horizon: int, rounds: int, n_seeds: int, seed: int = FRESH_SEED) -> str:
    return (
        f"solve rich-lock --n-actions 10 --algo {algo} --horizon {horizon} --rounds {rounds}"
        f" --seed {seed} --seeds {n_seeds}"
    )


def deep_learner(horizon: int, n_seeds: int) -> str:
    """Rainbow without a bonus in the same locks, for as many trajectories as the controls."""
    rounds, _ = CONTROLLED[horizon]
    steps = rounds * DEFAULTS["trajectories"] * horizon * horizon  # H starts, each of H steps
    return (
        f"train RichLock-{horizon} --algo rainbow --set updates_per_step={UPDATES_PER_STEP}"
        f" --steps {steps} --seed {FRESH_SEED} --seeds {n_seeds}"
    )


EXPERIMENTS = {
    "bench": "bench neural",
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
            sys.exit(f"no experiment is called {name!r}; there are {', '.join(EXPERIMENTS)}")
        command = EXPERIMENTS[name]
        words = [str(Path(sys.executable).with_name("cucb")), *command.split(), "--json"]
        is_bench = command.startswith("bench")
        if not is_bench:
            words += ["--out", str(RUNS)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{name}: cucb {command} failed")
        summary = json.loads(done.stdout.splitlines()[-1])
        if not is_bench:  # that of one seed alone has no list
            summary.setdefault("runs", [summary.copy()])
        if name == "continuous":
            summary |= slopes(summary)
        inputs = {} if is_bench else {"inputs": inputs_of(command)}
        content = {"command": f"cucb {command}", **inputs, "summary": local(summary)}
        content["versions"] = versions()
        (OUT / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        print(name, "done")


def slopes(summary: dict) -> dict:
    """The slope of log zeta on log k over [K/30, K] of every seed."""
    found = []
    for run in summary["runs"]:
        lines = (Path(run["run_dir"]) / "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        rounds, zeta = (np.array([row[key] for row in rows]) for key in ("step", "zeta"))
        found.append(float(slope(rounds, zeta, (ROUNDS / 30, ROUNDS))))
    return {"zeta_slopes": found}


def local(summary: dict) -> dict:
    """The summary without the folders of this machine."""
    own = {key: value for key, value in summary.items() if key not in ("run_dir", "runs")}
    runs = [local(run) for run in summary.get("runs", [])]
    return own | ({"runs": runs} if runs else {})


if __name__ == "__main__":
    main(sys.argv[1:])
