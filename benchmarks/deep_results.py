"""Run the deep experiments that are kept under results/deep/.

    .venv/bin/python benchmarks/deep_results.py [FOLDER]     # where run folders go, runs by default

Each file holds the command with its seeds and the summary of every one. Runs in the folder that are
finished already are read, not run again.
"""

import json
import subprocess
import sys

from finite_results import ROOT, versions

SEA = "train DeepSea-10 --steps 4000"
EXPERIMENTS = {  # name: command, number of seeds
    "deepsea-10-algorithm-1": (f"{SEA} --algo spr-ucb --set bonus.preset=algorithm-1", 10),
    "deepsea-10-paper": (f"{SEA} --algo spr-ucb", 4),
    "deepsea-10-spr": (f"{SEA} --algo spr", 4),
}


def main() -> None:
    runs = sys.argv[1] if len(sys.argv) > 1 else "runs"
    for name, (command, seeds) in EXPERIMENTS.items():
        print(f"cucb {command} --seed 0 .. {seeds - 1}", flush=True)
        summaries = [measure(f"{command} --seed {seed}", runs) for seed in range(seeds)]
        record = {
            "command": f"cucb {command} --seed S --json, S = 0 .. {seeds - 1}",
            "runs": summaries,
            "versions": versions(),
        }
        target = ROOT / "results" / "deep" / f"{name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(record, indent=1) + "\n")


def measure(command: str, runs: str) -> dict[str, object]:
    words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split(), "--json", "--out", runs]
    printed = subprocess.run(words, capture_output=True, text=True)
    if printed.returncode:
        sys.exit(printed.stderr)
    summary: dict[str, object] = json.loads(printed.stdout.splitlines()[-1])
    summary.pop("run_dir")
    return summary


if __name__ == "__main__":
    main()
