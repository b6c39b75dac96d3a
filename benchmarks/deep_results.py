"""Run the deep experiments that are kept under results/deep/ and results/minatar/.

    .venv/bin/python benchmarks/deep_results.py [FOLDER [NAME ...]]

FOLDER is where run folders go, runs by default; NAMEs are those of experiments or their beginnings.
Each file holds the command with its seeds and the summary of every one. Runs in the folder that are
finished already are read, not run again.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from finite_results import ROOT, versions

from contrastive_ucb.commands.bench_deep import MARKS
from contrastive_ucb.evaluation.rollouts import digest, evaluate

SPR_UCB = "--algo spr-ucb"
AGENTS = {  # bonuses that are compared, by the name of their file
    "spr": "--algo spr",
    "paper": SPR_UCB,
    "paper-hidden": f"{SPR_UCB} --set bonus.feature=hidden",
    "reference": f"{SPR_UCB} --set bonus.preset=reference",
    "algorithm-1": f"{SPR_UCB} --set bonus.preset=algorithm-1",
    "algorithm-1-probs": f"{SPR_UCB} --set bonus.preset=algorithm-1 bonus.feature=probs",
}
SEA_STEPS = {10: 4_000, 14: 6_000, 20: 16_000}
MINATAR_STEPS = 10_000
MINATAR_PACE = "updates_per_step=0.25"  # a quarter of the usual work
GAMES = ("Breakout", "Freeway", "Seaquest")
SEAS = {
    f"deepsea-{size}-{agent}": (f"train DeepSea-{size} {words} --steps {steps}", n_seeds)
    for size, steps in SEA_STEPS.items()
    for agent, words in AGENTS.items()
    for n_seeds in [10 if agent == "algorithm-1" else 5]
}
PEERS = {name: f"--algo {name}" for name in ("curl", "drq", "drq-eps", "der", "otr", "rainbow")}


def _paced(words: str) -> str:
    """The words with one more setting."""
    return f"{words} {MINATAR_PACE}" if "--set" in words else f"{words} --set {MINATAR_PACE}"


MINATAR = {
    f"minatar-{game.lower()}-{agent}": (
        f"train MinAtar/{game}-v1 {_paced(words)} --steps {MINATAR_STEPS}",
        5,
    )
    for game in GAMES
    for agent, words in AGENTS.items()
}
COMPARISON = {
    f"minatar-{game.lower()}-{agent}": (
        f"train MinAtar/{game}-v1 {_paced(words)} --steps {MINATAR_STEPS}",
        3,
    )
    for game in GAMES
    for agent, words in PEERS.items()
} | {  # SimPLe learns in phases, at a pace of its own
    f"minatar-{game.lower()}-simple": (
        f"train MinAtar/{game}-v1 --algo simple --steps {MINATAR_STEPS}",
        3,
    )
    for game in GAMES
}
ROUNDED = {  # products in bfloat16, everything else as above
    f"minatar-{game.lower()}-spr-bfloat16": (
        f"train MinAtar/{game}-v1 {_paced('--algo spr --set precision=bfloat16')}"
        f" --steps {MINATAR_STEPS}",
        5,
    )
    for game in ("Breakout", "Freeway")
}
LONG = {  # one seed each
    f"minatar-{game.lower()}-long": (
        f"train MinAtar/{game}-v1 {_paced(SPR_UCB)} --steps 50000",
        1,
    )
    for game in ("Breakout", "Freeway")
}
ATARI = {  # one seed, a tenth of the length of Atari 100K
    "roadrunner": (f"train RoadRunner {SPR_UCB} --steps 10000", 1),
}
# name: command, number of seeds
EXPERIMENTS = {**SEAS, **MINATAR, **COMPARISON, **ROUNDED, **LONG, **ATARI}
RETURN, POINTS = (
    "charts/episodic_return",
    20,
)  # the tag of the curves, and how many points they have
RANDOM = {f"minatar-{game.lower()}-random": f"MinAtar/{game}-v1" for game in GAMES}
RANDOM_EPISODES = 100


def main() -> None:
    runs, *chosen = sys.argv[1:] or ["runs"]
    for word in chosen:
        if not any(name.startswith(word) for name in [*EXPERIMENTS, *RANDOM, "bench-deep"]):
            sys.exit(f"no experiment begins with {word!r}; there are {', '.join(EXPERIMENTS)}")
    for name, env in RANDOM.items():
        if not chosen or name.startswith(tuple(chosen)):
            command = f"python benchmarks/deep_results.py runs {name}"
            keep(name, {"command": command, "runs": [random_play(env, seed) for seed in range(5)]})
    for name, (command, seeds) in EXPERIMENTS.items():
        if not chosen or name.startswith(tuple(chosen)):
            print(f"cucb {command} --seed 0 --seeds {seeds}", flush=True)
            summary = measure(f"{command} --seed 0 --seeds {seeds} --out {runs}")
            rows = [_kept(run) for run in runs_of(summary)]
            keep(name, {"command": f"cucb {command} --seed 0 --seeds {seeds} --json", "runs": rows})
    if not chosen or "bench-deep" in chosen:
        record = {"summary": measure("bench deep"), "marks": MARKS}
        keep("bench-deep", {"command": "cucb bench deep --json", **record})


def _kept(run: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run, with its learning curve in the place of its folder."""
    returns = curve(Path(run["run_dir"]) / "metrics.jsonl", run["steps"])
    return {**{key: run[key] for key in run if key != "run_dir"}, "curve": returns}


def curve(metrics: Path, steps: int) -> list[float | None]:
    """Mean returns of the training episodes that ended in each twentieth of the run."""
    ended: list[list[float]] = [[] for _ in range(POINTS)]
    for line in metrics.read_text().splitlines():
        event = json.loads(line)
        if RETURN in event:
            ended[(event["step"] - 1) * POINTS // steps].append(event[RETURN])
    return [round(fmean(some), 4) if some else None for some in ended]


def runs_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The summaries of the seeds; that of one seed alone has no list."""
    found: list[dict[str, Any]] = summary.get("runs", [summary])
    return found


class Nobody:
    """Who has no opinion; with epsilon 1 nobody asks."""

    def best(self, observations: np.ndarray) -> np.ndarray:
        return np.zeros(len(observations), dtype=np.int64)


def random_play(env: str, seed: int) -> dict[str, Any]:
    """Uniform actions, evaluated as agents are."""
    scores = evaluate(Nobody(), env, seed, RANDOM_EPISODES, epsilon=1.0)
    own = {"algo": "random", "env": env, "seed": seed, "steps": 0, "bonus": "none"}
    return {**own, "evaluation": digest(scores)}


def measure(command: str) -> dict[str, Any]:
    """What `cucb` says to the command with --json."""
    words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split(), "--json"]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if printed.returncode:
        sys.exit(printed.returncode)
    summary: dict[str, Any] = json.loads(printed.stdout.splitlines()[-1])
    return summary


def keep(name: str, record: dict[str, Any]) -> None:
    game = name.removeprefix("minatar-")
    folder = "deep" if game == name else "minatar"
    target = ROOT / "results" / folder / f"{game}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({**record, "versions": versions()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
