"""`cu.SPRUCB`: the same bits as `cucb train`, and save, load and go on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.training_runs import SEA, TINY, run, same, training

import contrastive_ucb as cu
from contrastive_ucb.errors import UserError
from contrastive_ucb.experiments.trained import load_trained
from contrastive_ucb.training.checkpoint import save_checkpoint


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def agent(seed: int = 0, **changes: str) -> cu.SPRUCB:
    return cu.SPRUCB(SEA, seed, settings=TINY, **changes)  # type: ignore[arg-type]


def test_it_learns_what_the_command_learns(tmp_path: Path) -> None:
    summary = run(training(SEA, steps=30), tmp_path)
    trained = load_trained(Path(summary["run_dir"]))
    mine = agent().learn(30, progress=False)
    same(dict(mine.trainer.agent.network.state_dict()), dict(trained.agent.network.state_dict()))
    assert cu.evaluate(mine, episodes=3)["mean"] == summary["evaluation"]["mean"]
    assert mine.n_steps == 30
    assert len(mine.returns) == summary["episodes"]


@pytest.mark.parametrize("bonus", [None, "algorithm-1", "reference"])
def test_saved_and_loaded_it_goes_on_as_if_nothing_had_been(
    tmp_path: Path, bonus: str | None
) -> None:
    straight, stopped = agent(bonus=bonus), agent(bonus=bonus)
    straight.learn(26, progress=False)
    stopped.learn(26, progress=False).save(tmp_path / "a")
    loaded = cu.load(tmp_path / "a")
    assert isinstance(loaded, cu.DeepAgent)
    for one in (straight, loaded):
        one.learn(14, progress=False)
    same(straight.trainer.state_dict(), loaded.trainer.state_dict())
    same(straight.trainer.replay.state_dict(), loaded.trainer.replay.state_dict())


def test_a_second_save_replaces_the_first(tmp_path: Path) -> None:
    one = agent().learn(10, progress=False)
    one.save(tmp_path)
    one.learn(10, progress=False).save(tmp_path)
    loaded = cu.load(tmp_path)
    assert isinstance(loaded, cu.DeepAgent)
    assert loaded.n_steps == 20
    assert len(list(tmp_path.glob("step_*"))) == 1


def test_resume_learns_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = agent().learn(30, resume=True, out=tmp_path, progress=False)
    monkeypatch.setattr("contrastive_ucb.agents.rainbow.Rainbow.update", _never)
    again = agent().learn(30, resume=True, out=tmp_path, progress=False)
    same(first.trainer.state_dict(), again.trainer.state_dict())
    with pytest.raises(UserError, match="has learnt 30 steps"):
        again.learn(5, resume=True, out=tmp_path)


def _never(*_: object) -> None:
    raise AssertionError("an update was made")


def test_predict_takes_one_observation_or_several() -> None:
    one = agent()
    cells = np.eye(25, dtype=np.float32)
    actions, state = one.predict(cells, state="mine")
    assert (actions.shape, state) == ((25,), "mine")
    singles = [one.predict(cell)[0] for cell in cells]
    assert all(single.shape == () for single in singles)
    assert [int(single) for single in singles] == actions.tolist()


def test_predict_draws_when_asked_to() -> None:
    one = cu.DeepAgent(SEA, settings={**TINY, "eval_epsilon": 1.0}, algo="spr")
    drawn = [int(one.predict(np.eye(25)[0], deterministic=False)[0]) for _ in range(40)]
    assert set(drawn) == {0, 1}
    assert len({int(one.predict(np.eye(25)[0])[0]) for _ in range(40)}) == 1


@pytest.mark.parametrize("shape", [(24,), (2, 2, 25), ()])
def test_wrong_observations_are_errors_of_one_line(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"has shape \(25,\)"):
        agent().predict(np.zeros(shape))


def test_what_cannot_be_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="did you mean 'DeepSea-10'"):
        cu.SPRUCB("DeepSee-10")
    with pytest.raises(ValueError, match="algorithm-1"):
        cu.SPRUCB(SEA, bonus="algoritm-1")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="finds no CUDA"):
            cu.SPRUCB(SEA, device="cuda")


def test_predictions_leave_what_is_learnt_alone() -> None:
    quiet, asked = agent(), agent()
    for one in (quiet, asked):
        one.learn(24, progress=False)
        if one is asked:
            one.predict(np.eye(25), deterministic=False)
        one.learn(10, progress=False)
    same(quiet.trainer.state_dict(), asked.trainer.state_dict())


def test_threads_are_given_back() -> None:
    torch.set_num_threads(2)
    one = cu.SPRUCB(SEA, settings=TINY, threads=1)
    one.learn(3, progress=False)
    cu.evaluate(one, episodes=1)
    assert torch.get_num_threads() == 2


def test_a_foreign_state_is_an_error_of_one_line(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"kind": "deep", "env": SEA})
    with pytest.raises(UserError, match="save the agent again"):
        cu.load(tmp_path)
