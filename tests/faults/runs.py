"""Short runs of every kind, commands on their folders, and a judgment of what a fault did to them.

A fault has one of four outcomes:

identical   the command succeeded with the results of an undisturbed run
recovered   the same, with a warning
reported    the command printed one line that names the damaged run or file, and no traceback
failure     anything else: another result, a traceback, or an error that does not name the place
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive_ucb.cli import main

TINY = "first_update=20 hidden=8 mlp=8 atoms=11 batch_size=4 n_step=3 jumps=2 updates_per_step=1"
FAST = "--eval-episodes 2 --threads 1"
GRID = """
kind = "solve"
env = "lowrank"
algo = "contrastive-ucb"
seeds = 3
rounds = 40
settings = { n_states = 6, n_actions = 2, rank = 2, horizon = 3 }
"""
RUNS = "*/*/*/seed_*"  # run folders; folders below come and go while a run saves
SAVE = "--checkpoint-seconds 0"  # after every round or step
COMMANDS = {  # of one or more runs; {out} is their folder
    "table": f"solve lock --rounds 25 --seeds 2 {SAVE}",
    "game": f"solve lock-game --rounds 12 {SAVE}",
    "neural": f"solve continuous --rounds 3 {SAVE}",
    "deep": f"train DeepSea-5 --set {TINY} --steps 40 --seeds 1 {FAST} {SAVE}",
    "sweep": f"sweep {{grid}} --workers 2 {SAVE}",
    "ray": f"sweep {{grid}} --backend ray --workers 2 {SAVE}",
}


@dataclass(frozen=True)
class Outcome:
    """What a command printed and returned. `code` is None if an exception left the command."""

    code: int | None
    out: str
    err: str


def words_of(kind: str, out: Path) -> list[str]:
    """The command line of the runs of this kind with their results in `out`."""
    grid = out.parent / "grid.toml"
    if "{grid}" in COMMANDS[kind] and not grid.exists():
        grid.write_text(GRID)
    return [*COMMANDS[kind].format(grid=grid).split(), "--out", str(out)]


def call(words: list[str]) -> Outcome:
    """Run `cucb` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | None = main(words)
        except BaseException as error:  # any exception that escapes is what the tests look for
            code = None
            print(f"{type(error).__name__}: {error}", file=err)
    return Outcome(code, out.getvalue(), err.getvalue())


def start(words: list[str], **options: Any) -> subprocess.Popen[str]:
    """Run `cucb` in a new process."""
    command = [sys.executable, "-m", "contrastive_ucb.cli", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=dict(os.environ), **streams, **options)


def results_of(root: Path) -> dict[str, Any]:
    """Metrics, scores and summaries of all runs below the folder, without times."""
    results: dict[str, Any] = {}
    for name in ("metrics.jsonl", "eval.jsonl"):
        results |= {
            str(path.relative_to(root)): path.read_bytes() for path in root.glob(f"{RUNS}/{name}")
        }
    for path in root.glob(f"{RUNS}/DONE"):
        content = json.loads(path.read_text())
        results[str(path.relative_to(root))] = _without_times(content)
    return results


def _without_times(content: Any) -> Any:
    """A summary without its seconds and without the checksum over them."""
    return {key: v for key, v in content.items() if key not in ("seconds", "sha256")}


def names_place(text: str, run: Path, root: Path) -> bool:
    """Whether a message names the run, by the path of a folder or file within it."""
    place = str(run.relative_to(root))
    return any(part in text for part in (place, str(run), str(run.parent)))


def is_traceback(text: str) -> bool:
    return "Traceback (most recent call last)" in text
