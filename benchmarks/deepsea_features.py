"""Compare the bonus of agents trained in DeepSea with their visit counts.

    .venv/bin/python benchmarks/deepsea_features.py [FOLDER]

FOLDER contains the runs of `deep_results.py`; it is `runs` by default. The figures are computed for
DeepSea with N = 14, at the end of training, over all reachable cells:

    first_direction    share of the squared norm of the features along one direction of R^d; close
                       to 1, Sigma cannot distinguish the cells
    rank_correlation   of the bonus of (cell, action) with the negative visit count; 1 if the bonus
                       orders the pairs by visits, 0 if it is unrelated to them
    never_over_often   mean bonus of the pairs that were never visited, divided by that of the pairs
                       that were visited at least 20 times; None if every pair was visited

They are written to results/deep/deepsea-features.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from deep_results import AGENTS, SEA_STEPS
from finite_results import ROOT, versions
from scipy.stats import spearmanr

from contrastive_ucb.agents.deep.bonus import visits
from contrastive_ucb.cli import train as command
from contrastive_ucb.cli.options import parse
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.runs.save import load
from contrastive_ucb.runs.store import RunFolder

SIZE, SEEDS, OFTEN = 14, 5, 20


def figures_of(folder: Path) -> dict[str, Any]:
    """Figures of one trained agent."""
    agent = load(folder)
    learner, replay = agent.trainer.agent, agent.trainer.replay
    times = visits(replay)
    visited = replay.history.observations(times).reshape(len(times), -1).argmax(1)
    counts = np.zeros((SIZE**2, agent.trainer.env.n_actions))
    np.add.at(counts, (visited, replay.actions(times)), 1)
    cells = np.array([row * SIZE + c for row in range(SIZE) for c in range(row + 1)])
    frames = np.eye(SIZE**2, dtype=np.float32)[cells]
    visits_of = counts[cells]  # (cells, A)
    with torch.no_grad():
        latent = learner.network.encoder(learner.inputs.plain(frames))
        bonus = learner.bonus.of_all(latent).numpy()
        first = torch.zeros(len(cells), dtype=torch.long)
        phi = learner.bonus.feature(latent, first).double().numpy()
    squared = np.linalg.svd(phi, compute_uv=False) ** 2
    never, often = bonus[visits_of == 0], bonus[visits_of >= OFTEN]
    return {
        "seed": agent.training.seed,
        "pairs": int(visits_of.size),
        "never_taken": int(never.size),
        "first_direction": float(squared[0] / squared.sum()),
        "rank_correlation": float(spearmanr(bonus.ravel(), -visits_of.ravel()).statistic),
        "never_over_often": float(never.mean() / often.mean()) if never.size else None,
    }


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    features: dict[str, list[dict[str, Any]]] = {}
    for name, words in AGENTS.items():
        words = f"DeepSea-{SIZE} --steps {SEA_STEPS[SIZE]} {words}"
        training = parse(command.Train, words.split(), "").training()
        if name == "spr":  # no bonus
            continue
        for seed in range(SEEDS):
            folder = RunFolder(training.with_seed(seed).spec(), root)
            with one_thread():
                features.setdefault(name, []).append(figures_of(folder.path))
    record = {
        "command": "python benchmarks/deepsea_features.py",
        "env": f"DeepSea-{SIZE}",
        "features": features,
        "versions": versions(),
    }
    target = ROOT / "results" / "deep" / "deepsea-features.json"
    target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
