"""`cu.SPRUCB`: the same bits as `cucb train`, and save, load and go on."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agents.simple_play import TINY as SIMPLE
from runs.training_runs import BREAKOUT, SEA, TINY, run, same

import contrastive_ucb as cu
from contrastive_ucb.agents.simple.agent import ModelLearner
from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import deep_agent as module
from contrastive_ucb.runs.training import Training


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def agent(seed: int = 0, algo: str = "spr-ucb", **changes: Any) -> cu.DeepAgent:
    settings = SIMPLE if algo == "simple" else TINY
    return cu.DeepAgent(SEA, seed, algo=algo, settings={**settings, **changes})


def assert_same(one: cu.DeepAgent, other: Any) -> None:
    """Two agents with their replay memories agree to the last bit."""
    assert isinstance(other, cu.DeepAgent)
    same(one.trainer.state_dict(), other.trainer.state_dict())
    same(one.trainer.replay.state_dict(), other.trainer.replay.state_dict())


@pytest.mark.parametrize(
    "changes",
    [{}, {"bonus.preset": "algorithm-1"}, {"bonus.preset": "reference"}, {"algo": "simple"}],
    ids=str,
)
def test_a_saved_agent_continues_exactly(tmp_path: Path, changes: dict[str, Any]) -> None:
    straight, stopped = agent(**changes), agent(**changes)
    for each in (straight, stopped):
        each.learn(26, progress=False)
    stopped.save(tmp_path / "a")
    loaded: Any = cu.load(tmp_path / "a")
    for each in (straight, loaded):
        each.learn(14, progress=False)
    assert_same(straight, loaded)


@pytest.mark.parametrize("algo", ["spr-ucb", "simple"])
def test_resume_learns_nothing_twice(
    algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = agent(algo=algo), agent(algo=algo)
    result = first.learn(30, resume=True, out=tmp_path, progress=False)
    assert result.summary[0]["steps"] == 30
    monkeypatch.setattr("contrastive_ucb.agents.deep.rainbow.Rainbow.update", None)
    monkeypatch.setattr(ModelLearner, "update", None)
    assert again.learn(30, resume=True, out=tmp_path, progress=False).summaries == result.summaries
    same(first.trainer.state_dict(), again.trainer.state_dict())
    with pytest.raises(UserError, match="has taken 30 steps"):
        again.learn(5, resume=True, out=tmp_path)


def test_predict_takes_one_observation_or_several() -> None:
    one = agent()
    cells = np.eye(25, dtype=np.float32)
    actions, state = one.predict(cells, state="mine")
    assert (actions.shape, state) == ((25,), "mine")
    singles = [one.predict(cell)[0] for cell in cells]
    assert all(single.shape == () for single in singles)
    assert [int(single) for single in singles] == actions.tolist()


@pytest.mark.parametrize("algo", ["spr", "simple"])
def test_predict_draws_uniform_actions(algo: str) -> None:
    each = agent(algo=algo, eval_epsilon=1.0)
    drawn = [int(each.predict(np.eye(25)[0], deterministic=False)[0]) for _ in range(40)]
    assert set(drawn) == {0, 1}
    assert len({int(each.predict(np.eye(25)[0])[0]) for _ in range(40)}) == 1


@pytest.mark.parametrize("shape", [(24,), (2, 2, 25), ()])
def test_wrong_observations_are_errors_of_one_line(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"has shape \(25,\)"):
        agent().predict(np.zeros(shape))


def test_predictions_leave_what_is_learnt_alone() -> None:
    quiet, asked = agent(), agent()
    for one in (quiet, asked):
        one.learn(24, progress=False)
        if one is asked:
            one.predict(np.eye(25), deterministic=False)
        one.learn(10, progress=False)
    same(quiet.trainer.state_dict(), asked.trainer.state_dict())


def test_threads_are_given_back_and_saved(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    one = cu.SPRUCB(SEA, settings=TINY, threads=1)
    one.learn(3, progress=False)
    cu.evaluate(one, episodes=1)
    assert torch.get_num_threads() == 2
    one.save(tmp_path)
    loaded: Any = cu.load(tmp_path)
    assert (loaded.threads, loaded.n_steps) == (1, 3)


def test_a_foreign_state_is_an_error_of_one_line(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"kind": "deep", "env": SEA})
    with pytest.raises(UserError, match="save the agent again"):
        cu.load(tmp_path)


@pytest.mark.parametrize("kind", [np.float64, np.float16])
def test_images_of_floats_are_refused_instead_of_becoming_black(kind: type) -> None:
    one = cu.SPRUCB(BREAKOUT, settings=TINY)
    shape = one.trainer.agent.inputs.shape
    scaled = np.full(shape, 0.5, dtype=kind)
    says = rf"of {BREAKOUT} is an image of integers \(uint8\), got {np.dtype(kind)}; pass"
    with pytest.raises(UserError, match=says):
        one.predict(scaled)  # type: ignore[arg-type]
    for fine in (np.uint8, np.int64, bool):
        assert one.predict(np.ones(shape, dtype=fine))[0].shape == ()


@pytest.mark.parametrize("algo", ["spr-ucb", "der", "simple"])
def test_a_run_of_the_command_is_loaded_and_continues(tmp_path: Path, algo: str) -> None:
    changes = {} if algo == "simple" else {"importance": (0.5, 0.9), "bonus.preset": "algorithm-1"}
    own = agent(algo=algo, **changes)
    task = Training(SEA, algo, own.training.settings, steps=30)
    summary = run(task, tmp_path / "runs")
    loaded: Any = cu.load(summary["run_dir"])
    assert loaded.training.spec() == task.spec()
    own.learn(30, progress=False)
    assert (own.n_steps, len(own.returns)) == (loaded.n_steps, summary["episodes"])
    assert cu.evaluate(loaded, episodes=3)["mean"] == summary["evaluation"]["points"][-1]["mean"]
    assert loaded.predict(np.eye(25))[0].tolist() == own.predict(np.eye(25))[0].tolist()
    for each in (loaded, own):
        each.learn(14, progress=False)
    assert_same(own, loaded)
    loaded.save(tmp_path / "saved")
    assert_same(loaded, cu.load(tmp_path / "saved"))


def test_bad_arguments_say_what_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'DeepSea-10'"):
        cu.SPRUCB("DeepSee-10")
    with pytest.raises(ValueError, match="algorithm-1"):
        cu.SPRUCB(SEA, bonus="algoritm-1")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="finds no CUDA"):
            cu.SPRUCB(SEA, device="cuda")
    with pytest.raises(UserError, match=r"env must be an id, a gymnasium.Env or a function"):
        cu.SPRUCB(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        cu.SPRUCB(SEA, settings=TINY, threads=0)
    with pytest.raises(UserError, match=r"has no 'rounds'; use learn\(steps=...\)"):
        agent().learn(rounds=10)
    (tmp_path / "file.py").write_text("")
    for one in (agent(), cu.ContrastiveUCB(cu.Lock(2, 2), seed=0)):
        with pytest.raises(UserError, match=r"file.py is a file; name a folder"):
            one.save(tmp_path / "file.py")


class Corridor(gymnasium.Env[Any, Any]):
    """Three steps to the right pay `reward`."""

    def __init__(self, reward: float = 1.0) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self.reward, self.at = reward, 0

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.at = 0
        return np.eye(4, dtype=np.float32)[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        paid = self.reward if action == 1 and self.at == 3 else 0.0
        return np.eye(4, dtype=np.float32)[self.at], paid, self.at == 3, False, {}


@pytest.mark.parametrize("source", [Corridor(), Corridor, lambda: Corridor()])
def test_own_environments_are_instances_or_factories(source: Any, tmp_path: Path) -> None:
    one = cu.SPRUCB(source, settings=TINY)
    result = one.learn(steps=30, progress=False)
    assert len(one.returns) == 10
    assert list(result.curves["step"])[-1] == 30
    assert one.evaluate(4)["episodes"] == 4
    one.save(tmp_path)
    loaded = cu.load(tmp_path, env=source)
    assert isinstance(loaded, cu.DeepAgent)
    for each in (one, loaded):
        each.learn(steps=10, progress=False)
    same(one.trainer.state_dict(), loaded.trainer.state_dict())
    assert "Corridor" in repr(one)


def test_an_own_environment_must_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cu.SPRUCB(Corridor(), settings=TINY).save(tmp_path)
    monkeypatch.setattr(module, "_sources", {})  # as in another process
    with pytest.raises(UserError, match=r"pass it again: cu.load\(folder, env=...\)"):
        cu.load(tmp_path)


def test_a_return_outside_the_support_is_warned_of_once() -> None:
    settings = {**TINY, "support": (0.0, 2.0)}
    with pytest.warns(
        UserWarning, match=r"outside the C51 support \[0, 2\]; .* support=0,6"
    ) as all_:
        cu.SPRUCB(lambda: Corridor(5.0), settings=settings).learn(steps=60, progress=False)
    assert len(all_) == 1


def test_a_run_shorter_than_its_warm_up_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="use at least 21 steps"):
        agent().learn(steps=20, progress=False)


def test_a_callback_observes_and_stops() -> None:
    seen: list[int] = []

    def stop(event: Any) -> bool:
        seen.append(event.step)
        return event.step < 25

    one = agent()
    one.learn(steps=40, progress=False, callback=stop)
    assert (one.n_steps, seen[-1]) == (25, 25)
    other = cu.ContrastiveUCB(cu.Lock(2, 2), seed=0)
    result = other.learn(9, progress=False, callback=lambda event: event.step < 4)
    assert (other.n_rounds, result.summary[0]["rounds"]) == (4, 4)


@pytest.mark.parametrize("content", ['{"config": null}', '{"config": 3}', "{}"])
def test_a_foreign_folder_is_no_run(content: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(content)
    with pytest.raises(UserError, match="there is no run of 'cucb solve' or 'cucb train' in"):
        cu.load(tmp_path)
