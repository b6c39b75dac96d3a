"""Replay memory on disk: incremental files, resume, damage and killed processes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.replay_oracle import Oracle, assert_same, play
from data.replay_run import last_step, make, run
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.checkpoint import CheckpointError, load_checkpoint
from contrastive_ucb.data.replay import ReplayFiles


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@settings(max_examples=25, deadline=None)
@given(
    rounds=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    capacity=st.integers(12, 90),
    ends=st.sampled_from([0.02, 0.5]),
    seed=st.integers(0, 1000),
)
def test_every_save_can_be_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[int],
    capacity: int,
    ends: float,
    seed: int,
) -> None:
    """Within an episode, after the buffer wraps, and after later saves."""
    files = ReplayFiles(tmp_path_factory.mktemp("replay"), piece=16)
    replay, rng = make(capacity), np.random.default_rng(seed)
    oracle = Oracle(replay)
    saved, expected = [], []
    for steps in rounds:
        play(replay, oracle, steps, rng, ends)
        saved.append(files.save(replay))
        expected.append(replay.state_dict())
    files.prune(saved)
    for state, full in zip(saved, expected, strict=True):
        other = make(capacity)
        ReplayFiles(files.folder, piece=16).load(other, state)
        assert_same(other.state_dict(), full)


def test_save_writes_only_new_entries(tmp_path: Path) -> None:
    files, replay, rng = ReplayFiles(tmp_path, piece=10), make(), np.random.default_rng(0)
    oracle = Oracle(replay)
    play(replay, oracle, 25, rng, 0.0)
    files.save(replay)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert sorted(name.split("_")[1:3] for name in before) == [
        ["0", "10"],
        ["10", "20"],
        ["20", "25"],
    ]
    play(replay, oracle, 10, rng, 0.0)
    state = files.save(replay)
    new = names(tmp_path) - before.keys()
    assert {tuple(name.split("_")[1:3]) for name in new} == {("20", "30"), ("30", "35")}
    assert all((tmp_path / name).stat().st_mtime_ns == t for name, t in before.items())
    replay.update_priorities(replay.drawable(), rng.random(len(replay)))
    replay.set_extra("feature", replay.drawable(), rng.random((len(replay), 3)))
    assert files.save(replay)["pieces"] == state["pieces"]  # entries are unchanged
    files.prune([state])
    assert len(names(tmp_path)) == 4  # the short file is replaced


def test_branches_do_not_overwrite_each_other(tmp_path: Path) -> None:
    files, replay, rng = ReplayFiles(tmp_path, piece=10), make(), np.random.default_rng(0)
    oracle = Oracle(replay)
    play(replay, oracle, 5, rng, 0.0)
    early = files.save(replay)
    play(replay, oracle, 10, rng, 0.0)
    late, full = files.save(replay), replay.state_dict()
    other, again = make(), ReplayFiles(tmp_path, piece=10)
    again.load(other, early)
    branch = Oracle(other)
    branch.past, branch.running = oracle.past[:6], True
    play(other, branch, 10, np.random.default_rng(1), 0.0)
    again.save(other)
    ReplayFiles(tmp_path).load(replay, late)
    assert_same(replay.state_dict(), full)


@pytest.mark.parametrize("damage", ["torn", "gone", "changed"])
def test_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    files, replay = ReplayFiles(tmp_path), make()
    play(replay, Oracle(replay), 30, np.random.default_rng(0), 0.1)
    state = files.save(replay)
    path = tmp_path / state["pieces"][0]["name"]
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-9] if damage == "torn" else content[:-1] + b"x")
    with pytest.raises(CheckpointError, match=path.name):
        files.load(make(), state)


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from data.replay_run import run

renames, rename, replace = 0, Path.rename, Path.replace

def dying(old):
    def move(self, target):
        global renames
        renames += 1
        if renames > int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return old(self, target)
    return move

Path.rename, Path.replace = dying(rename), dying(replace)
run(Path(sys.argv[1]), rounds=12)
"""


@pytest.mark.parametrize("renames", [1, 8, 21])
def test_last_checkpoint_survives_kill_at_any_rename(tmp_path: Path, renames: int) -> None:
    tests = Path(__file__).parents[1]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_RUN, str(tmp_path), str(renames)],
        env={"PYTHONPATH": str(tests), "PATH": "/usr/bin"},
        check=False,
    )
    assert killed.returncode == -9
    assert renames < 4 or last_step(tmp_path) >= 0
    assert_same(run(tmp_path, rounds=12), run(tmp_path / "undisturbed", rounds=12))
    kept = {piece["name"] for path in tmp_path.glob("step_*") for piece in pieces(path)}
    assert names(tmp_path / "replay") == kept  # no temporary or unused files


def pieces(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_checkpoint(path)["pieces"]
    return found
