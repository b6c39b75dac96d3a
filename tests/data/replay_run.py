"""A run that fills and saves a replay memory, for tests that kill it."""

from pathlib import Path
from typing import Any

import numpy as np
from data.replay_oracle import EXTRAS, FRAME, Oracle, play

from contrastive_ucb.core.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.data.replay import Replay, ReplayFiles


def make(capacity: int = 100) -> Replay:
    return Replay(capacity, FRAME, stack=3, n_step=2, jumps=1, priority_exponent=0.5, extras=EXTRAS)


def run(folder: Path, rounds: int) -> dict[str, Any]:
    """Ten steps and a checkpoint per round, resumed from the last checkpoint; the final state."""
    files, replay, forgotten = ReplayFiles(folder / "replay", piece=16), make(60), make(60)
    oracle, resumed = Oracle(replay), last_step(folder)
    for done in range(rounds):
        # Rounds before the checkpoint only advance the oracle.
        play(replay if done > resumed else forgotten, oracle, 10, np.random.default_rng(done), 0.1)
        if done > resumed:
            save_checkpoint(folder, done, files.save(replay))
            prune_checkpoints(folder, keep=2)
            files.prune([load_checkpoint(kept) for kept in folder.glob("step_*")])
        elif done == resumed:
            files.load(replay, load_checkpoint(folder / f"step_{done}"))
    return replay.state_dict()


def last_step(folder: Path) -> int:
    latest = latest_checkpoint(folder)
    return -1 if latest is None else int(latest.name[5:])
