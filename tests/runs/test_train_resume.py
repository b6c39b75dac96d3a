"""A training run that was stopped, killed or damaged, and repeated, equals an undisturbed one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from runs.training_runs import (
    BREAKOUT,
    OPTIMISTIC,
    STEPS,
    WORDS,
    Stop,
    run,
    same_results,
    stop_at,
    stopping_at,
    training,
    without_time,
)

from contrastive_ucb.agents.deep.presets import DEEP_PRESETS
from contrastive_ucb.core.checkpoint import (
    CheckpointError,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import loop as module
from contrastive_ucb.runs.deep_agent import load_weights
from contrastive_ucb.runs.training import DeepSession


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


TASKS = {
    "sea": training(**OPTIMISTIC),
    "sea, a factor that visits move": training(**OPTIMISTIC, hidden=64),
    "breakout": training(BREAKOUT),
    **{algo: training(BREAKOUT, algo) for algo in DEEP_PRESETS if algo != "spr-ucb"},
    "a bonus on hidden features of DrQ": training(BREAKOUT, "drq", bonus__scale=1.0),
    "published, with a target network": training(bonus__preset="reference", target_every=4),
    "explorer": training(bonus__preset="explorer"),
    "explorer with learned features": training(
        BREAKOUT,
        bonus__preset="explorer",
        explorer__target_every=3,
        intrinsic__bonus="contrastive",
        intrinsic__normalize=True,
        intrinsic__every=8,
        intrinsic__steps=1,
        intrinsic__batch_size=8,
        intrinsic__snapshot_every=1,
    ),
}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Undisturbed runs of all tasks."""
    torch.set_num_threads(1)
    return {name: run(task, tmp_path_factory.mktemp("whole")) for name, task in TASKS.items()}


@pytest.mark.parametrize(
    ("game", "preset"), [("Pong", "paper"), ("Pong", "reference"), ("Qbert", "paper")]
)
def test_atari_goes_on_in_the_middle_of_an_episode(game: str, preset: str, tmp_path: Path) -> None:
    """Qbert cannot be restored by the emulator's own snapshots; `reference` has lagged targets."""
    task = training(game, steps=24, bonus__preset=preset)
    whole = run(task, tmp_path / "whole")
    with pytest.raises(Stop):
        run(task, tmp_path / "parts", every=0.0, observers=[stopping_at(23)])
    same_results(whole, run(task, tmp_path / "parts"))


