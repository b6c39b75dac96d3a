"""Run the deep experiments and write their results to results/deep/ and results/minatar/.

    .venv/bin/python benchmarks/deep_results.py [FOLDER [NAME ...]]

FOLDER is the folder of the run folders, `runs` by default. NAMEs select the experiments whose names
begin with them. Each file contains the command, the number of seeds and the summary of every run.
Finished runs in the folder are reused. The seeds of an experiment run in parallel, one process per
core.

The controls (`random`, `constant`) need no training. They play the same evaluation episodes as the
agents of the same seed: 5 evaluations of 20 episodes.
"""

import csv
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from finite_results import ROOT, cucb, versions

from contrastive_ucb.evaluation.rollouts import constant_control, random_control

SPR_UCB = "--algo spr-ucb"
AGENTS = {  # the agents that are compared, by the name of their file
    "spr": "--algo spr",
    "paper": SPR_UCB,
    "paper-hidden": f"{SPR_UCB} --set bonus.feature=hidden",
    "reference": f"{SPR_UCB} --set bonus.preset=reference",
    "algorithm-1": f"{SPR_UCB} --set bonus.preset=algorithm-1",
    "algorithm-1-probs": f"{SPR_UCB} --set bonus.preset=algorithm-1 bonus.feature=probs",
}
SEEDS = dict.fromkeys(AGENTS, 10) | {"paper-hidden": 5, "algorithm-1-probs": 5}
SEA_STEPS = {10: 4_000, 14: 6_000, 20: 16_000}
MINATAR_STEPS = 10_000
MINATAR_PACE = "updates_per_step=0.25"  # a quarter of the usual work
GAMES = ("Breakout", "Freeway", "Seaquest")
SEAS = {
    f"deepsea-{size}-{agent}": (f"train DeepSea-{size} {words} --steps {steps}", SEEDS[agent])
    for size, steps in SEA_STEPS.items()
    for agent, words in AGENTS.items()
}
PEERS = {name: f"--algo {name}" for name in ("curl", "drq", "drq-eps", "der", "otr", "rainbow")}


def _minatar(game: str, words: str, steps: int = MINATAR_STEPS) -> str:
    """The command with the reduced number of updates."""
    pace = MINATAR_PACE if "--set" in words else f"--set {MINATAR_PACE}"
    return f"train MinAtar/{game}-v1 {words} {pace} --steps {steps}"


MINATAR = {
    f"minatar-{game.lower()}-{agent}": (_minatar(game, words), SEEDS[agent])
    for game in GAMES
    for agent, words in AGENTS.items()
}
COMPARISON = {
    f"minatar-{game.lower()}-{agent}": (_minatar(game, words), 3)
    for game in GAMES
    for agent, words in PEERS.items()
} | {  # SimPLe learns in phases, with its own number of updates
    f"minatar-{game.lower()}-simple": (
        f"train MinAtar/{game}-v1 --algo simple --steps {MINATAR_STEPS}",
        3,
    )
    for game in GAMES
}
ROUNDED = {  # matrix products in bfloat16, everything else as above
    f"minatar-{game.lower()}-spr-bfloat16": (
        _minatar(game, "--algo spr --set precision=bfloat16"),
        5,
    )
    for game in ("Breakout", "Freeway")
}
LONG = {  # one seed each
    f"minatar-{game.lower()}-long": (_minatar(game, SPR_UCB, 50_000), 1)
    for game in ("Breakout", "Freeway")
}
ATARI = {  # one seed, a tenth of the length of Atari 100K
    "roadrunner": (f"train RoadRunner {SPR_UCB} --steps 10000", 1),
}
# name: command, number of seeds
EXPERIMENTS = {**SEAS, **MINATAR, **COMPARISON, **ROUNDED, **LONG, **ATARI}
RETURN, POINTS = "charts/episodic_return", 20  # the metric of the curves and their length
TASKS = {f"minatar-{game.lower()}": f"MinAtar/{game}-v1" for game in GAMES} | {
    f"deepsea-{size}": f"DeepSea-{size}" for size in SEA_STEPS
}
CONTROLS = {  # name: environment and the function that plays all seeds
    f"{name}-{policy}": (env, play)
    for name, env in TASKS.items()
    for policy, play in (("random", random_control), ("constant", constant_control))
}
CONTROL_SEEDS = 10


def main() -> None:
    runs, *chosen = sys.argv[1:] or ["runs"]
    for word in chosen:
        if not any(name.startswith(word) for name in [*EXPERIMENTS, *CONTROLS]):
            sys.exit(f"unknown experiment {word!r}; choose from {', '.join(EXPERIMENTS)}")
    for name, (env, play) in CONTROLS.items():
        if not chosen or name.startswith(tuple(chosen)):
            command = f"python benchmarks/deep_results.py runs {name}"
            print(command, flush=True)
            keep(name, {"command": command, "runs": play(env, range(CONTROL_SEEDS))})
            write_control_scores()
    for name, (command, seeds) in EXPERIMENTS.items():
        if not chosen or name.startswith(tuple(chosen)):
            print(f"cucb {command} --seed 0 --seeds {seeds}", flush=True)
            summary = cucb(f"{command} --seed 0 --seeds {seeds} --out {runs}")
            rows = [_with_curve(run) for run in summary.get("runs", [summary])]
            keep(name, {"command": f"cucb {command} --seed 0 --seeds {seeds} --json", "runs": rows})


def _with_curve(run: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run with its learning curve instead of its folder."""
    returns = curve(Path(run["run_dir"]) / "metrics.jsonl", run["steps"])
    return {**{key: run[key] for key in run if key != "run_dir"}, "curve": returns}


def curve(metrics: Path, steps: int) -> list[float | None]:
    """Mean returns of the training episodes that ended in each twentieth of the run."""
    ended: list[list[float]] = [[] for _ in range(POINTS)]
    for line in metrics.read_text().splitlines():
        event = json.loads(line)
        if RETURN in event:
            ended[(event["step"] - 1) * POINTS // steps].append(event[RETURN])
    return [round(fmean(returns), 4) if returns else None for returns in ended]


def write_control_scores() -> None:
    """Copy the scores of all controls into the package, for reports of run folders."""
    files = [*(ROOT / "results").glob("minatar/*.json"), *(ROOT / "results").glob("deep/*.json")]
    records = {path.stem: json.loads(path.read_text()) for path in files}
    with (ROOT / "src/contrastive_ucb/stats/controls.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("env", "policy", "seed", "score"))
        for name in (name.removeprefix("minatar-") for name in CONTROLS):
            for run in records[name]["runs"] if name in records else []:
                score = run["evaluation"]["mean"]
                table.writerow((run["env"], run["algo"], run["seed"], score))


def keep(name: str, record: dict[str, Any]) -> None:
    game = name.removeprefix("minatar-")
    folder = "deep" if game == name else "minatar"
    target = ROOT / "results" / folder / f"{game}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({**record, "versions": versions()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
