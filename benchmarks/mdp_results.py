"""Run the experiments whose figures the README shows, and keep them under results/mdp/.

    .venv/bin/python benchmarks/mdp_results.py [NAME ...]     # all, or some by name

Each file holds the command, the summary as `cucb` printed it (means, and every seed) and versions.
"""

import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
LOCK = "solve lock --n-dead 20 --n-actions 5 --horizon 6 --seeds 10"
LOWRANK = "solve lowrank --n-states 10 --n-actions 3 --rank 3 --horizon 4 --rounds 10000 --seeds 10"
CONTROLS = ("no-bonus", "epsilon-greedy", "uniform")
PEERS = ("contrastive-ucb", "rep-ucb", "lsvi-ucb", "ucbvi", "no-bonus", "epsilon-greedy", "uniform")

EXPERIMENTS = {
    **{
        f"lock-exact-{algo}": f"{LOCK} --algo {algo} --negatives exact --rounds 800"
        for algo in ("contrastive-ucb", *CONTROLS)
    },
    **{
        f"lock-sampled-{algo}": f"{LOCK} --algo {algo} --rounds 5000"
        for algo in ("contrastive-ucb", *CONTROLS)
    },
    "deepsea-10-exact": "solve deepsea --size 10 --negatives exact --rounds 2000 --seeds 10",
    "deepsea-10-sampled": "solve deepsea --size 10 --rounds 2000 --seeds 10",
    **{f"lowrank-{algo}": f"{LOWRANK} --algo {algo}" for algo in PEERS},
    "lowrank-exact-contrastive-ucb": f"{LOWRANK} --negatives exact",
    "bench-theory": "bench theory",
}


def main() -> None:
    names = sys.argv[1:] or list(EXPERIMENTS)
    if unknown := set(names) - EXPERIMENTS.keys():
        sys.exit(f"no experiment is called {min(unknown)}; there are {', '.join(EXPERIMENTS)}")
    for at, name in enumerate(names, 1):
        print(f"[{at}/{len(names)}] cucb {EXPERIMENTS[name]}", flush=True)
        target = ROOT / "results" / "mdp" / f"{name}.json"
        target.write_text(json.dumps(measure(EXPERIMENTS[name]), indent=1) + "\n")


def measure(command: str) -> dict[str, object]:
    with TemporaryDirectory() as folder:
        out = ["--out", folder] if command.startswith("solve") else []
        words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split(), "--json", *out]
        printed = subprocess.run(words, capture_output=True, text=True)
    if printed.returncode:
        sys.exit(printed.stderr)
    summary = json.loads(printed.stdout.splitlines()[-1])
    for part in (summary, *summary.get("runs", [])):
        part.pop("run_dir", None)
    versions = {name: version(name) for name in ("contrastive-ucb", "numpy", "scipy", "torch")}
    versions["python"] = platform.python_version()
    return {"command": f"cucb {command} --json", "summary": summary, "versions": versions}


if __name__ == "__main__":
    main()