@pytest.mark.parametrize("step", [1, 24, STEPS - 1])
@pytest.mark.parametrize("name", TASKS)
def test_stopped_run_equals_an_undisturbed_one(
    name: str,
    step: int,
    wholes: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, whole = TASKS[name], wholes[name]
    with monkeypatch.context() as patch:
        stop_at(step, patch)
        with pytest.raises(Stop):
            run(task, tmp_path / "cut", every=0.0, progress=True)
    for checkpoints in (tmp_path / "cut").rglob("checkpoints"):
        (checkpoints / "step_abc").mkdir()  # no checkpoint
    said: list[str] = []
    same_results(whole, run(task, tmp_path / "cut", every=0.0, say=said.append))
    assert step == 1 or said[0].endswith(f"continues from step {step - 1}")


def evaluations_in(root: Path) -> list[int]:
    """The steps of the evaluations written so far."""
    [path] = root.rglob("eval.jsonl")
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("last_saved", [50, 56, 57])
def test_stopped_between_two_evaluations_equals_an_undisturbed_run(
    last_saved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of eval.jsonl after the checkpoint are dropped and written again."""
    task = training(BREAKOUT, steps=60)
    whole = run(task, tmp_path / "whole")
    assert evaluations_in(tmp_path / "whole") == [56, 57, 58, 59, 60]
    with pytest.raises(Stop):
        run(task, tmp_path / "cut", every=0.0, observers=[stopping_at(last_saved + 1)])
    real = DeepSession.evaluate

    def evaluating(self: DeepSession, point: int) -> None:
        if point == 58:
            raise Stop
        real(self, point)

    with monkeypatch.context() as patch:
        patch.setattr(DeepSession, "evaluate", evaluating)
        with pytest.raises(Stop):
            run(task, tmp_path / "cut")
    assert evaluations_in(tmp_path / "cut") == [56, 57]
    same_results(whole, run(task, tmp_path / "cut", every=0.0))


def test_resuming_with_another_number_of_episodes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeepSession.evaluate

    def evaluating(self: DeepSession, point: int) -> None:
        if point == STEPS:
            raise Stop
        real(self, point)

    with monkeypatch.context() as patch:
        patch.setattr(DeepSession, "evaluate", evaluating)
        with pytest.raises(Stop):
            run(training(), tmp_path)
    with pytest.raises(UserError, match=r"evaluated with 3 episodes, not 4; .*--eval-episodes 3"):
        run(training(), tmp_path, eval_episodes=4)
    run(training(), tmp_path)


def test_stopped_between_replay_and_checkpoint_equals_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(training(), tmp_path / "whole")
    real = module.save_checkpoint

    def saving(folder: Path, step: int, *content: dict) -> Path:
        if step == 23:
            raise Stop
        return real(folder, step, *content)

    monkeypatch.setattr(module, "save_checkpoint", saving)
    with pytest.raises(Stop):
        run(training(), tmp_path / "cut", every=0.0)
    monkeypatch.setattr(module, "save_checkpoint", real)
    same_results(whole, run(training(), tmp_path / "cut"))


def test_ctrl_c_saves_the_step_it_is_in(tmp_path: Path) -> None:
    def press(event: Any) -> None:
        if event.step == 7:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(training(), tmp_path, observers=[press])
    folder = training().spec().folder(tmp_path)
    assert latest_checkpoint(folder / "checkpoints").name == "step_7"


@pytest.mark.parametrize(("env", "steps"), [(BREAKOUT, 80), ("Qbert", 60)])
def test_kill_9_and_repeat_equals_an_undisturbed_run(env: str, steps: int, tmp_path: Path) -> None:
    """The run goes on in another process than the one that was killed."""
    task = training(env, steps=steps)
    command = [sys.executable, "-m", "contrastive_ucb.cli", "train", env, "--steps", str(steps)]
    command += ["--set", *WORDS, "--checkpoint-seconds", "0", "--threads", "1"]
    command += ["--eval-episodes", "1", "--out", str(tmp_path / "cut")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    folder = task.spec().folder(tmp_path / "cut") / "checkpoints"
    patience = time.monotonic() + 60
    while not (newest := latest_checkpoint(folder)) or int(newest.name[5:]) < 24:
        assert time.monotonic() < patience
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "finished before it was killed; make the run longer"
    assert int(latest_checkpoint(folder).name[5:]) < steps
    whole = run(task, tmp_path / "whole", eval_episodes=1)
    same_results(whole, run(task, tmp_path / "cut", eval_episodes=1))


def test_two_checkpoints_are_kept_and_no_file_that_none_of_them_needs(tmp_path: Path) -> None:
    summary = run(training(steps=9), tmp_path, every=0.0)
    folder = Path(summary["run_dir"])
    kept = sorted((folder / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["step_8", "step_9"]
    needed = {piece["name"] for path in kept for piece in load_checkpoint(path)["replay"]["pieces"]}
    assert {path.name for path in (folder / "replay").iterdir()} == needed


def test_a_run_with_a_torn_checkpoint_continues_from_the_older_one(tmp_path: Path) -> None:
    first = run(training(), tmp_path, every=0.0)
    folder = Path(first["run_dir"])
    (folder / "DONE").unlink()
    assert without_time(run(training(), tmp_path)) == without_time(first)
    (folder / "DONE").unlink()
    newest = latest_checkpoint(folder / "checkpoints")
    arrays = newest / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=f"checksum.* to continue from step_{STEPS - 1}"):
        load_weights(folder)
    said: list[str] = []
    assert without_time(run(training(), tmp_path, say=said.append)) == without_time(first)
    assert any(str(arrays) in line and f"from step_{STEPS - 1}" in line for line in said)


def test_torn_replay_is_an_error(tmp_path: Path) -> None:
    folder = Path(run(training(), tmp_path)["run_dir"])
    (folder / "DONE").unlink()
    [file] = (folder / "replay").iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match="checksum"):
        run(training(), tmp_path)


def test_foreign_checkpoint_is_an_error_of_one_line(tmp_path: Path) -> None:
    folder = Path(run(training(), tmp_path)["run_dir"])
    (folder / "DONE").unlink()
    other = run(training(hidden=16), tmp_path)
    mine = latest_checkpoint(folder / "checkpoints")
    shutil.rmtree(mine)
    shutil.copytree(latest_checkpoint(Path(other["run_dir"], "checkpoints")), mine)
    for reader in (lambda: run(training(), tmp_path), lambda: load_weights(folder)):
        with pytest.raises(CheckpointError, match="belongs to another checkpoint or run") as caught:
            reader()
        assert "\n" not in str(caught.value)
    # Checkpoints of earlier versions do not name their run.
    save_checkpoint(folder / "checkpoints", STEPS + 1, {"session": {}})
    for reader in (lambda: run(training(), tmp_path), lambda: load_weights(folder)):
        with pytest.raises(CheckpointError, match="does not fit this version") as caught:
            reader()
        assert "\n" not in str(caught.value)
