"""Run folders of `train`: a run that was killed and repeated equals an undisturbed one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastive_ucb.agents.presets import BONUSES
from contrastive_ucb.agents.rainbow import Rainbow
from contrastive_ucb.data.replay_files import ReplayFiles
from contrastive_ucb.envs.deepsea_grid import solved_at
from contrastive_ucb.errors import UserError
from contrastive_ucb.experiments import train as module
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.experiments.train import Training, train
from contrastive_ucb.experiments.trained import find_run, load_trained
from contrastive_ucb.training.allocator import keep_freed_memory
from contrastive_ucb.training.checkpoint import (
    CheckpointError,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from contrastive_ucb.training.deep import Averages

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


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


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
    replay = load_trained(folder).agent.new_replay()
    state = load_checkpoint(latest_checkpoint(folder / "checkpoints"))["replay"]
    ReplayFiles(folder / "replay").load(replay, state)
    return replay.state_dict()


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


def test_summary_and_metrics_have_what_is_promised(tmp_path: Path) -> None:
    summary = run(training("deep-sea-5", steps=115, first_update=90), tmp_path)
    assert (summary["env"], summary["algo"], summary["seed"]) == (SEA, "spr-ucb", 0)
    assert (summary["steps"], summary["updates"], summary["episodes"]) == (115, 26, 23)
    assert summary["bonus"] == "paper"
    assert summary["evaluation"].keys() == {"mean", "median", "episodes"}
    assert summary["evaluation"]["episodes"] == 3
    json.dumps(summary, allow_nan=False)
    written = lines(summary)
    ends = [line for line in written if "charts/episodic_return" in line]
    assert [line["step"] for line in ends] == list(range(5, 116, 5))
    assert {line["charts/episodic_length"] for line in ends} == {5}
    returns = [line["charts/episodic_return"] for line in ends]
    assert summary["return_of_last_100"] == pytest.approx(np.mean(returns))
    assert summary["solved_at"] == solved_at(returns)
    noted = [line for line in written if "losses/value" in line]
    assert [line["step"] for line in noted] == [100, 115]
    names = {"losses/value", "losses/spr", "bonus/mean", "bonus/logdet"}
    assert all(names <= line.keys() for line in noted)
    assert "charts/SPS" not in written[-1]  # a clock is not repeatable


def test_without_a_bonus_nothing_is_said_of_it(tmp_path: Path) -> None:
    summary = run(training(algo="rainbow"), tmp_path)
    assert summary["bonus"] == "none"
    assert not any(name.startswith("bonus") for line in lines(summary) for name in line)


def test_tensorboard_has_the_speed(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    summary = run(training(), tmp_path)
    board = EventAccumulator(str(Path(summary["run_dir"], "tensorboard")))
    board.Reload()
    assert {"charts/SPS", "charts/episodic_return", "losses/value"} <= set(board.Tags()["scalars"])


def test_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(training(), tmp_path)
    monkeypatch.setattr(module, "Trainer", None)  # nothing may be played
    said: list[str] = []
    assert run(training(), tmp_path, say=said.append) == first
    assert said == ["the run is finished already; its results are shown"]


def test_same_seed_same_run_and_other_seed_other_run(tmp_path: Path) -> None:
    one, again = run(training(), tmp_path / "1"), run(training(), tmp_path / "2")
    same_results(one, again)
    other = run(Training(SEA, "spr-ucb", TINY, STEPS, seed=1), tmp_path / "1")
    assert lines(other) != lines(one)


def test_other_settings_go_to_another_folder_and_other_spellings_do_not(tmp_path: Path) -> None:
    tasks = [training(), training(n_step=2), training(steps=61), training("DeepSea-6")]
    assert len({task.spec().folder(tmp_path) for task in tasks}) == 4
    spelt = training("deepsea-5", bonus__preset="paper")
    assert spelt.spec() == training().spec()
    assert training(BREAKOUT).spec().task == "MinAtar-Breakout-v1"


class Stop(Exception):
    pass


TASKS = {
    "sea": training(**OPTIMISTIC),
    "breakout": training(BREAKOUT),
    "published, with a target network": training(bonus__preset="reference", target_every=4),
}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Undisturbed runs of all tasks."""
    torch.set_num_threads(1)
    return {name: run(task, tmp_path_factory.mktemp("whole")) for name, task in TASKS.items()}


