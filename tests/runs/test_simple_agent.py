"""`cu.DeepAgent(env, algo="simple")`: the same as the command, saved, loaded and resumed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agents.simple_play import SEA, TINY
from runs.training_runs import run, same

import contrastive_ucb as cu
from contrastive_ucb.agents.simple.world_model_training import ModelLearner
from contrastive_ucb.runs.deep_agent import load_trained
from contrastive_ucb.runs.training import Training

STEPS = 26


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def agent(**changes: Any) -> cu.DeepAgent:
    return cu.DeepAgent(SEA, algo="simple", settings={**TINY, **changes})


def test_in_python_it_learns_what_the_command_learns(tmp_path: Path) -> None:
    whole = run(Training(SEA, "simple", TINY, STEPS), tmp_path)
    mine = agent()
    mine.learn(STEPS, progress=False)
    trained = load_trained(Path(whole["run_dir"]))
    same(mine.trainer.agent.state_dict(), trained.agent.state_dict())  # type: ignore[attr-defined]
    assert cu.evaluate(mine, episodes=3)["mean"] == whole["evaluation"]["points"][-1]["mean"]
    cells = np.eye(25, dtype=np.float32)
    assert mine.predict(cells)[0].shape == (25,)
    drawn = agent(eval_epsilon=1.0)
    found = {int(drawn.predict(cells[0], deterministic=False)[0]) for _ in range(40)}
    assert found == {0, 1}


def test_saved_and_loaded_it_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    straight, stopped = agent(), agent()
    straight.learn(14, progress=False)
    stopped.learn(14, progress=False)
    stopped.save(tmp_path / "a")
    loaded = cu.load(tmp_path / "a")
    assert isinstance(loaded, cu.DeepAgent)
    for one in (straight, loaded):
        one.learn(14, progress=False)
    same(straight.trainer.state_dict(), loaded.trainer.state_dict())
    same(straight.trainer.replay.state_dict(), loaded.trainer.replay.state_dict())


def test_resume_in_python_learns_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = agent(), agent()
    first.learn(STEPS, resume=True, out=tmp_path, progress=False)
    monkeypatch.setattr(ModelLearner, "update", None)
    again.learn(STEPS, resume=True, out=tmp_path, progress=False)
    same(first.trainer.state_dict(), again.trainer.state_dict())


def test_a_run_of_the_command_is_loaded_and_goes_on(tmp_path: Path) -> None:
    whole = run(Training(SEA, "simple", TINY, STEPS), tmp_path)
    loaded = cu.load(whole["run_dir"])
    assert isinstance(loaded, cu.DeepAgent)
    mine = agent()
    mine.learn(STEPS, progress=False)
    for one in (loaded, mine):
        one.learn(14, progress=False)
    same(mine.trainer.state_dict(), loaded.trainer.state_dict())
