"""`cucb train --algo simple`: run folders, resuming in a learning phase, errors, eval and play."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agents.simple_play import BREAKOUT, SEA, TINY
from cli_errors import check_error
from runs.training_runs import Stop, lines, run, same_results

from contrastive_ucb.agents.simple.agent import ModelLearner, Simple
from contrastive_ucb.cli import main
from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.runs import loop as module
from contrastive_ucb.runs.deep_agent import load_weights
from contrastive_ucb.runs.training import DeepSession, Training

STEPS = 26
WORDS = [f"{key}={','.join(map(str, np.atleast_1d(value)))}" for key, value in TINY.items()]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def training(env: str = SEA, steps: int = STEPS, **changes: Any) -> Training:
    return Training(env, "simple", {**TINY, **changes}, steps)


def test_summary_and_metrics_have_what_is_promised(tmp_path: Path) -> None:
    summary = run(training(), tmp_path)
    assert (summary["env"], summary["algo"], summary["steps"]) == (SEA, "simple", STEPS)
    assert summary["bonus"] == "none"
    assert summary["updates"] == (3 + 2 + 1) + 4 * (2 + 2 + 1)
    assert summary["evaluation"].keys() == {"mean", "median", "episodes", "points"}
    assert "solved_at" in summary
    tags = {name for line in lines(summary) for name in line}
    assert {"step", "charts/epoch", "charts/episodic_return", "losses/model_reward"} <= tags
    assert {"losses/policy", "losses/value", "losses/entropy", "charts/dreamt_reward"} <= tags
    assert latest_checkpoint(Path(summary["run_dir"], "checkpoints")) is not None
    assert Path(summary["run_dir"]).is_relative_to(tmp_path / "train" / "simple")
    said: list[str] = []
    assert run(training(), tmp_path, say=said.append) == summary
    assert said == ["the run is finished already; its results are shown"]


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    torch.set_num_threads(1)
    return {env: run(training(env), tmp_path_factory.mktemp("whole")) for env in (SEA, BREAKOUT)}


def after_saving(
    position: int, do: Callable[[DeepSession], None], patch: pytest.MonkeyPatch
) -> None:
    """Do something once the checkpoint of this position is complete."""
    sessions: list[DeepSession] = []
    save, state_of = module.save_checkpoint, DeepSession.state_of

    def noting(session: DeepSession, seed: int) -> dict[str, Any]:
        sessions.append(session)
        return state_of(session, seed)

    def saving(folder: Path, step: int, *content: dict[str, Any]) -> None:
        save(folder, step, *content)
        if step == position:
            do(sessions[-1])

    patch.setattr(DeepSession, "state_of", noting)
    patch.setattr(module, "save_checkpoint", saving)


def stop(session: DeepSession) -> None:
    raise Stop


@pytest.mark.parametrize("position", [7, 12, 14, 16, 30])
@pytest.mark.parametrize("env", [SEA, BREAKOUT])
def test_stopped_anywhere_it_equals_an_undisturbed_run(
    env: str,
    position: int,
    wholes: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """12 steps, then 3 updates of the world model and 2 rounds of PPO, and again."""
    with monkeypatch.context() as patch:
        after_saving(position, stop, patch)
        with pytest.raises(Stop):
            run(training(env), tmp_path, every=0.0)
    assert latest_checkpoint(training(env).spec().folder(tmp_path) / "checkpoints").name == (
        f"step_{position}"
    )
    same_results(wholes[env], run(training(env), tmp_path))


def test_ctrl_c_in_a_learning_phase_saves_the_piece_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wholes: dict[str, dict[str, Any]]
) -> None:
    real = ModelLearner.update

    def pressing(learner: ModelLearner, *rest: Any) -> dict[str, float]:
        if learner.n_updates == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return real(learner, *rest)

    monkeypatch.setattr(ModelLearner, "update", pressing)
    with pytest.raises(KeyboardInterrupt):
        run(training(), tmp_path)
    folder = training().spec().folder(tmp_path)
    assert latest_checkpoint(folder / "checkpoints").name == "step_14"
    monkeypatch.setattr(ModelLearner, "update", real)
    same_results(wholes[SEA], run(training(), tmp_path))


def test_nan_stops_and_leaves_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ModelLearner.update

    def spoilt(learner: ModelLearner, *rest: Any) -> dict[str, float]:
        if learner.n_updates == 2:
            learner.model.tell.weight.data[:] = np.nan
        return real(learner, *rest)

    monkeypatch.setattr(ModelLearner, "update", spoilt)
    says = r"tell.weight has a NaN.* update 3 of the world model, at step 12 .*step_14 is the last"
    with pytest.raises(ArithmeticError, match=says):
        run(training(), tmp_path, every=0.0)
    monkeypatch.setattr(ModelLearner, "update", real)
    same_results(run(training(), tmp_path / "whole"), run(training(), tmp_path))


@pytest.mark.parametrize(
    ("pieces", "says"),
    [  # 12 steps, 3 updates of the world model and 2 rounds of PPO, and steps again
        (15, r"the weight actor.bias has a NaN.* update 1 of the policy, at step 12 .*step_15 is"),
        (17, r"actor.bias of the policy is not finite after update 11, at step 12 .*step_17 is"),
    ],
)
def test_a_broken_policy_stops_rounds_and_steps(
    pieces: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(session: DeepSession) -> None:
        session.trainer.agent.ppo.network.actor.bias.data[:] = np.nan

    with monkeypatch.context() as patch:
        after_saving(pieces, spoil, patch)
        with pytest.raises(ArithmeticError, match=says):
            run(training(), tmp_path, every=0.0)
    folder = training().spec().folder(tmp_path)
    assert latest_checkpoint(folder / "checkpoints").name == f"step_{pieces}"
    same_results(run(training(), tmp_path / "whole"), run(training(), tmp_path))


def test_command_line_evaluates_and_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path)
    words = ["--steps", "14", "--eval-episodes", "2", "--out", out, "--json", "--set", *WORDS]
    assert main(["train", BREAKOUT, "--algo", "simple", *words]) == 0
    trained = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert trained["algo"] == "simple"
    assert main(["eval", out, "--episodes", "2", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert scores["mean"] == trained["evaluation"]["points"][-1]["mean"]
    film = tmp_path / "film.gif"
    assert main(["play", out, "--video", str(film), "--max-steps", "5", "--json"]) == 0
    played = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert played["mean_bonus"] is None
    assert film.stat().st_size > 0


@pytest.mark.parametrize("env", [SEA, "CartPole-v1"])
def test_it_runs_on_vectors(env: str, tmp_path: Path) -> None:
    assert run(training(env, steps=14), tmp_path)["env"] == env


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "rounds=few"], "rounds takes a whole number, got 'few'"),
        (["--set", "round=3"], "no setting is called 'round'; did you mean 'rounds'"),
        (["--set", "size=tiny"], "size takes one of full, small, got 'tiny'"),
        (["--set", "size=full"], "cannot be halved 5 times; set halvings lower"),
        (["--set", "clip=-1"], "clip must be positive"),
        (["--set", "bonus.scale=1"], "simple has no setting .bonus.scale."),
        (["--set", "updates_per_step=2"], "simple has no setting"),
        (["--set", "support=1,1"], "support must be"),
    ],
    ids=str,
)
def test_wrong_input_is_an_error_of_one_line(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", BREAKOUT, "--algo", "simple", "--out", str(tmp_path), *words]
    check_error(command, says, capsys)
    assert not list(tmp_path.iterdir())


def test_the_configuration_is_stored_in_the_run_folder(tmp_path: Path) -> None:
    task = training(extra_rounds=(2,), support=(-20, 20), steps=3)
    run(task, tmp_path)
    trained = load_weights(tmp_path)
    assert trained.training.config == task.config
    assert (trained.training.algo, trained.env, trained.n_steps) == ("simple", SEA, 3)
    assert isinstance(trained.trainer.agent, Simple)
    assert trained.trainer.agent.world.support[[0, -1]].tolist() == [-20.0, 20.0]
    with pytest.raises(ValueError, match="no agent is called 'simpel'; did you mean 'simple'"):
        _ = Training(SEA, "simpel").config