@pytest.mark.parametrize("stop_at", [1, 24, STEPS - 1])
@pytest.mark.parametrize("name", TASKS)
def test_stopped_run_equals_an_undisturbed_one(
    name: str,
    stop_at: int,
    wholes: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, whole = TASKS[name], wholes[name]
    real = module.progress_values

    def stopping(event: Any) -> dict[str, float]:
        if event.step == stop_at:
            raise Stop
        return real(event)

    monkeypatch.setattr(module, "progress_values", stopping)
    with pytest.raises(Stop):
        run(task, tmp_path / "cut", every=0.0, progress=True)
    monkeypatch.setattr(module, "progress_values", real)
    said: list[str] = []
    same_results(whole, run(task, tmp_path / "cut", every=0.0, say=said.append))
    assert stop_at == 1 or said[0] == f"the run goes on from step {stop_at - 1}"


def test_stopped_between_replay_and_checkpoint_equals_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(training(), tmp_path / "whole")
    real = module.save_checkpoint

    def saving(folder: Path, step: int, state: dict) -> Path:
        if step == 23:
            raise Stop
        return real(folder, step, state)

    monkeypatch.setattr(module, "save_checkpoint", saving)
    with pytest.raises(Stop):
        run(training(), tmp_path / "cut", every=0.0)
    monkeypatch.setattr(module, "save_checkpoint", real)
    same_results(whole, run(training(), tmp_path / "cut"))


def test_ctrl_c_saves_the_step_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressing(event: Any) -> dict[str, float]:
        if event.step == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    monkeypatch.setattr(module, "progress_values", pressing)
    with pytest.raises(KeyboardInterrupt):
        run(training(), tmp_path, progress=True)
    folder = training().spec().folder(tmp_path)
    assert latest_checkpoint(folder / "checkpoints").name == "step_7"


def test_kill_9_and_repeat_equals_an_undisturbed_run(tmp_path: Path) -> None:
    task = training(BREAKOUT, steps=80)
    command = [sys.executable, "-m", "contrastive_ucb.cli", "train", BREAKOUT, "--steps", "80"]
    command += ["--set", *WORDS, "--checkpoint-seconds", "0", "--out", str(tmp_path / "cut")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    folder = task.spec().folder(tmp_path / "cut") / "checkpoints"
    whole = run(task, tmp_path / "whole")
    patience = time.monotonic() + 60
    while not (newest := latest_checkpoint(folder)) or int(newest.name[5:]) < 24:
        assert time.monotonic() < patience
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "finished before it was killed; make the run longer"
    same_results(whole, run(task, tmp_path / "cut"))


def test_killed_before_done_is_finished_from_its_last_checkpoint(tmp_path: Path) -> None:
    first = run(training(), tmp_path)
    (Path(first["run_dir"]) / "DONE").unlink()
    again = run(training(), tmp_path)
    assert again == first


def test_two_checkpoints_are_kept_and_no_file_that_none_of_them_needs(tmp_path: Path) -> None:
    summary = run(training(steps=9), tmp_path, every=0.0)
    folder = Path(summary["run_dir"])
    kept = sorted((folder / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["step_8", "step_9"]
    needed = {piece["name"] for path in kept for piece in load_checkpoint(path)["replay"]["pieces"]}
    assert {path.name for path in (folder / "replay").iterdir()} == needed


def test_resuming_keeps_what_the_older_checkpoint_rests_on(tmp_path: Path) -> None:
    first = run(training(), tmp_path, every=0.0)
    folder = Path(first["run_dir"])
    (folder / "DONE").unlink()
    run(training(), tmp_path)
    shutil.rmtree(folder / "checkpoints" / f"step_{STEPS}")
    (folder / "DONE").unlink()
    assert without_time(run(training(), tmp_path)) == without_time(first)


def test_torn_checkpoint_is_an_error_and_the_one_before_is_there(tmp_path: Path) -> None:
    first = run(training(), tmp_path, every=0.0)
    folder = Path(first["run_dir"])
    (folder / "DONE").unlink()
    newest = latest_checkpoint(folder / "checkpoints")
    arrays = newest / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=f"step_{STEPS - 1}"):
        run(training(), tmp_path)
    with pytest.raises(CheckpointError, match="checksum"):
        load_trained(folder)
    shutil.rmtree(newest)
    assert without_time(run(training(), tmp_path)) == without_time(first)


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
    for reader in (lambda: run(training(), tmp_path), lambda: load_trained(folder)):
        with pytest.raises(CheckpointError, match="does not fit this run") as caught:
            reader()
        assert "\n" not in str(caught.value)
    save_checkpoint(folder / "checkpoints", STEPS + 1, {"session": {}})
    with pytest.raises(CheckpointError, match="'trainer'"):
        run(training(), tmp_path)


def test_nan_stops_and_leaves_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Rainbow.update

    def spoilt(agent: Rainbow, replay: Any, batch: Any) -> dict[str, float]:
        if agent.n_updates == 5:
            next(agent.network.parameters()).data[:] = np.nan
        return real(agent, replay, batch)

    monkeypatch.setattr(Rainbow, "update", spoilt)
    with pytest.raises(ArithmeticError, match=r"NaN.* at step 25 .*step_24 is the last good"):
        run(training(), tmp_path, every=0.0)
    monkeypatch.setattr(Rainbow, "update", real)
    same_results(run(training(), tmp_path / "whole"), run(training(), tmp_path))


def test_damaged_done_says_what_to_do(tmp_path: Path) -> None:
    Path(run(training(), tmp_path)["run_dir"], "DONE").write_text("{}")
    with pytest.raises(UserError, match="remove it and repeat"):
        run(training(), tmp_path)


def test_what_cannot_be_built_leaves_no_folder(tmp_path: Path) -> None:
    for env, says in (("Pnog", "did you mean 'Pong'"), ("Pendulum-v1", "Discrete")):
        with pytest.raises(UserError, match=says):
            run(training(env), tmp_path)
    assert not list(tmp_path.iterdir())


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    with RunFolder(training().spec(), tmp_path), pytest.raises(UserError, match="in use"):
        run(training(), tmp_path)


def test_a_run_is_found_by_its_root_if_it_is_the_only_one(tmp_path: Path) -> None:
    first = Path(run(training(steps=3), tmp_path)["run_dir"])
    assert find_run(tmp_path)[0] == find_run(first)[0] == first
    trained = load_trained(tmp_path)
    assert (trained.algo, trained.env, trained.step) == ("spr-ucb", SEA, 3)
    assert trained.config == training().config
    run(training(steps=4), tmp_path)
    with pytest.raises(UserError, match="2 runs"):
        find_run(tmp_path)
    assert find_run(first)[0] == first
    with pytest.raises(UserError, match="no folder"):
        find_run(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run of 'cucb train'"):
        find_run(tmp_path / "empty")
    shutil.rmtree(first / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint yet"):
        load_trained(first)


def test_bonus_has_the_name_of_its_preset_and_what_differs() -> None:
    for env in (SEA, BREAKOUT):
        for name in BONUSES:
            assert training(env, bonus__preset=name).bonus == name
    assert training(**OPTIMISTIC).bonus == "algorithm-1 rebuild_every=7"
    assert training().bonus == "paper"
    assert training(algo="spr").bonus == "none"


def test_averages_are_over_what_was_added_since() -> None:
    averages = Averages()
    assert not averages
    for value in (1.0, 2.0, 6.0):
        averages.add({"a": value})
    averages.add({"b": 5.0})
    copy = Averages()
    copy.load_state_dict(averages.state_dict())
    assert averages.take() == copy.take() == {"a": 3.0, "b": 5.0}
    assert not averages


def test_allocator_hint_does_no_harm() -> None:
    assert keep_freed_memory() in (True, False)
    assert torch.ones(1 << 20).sum() == 1 << 20
