"""Does the bonus know where the agent has not been? Looked up in agents trained in the deep sea.

    .venv/bin/python benchmarks/deepsea_features.py [FOLDER]

FOLDER has the runs of `deep_results.py`, runs by default. Of the agents of N = 14, at the end of
training and over all cells that can be reached:

    first_direction    part of the squared features that one direction of R^d explains: if it is
                       nearly 1, all cells look alike to Sigma
    rank_correlation   of the bonus of (cell, action) with how rarely it was taken; 1 is a bonus
                       that knows, 0 one that does not
    never_over_often   mean bonus of what was never taken over that of what was taken 20 times and
                       more; None where everything was taken

The figures go to results/deep/deepsea-features.json.
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
from contrastive_ucb.commands import train as command
from contrastive_ucb.commands.options import parse
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.experiments.deep_agent import DeepAgent
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.experiments.training import Training

SIZE, SEEDS, OFTEN = 14, 5, 20


def look(folder: Path) -> dict[str, Any]:
    """The figures of one trained agent."""
    agent = DeepAgent.of_run(folder)
    learner, replay = agent.trainer.agent, agent.trainer.replay
    times = visits(replay)
    seen = replay.observations(times).reshape(len(times), -1).argmax(1)
    counts = np.zeros((SIZE**2, agent.trainer.env.n_actions))
    np.add.at(counts, (seen, replay.actions(times)), 1)
    cells = np.array([row * SIZE + c for row in range(SIZE) for c in range(row + 1)])
    frames = np.eye(SIZE**2, dtype=np.float32)[cells]
    taken = counts[cells]  # (cells, A)
    with torch.no_grad():
        latent = learner.network.encoder(learner.inputs.plain(frames))
        bonus = learner.bonus.of_all(latent).numpy()
        first = torch.zeros(len(cells), dtype=torch.long)
        features = learner.bonus.feature(latent, first).double().numpy()
    spread = np.linalg.svd(features, compute_uv=False) ** 2
    never, often = bonus[taken == 0], bonus[taken >= OFTEN]
    return {
        "seed": agent.training.seed,
        "pairs": int(taken.size),
        "never_taken": int(never.size),
        "first_direction": float(spread[0] / spread.sum()),
        "rank_correlation": float(spearmanr(bonus.ravel(), -taken.ravel()).statistic),
        "never_over_often": float(never.mean() / often.mean()) if never.size else None,
    }


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    found: dict[str, list[dict[str, Any]]] = {}
    for name, words in AGENTS.items():
        asked = parse(command.Train, command.gathered(words.split()), "", command.Train())
        settings, steps = command.read_settings(asked.set), SEA_STEPS[SIZE]
        if name == "spr":  # it has no bonus
            continue
        for seed in range(SEEDS):
            task = Training(f"DeepSea-{SIZE}", asked.algo, settings, steps, seed=seed)
            with one_thread():
                found.setdefault(name, []).append(look(RunFolder(task.spec(), root).path))
    record = {
        "command": "python benchmarks/deepsea_features.py",
        "env": f"DeepSea-{SIZE}",
        "features": found,
        "versions": versions(),
    }
    target = ROOT / "results" / "deep" / "deepsea-features.json"
    target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
