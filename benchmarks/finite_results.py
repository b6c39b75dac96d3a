"""Run the finite experiments of the README and write results/mdp and results/games.

    .venv/bin/python benchmarks/finite_results.py [NAME ...]     # all, or those with these names
    .venv/bin/python benchmarks/finite_results.py mdp            # those of results/mdp, or of games

Each file contains the command, the summary that `cucb` printed (means and every seed) and versions.
"""

import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = "solve lock --n-dead 20 --n-actions 5 --horizon 6 --seeds 10"
LOWRANK = "solve lowrank --n-states 10 --n-actions 3 --rank 3 --horizon 4 --rounds 10000 --seeds 10"
CONTROLS = ("no-bonus", "epsilon-greedy", "uniform")
PEERS = ("contrastive-ucb", "rep-ucb", "lsvi-ucb", "ucbvi", "no-bonus", "epsilon-greedy", "uniform")

GAME = "solve lowrank-game --n-states 6 --rank 3 --horizon 3 --seeds 10"
LOCK_GAME = "solve lock-game --horizon 5 --rounds 1500 --seeds 10"
GAME_PEERS = (
    *("contrastive-ulcb", "omni-vi", "midpoint-nash", "tight-cce"),
    *("no-bonus", "uniform"),
)
GAME_ROUNDS = {"": 5000, "-500": 500}  # the short run equals the start of the long one


def random_games(size: int, ending: str, rounds: int) -> dict[str, str]:
    """All algorithms on games of this size, and Contrastive ULCB also with exact negatives."""
    name, command = f"lowrank-game-{size}x{size}", f"{GAME} --n-actions {size} --rounds {rounds}"
    sampled = {f"{name}-{algo}{ending}": f"{command} --algo {algo}" for algo in GAME_PEERS}
    exact = f"{command} --algo contrastive-ulcb --negatives exact"
    return {**sampled, f"{name}-exact-contrastive-ulcb{ending}": exact}


MDPS = {
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
}
GAMES = {
    name: command
    for size in (2, 3)
    for ending, rounds in GAME_ROUNDS.items()
    for name, command in random_games(size, ending, rounds).items()
}
GAMES |= {
    f"lock-game-{algo}": f"{LOCK_GAME} --algo {algo}"
    for algo in ("contrastive-ulcb", "no-bonus", "uniform")
}
EXPERIMENTS = {"mdp": MDPS, "games": GAMES}  # the folders of results/


def main() -> None:
    folders = {name: folder for folder, names in EXPERIMENTS.items() for name in names}
    chosen = [
        name for word in sys.argv[1:] or EXPERIMENTS for name in EXPERIMENTS.get(word, [word])
    ]
    if unknown := set(chosen) - folders.keys():
        names = ", ".join([*EXPERIMENTS, *folders])
        sys.exit(f"unknown experiment {min(unknown)!r}; choose from {names}")
    for at, name in enumerate(chosen, 1):
        command = EXPERIMENTS[folders[name]][name]
        print(f"[{at}/{len(chosen)}] cucb {command}", flush=True)
        target = ROOT / "results" / folders[name] / f"{name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(measure(command), indent=1) + "\n")


def cucb(command: str) -> dict[str, Any]:
    """The JSON that `cucb` prints for the command."""
    words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split(), "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"cucb {command} failed")
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def measure(command: str) -> dict[str, Any]:
    """The record of a command, without its run folders."""
    with TemporaryDirectory() as folder:
        summary = cucb(f"{command} --out {folder}")
    return record_of(f"{command} --json", summary)


def record_of(command: str, summary: dict[str, Any]) -> dict[str, Any]:
    """The content of a file in results/: command, inputs, summary without paths, and versions."""
    for part in (summary, *summary.get("runs", [])):
        part.pop("run_dir", None)
    inputs = inputs_of(command.removesuffix(" --json"))
    return {"command": f"cucb {command}", "inputs": inputs, "summary": summary} | {
        "versions": versions()
    }


def inputs_of(command: str) -> dict[str, Any]:
    """The environment and the options of a command of `cucb solve` or `cucb train`."""
    _, env, *words = command.split()
    inputs: dict[str, Any] = {"env": env}
    for name, value in zip(words[::2], words[1::2], strict=True):
        number = value.replace(".", "", 1).isdigit()
        inputs[name[2:].replace("-", "_")] = json.loads(value) if number else value
    return inputs


def versions() -> dict[str, str]:
    """Versions of the package, its main dependencies and Python, and the last commit of src/."""
    packages = {name: version(name) for name in ("contrastive-ucb", "numpy", "scipy", "torch")}
    words = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "src"]
    commit = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    status = ["git", "-C", str(ROOT), "status", "--porcelain", "--", "src"]
    if subprocess.run(status, capture_output=True, text=True).stdout.strip():
        commit += "-dirty"  # src/ has changes that are not in the commit
    return {**packages, "python": platform.python_version(), "commit": commit or "unknown"}


if __name__ == "__main__":
    main()
