"""Run the deep experiments that are kept under results/deep/.

    .venv/bin/python benchmarks/deep_results.py [FOLDER [NAME ...]]

FOLDER is where run folders go, runs by default; NAMEs are those of experiments or their beginnings.
Each file holds the command with its seeds and the summary of every one. Runs in the folder that are
finished already are read, not run again.
"""

import json
import subprocess
import sys

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
MINATAR_STEPS = 5_000
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
EXPERIMENTS = {**SEAS, **MINATAR}  # name: command, number of seeds


def main() -> None:
    runs, *chosen = sys.argv[1:] or ["runs"]
    for name, (command, seeds) in EXPERIMENTS.items():
        if chosen and not any(name.startswith(one) for one in chosen):
            continue
        print(f"cucb {command} --seed 0 --seeds {seeds}", flush=True)
        keep(name, f"{command} --seed 0 --seeds {seeds}", runs)


def keep(name: str, command: str, runs: str) -> None:
    """Run the command and write what it says to the file of that name."""
    words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split(), "--json", "--out", runs]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if printed.returncode:
        sys.exit(printed.returncode)
    summary = json.loads(printed.stdout.splitlines()[-1])
    for run in summary["runs"]:
        run.pop("run_dir")
    record = {"command": f"cucb {command} --json", "runs": summary["runs"], "versions": versions()}
    target = ROOT / "results" / "deep" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
