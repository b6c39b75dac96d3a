"""Run the deep experiments that are kept under results/deep/.

    .venv/bin/python benchmarks/deep_results.py [FOLDER [NAME ...]]

FOLDER is where run folders go, runs by default; NAMEs are those of experiments or their beginnings.
Each file holds the command with its seeds and the summary of every one. Runs in the folder that are
finished already are read, not run again.
"""

import json
import subprocess
import sys
from typing import Any

from finite_results import ROOT, versions

SPR_UCB = "--algo spr-ucb"
AGENTS = {  # what is compared, by the name of its file
    "spr": "--algo spr",
    "paper": SPR_UCB,
    "paper-hidden": f"{SPR_UCB} --set bonus.feature=hidden",
    "reference": f"{SPR_UCB} --set bonus.preset=reference",
    "algorithm-1": f"{SPR_UCB} --set bonus.preset=algorithm-1",
    "algorithm-1-probs": f"{SPR_UCB} --set bonus.preset=algorithm-1 bonus.feature=probs",
}
SEA_STEPS = {10: 4_000, 14: 6_000, 20: 16_000}
MINATAR_STEPS = 10_000
GAMES = ("Breakout", "Freeway", "Seaquest")
SEAS = {
    f"deepsea-{size}-{agent}": (f"train DeepSea-{size} {words} --steps {steps}", n_seeds)
    for size, steps in SEA_STEPS.items()
    for agent, words in AGENTS.items()
    for n_seeds in [10 if agent == "algorithm-1" else 5]
}
MINATAR = {
    f"minatar-{game.lower()}-{agent}": (
        f"train MinAtar/{game}-v1 {words} --steps {MINATAR_STEPS}",
        5,
    )
    for game in GAMES
    for agent, words in AGENTS.items()
}
LONG = {  # one seed each, as long as there is time
    f"minatar-{game.lower()}-long": (f"train MinAtar/{game}-v1 --algo spr-ucb --steps 50000", 1)
    for game in ("Breakout", "Freeway")
}
EXPERIMENTS = {**SEAS, **MINATAR, **LONG}  # name: command, number of seeds


def main() -> None:
    runs, *chosen = sys.argv[1:] or ["runs"]
    for word in chosen:
        if not any(name.startswith(word) for name in [*EXPERIMENTS, "bench-deep"]):
            sys.exit(f"no experiment begins with {word!r}; there are {', '.join(EXPERIMENTS)}")
    for name, (command, seeds) in EXPERIMENTS.items():
        if not chosen or name.startswith(tuple(chosen)):
            print(f"cucb {command} --seed 0 --seeds {seeds}", flush=True)
            summary = measure(f"{command} --seed 0 --seeds {seeds} --out {runs}")
            rows = [{key: run[key] for key in run if key != "run_dir"} for run in runs_of(summary)]
            keep(name, {"command": f"cucb {command} --seed 0 --seeds {seeds} --json", "runs": rows})
    if not chosen or "bench-deep" in chosen:
        keep("bench-deep", {"command": "cucb bench deep --json", "summary": measure("bench deep")})


def runs_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The summaries of the seeds; that of one seed alone has no list."""
    found: list[dict[str, Any]] = summary.get("runs", [summary])
    return found


def measure(command: str) -> dict[str, Any]:
    """What `cucb` says to the command with --json."""
    words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split(), "--json"]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if printed.returncode:
        sys.exit(printed.returncode)
    summary: dict[str, Any] = json.loads(printed.stdout.splitlines()[-1])
    return summary


def keep(name: str, record: dict[str, Any]) -> None:
    target = ROOT / "results" / "deep" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({**record, "versions": versions()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
