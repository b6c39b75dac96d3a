"""Tiny training runs, and what it means that two of them agree."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.core.events import Event, ProgressListener
from contrastive_ucb.data.replay import ReplayFiles
from contrastive_ucb.runs.deep_agent import load_weights
from contrastive_ucb.runs.loop import train
from contrastive_ucb.runs.training import Training

STEPS = 30
TINY = {
    "first_update": 20,
    "hidden": 8,
    "mlp": (8,),
    "atoms": 11,
    "batch_size": 4,
    "n_step": 3,
    "jumps": 2,
    "updates_per_step": 1,
}
WORDS = [f"{key}={','.join(map(str, np.atleast_1d(value)))}" for key, value in TINY.items()]
SEA, BREAKOUT = "DeepSea-5", "MinAtar/Breakout-v1"
OPTIMISTIC = {"bonus.preset": "algorithm-1", "bonus.rebuild_every": 7}


def training(env: str = SEA, algo: str = "spr-ucb", steps: int = STEPS, **changes: Any) -> Training:
    settings = {**TINY, **{key.replace("__", "."): value for key, value in changes.items()}}
    return Training(env, algo, settings, steps)


def run(task: Training, root: Path, every: float = 1e9, **options: Any) -> dict[str, Any]:
    plain = {"progress": False, "eval_episodes": 3, "checkpoint_seconds": every}
    return train(task, root, **{**plain, **options})


def without_time(summary: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if key not in ("seconds", "run_dir")}


def same_results(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Summary, metrics, scores and final state of two runs agree to the last bit."""
    assert without_time(one) == without_time(other)
    folders = Path(one["run_dir"]), Path(other["run_dir"])
    for name in ("metrics.jsonl", "eval.jsonl"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    states = [load_checkpoint(latest_checkpoint(path / "checkpoints")) for path in folders]
    for state in states:
        # Files may be cut elsewhere; what matters is the memory they add up to.
        state["replay"].pop("pieces")
        state.pop("seconds")
    same(*states)
    same(*[_memory(path) for path in folders])


def _memory(folder: Path) -> dict[str, Any]:
    """All of the replay memory of a finished run."""
    replay = load_weights(folder).trainer.agent.new_replay()
    state = load_checkpoint(latest_checkpoint(folder / "checkpoints"))["replay"]
    ReplayFiles(folder / "replay").load(replay, state)
    return {} if replay is None else replay.state_dict()


def same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif isinstance(one, (np.ndarray, torch.Tensor)):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    else:
        assert one == other


def lines(summary: dict[str, Any]) -> list[dict[str, Any]]:
    path = Path(summary["run_dir"], "metrics.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


class Stop(Exception):
    """The end of a run in a test."""


def stopping_at(step: int) -> Callable[[Event], None]:
    """An observer that ends the run at a step, after it was logged and before it is saved."""

    def stop(event: Event) -> None:
        if event.step == step:
            raise Stop

    return stop


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs with progress stop at a step, after it was logged and before it is saved."""

    def stopping(bar: ProgressListener, event: Any) -> None:
        if event.step == step:
            raise Stop

    monkeypatch.setattr(ProgressListener, "on_event", stopping)
