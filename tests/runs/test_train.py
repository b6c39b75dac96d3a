"""Run folders of `train`: what a run leaves behind, and how it fails."""

import json
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs.training_runs import (
    BREAKOUT,
    OPTIMISTIC,
    SEA,
    STEPS,
    TINY,
    lines,
    run,
    same,
    same_results,
    training,
)

from contrastive_ucb.agents.deep.presets import BONUSES, DEEP_PRESETS
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.agents.deep.trainer import Trainer
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import Event
from contrastive_ucb.core.runtime import keep_freed_memory, multiplies_bfloat16
from contrastive_ucb.envs.deepsea import solved_at
from contrastive_ucb.evaluation import rollouts
from contrastive_ucb.evaluation.rollouts import evaluate
from contrastive_ucb.runs import loop as module
from contrastive_ucb.runs import training as training_module
from contrastive_ucb.runs.deep_agent import load_weights
from contrastive_ucb.runs.store import RunFolder, find_run
from contrastive_ucb.runs.training import Training


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_summary_and_metrics_have_what_is_promised(tmp_path: Path) -> None:
    summary = run(training("deep-sea-5", steps=115, first_update=90), tmp_path)
    assert (summary["env"], summary["algo"], summary["seed"]) == (SEA, "spr-ucb", 0)
    assert (summary["steps"], summary["updates"], summary["episodes"]) == (115, 25, 23)
    assert summary["bonus"] == "paper"
    assert summary["evaluation"].keys() == {"mean", "median", "episodes", "points"}
    assert summary["evaluation"]["episodes"] == 3
    points = summary["evaluation"]["points"]
    assert [point["step"] for point in points] == [106, 109, 111, 113, 115]
    assert summary["evaluation"]["mean"] == pytest.approx(np.mean([p["mean"] for p in points]))
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
    plain = run(training(algo="rainbow"), tmp_path)
    assert plain["bonus"] == "none"
    assert not any(name.startswith("bonus") for line in lines(plain) for name in line)


def evaluations(summary: dict[str, Any]) -> list[dict[str, Any]]:
    path = Path(summary["run_dir"], "eval.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_evaluation_is_of_the_weights_at_its_step(tmp_path: Path) -> None:
    """Oracle: a trainer stopped at each point, evaluated from scratch."""
    task = training(BREAKOUT, steps=60)
    found = evaluations(run(task, tmp_path))
    assert [line["step"] for line in found] == [56, 57, 58, 59, 60]
    for index, line in enumerate(reversed(found)):
        trainer = task.trainer()
        assert len(list(trainer.run(line["step"]))) == line["step"]
        epsilon = trainer.config.eval_epsilon
        scores = evaluate(trainer.agent, BREAKOUT, 0, 3, epsilon, index)
        assert line["scores"] == scores.tolist()
        assert line["mean"] == scores.mean()


def test_evaluation_does_not_change_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = run(training(BREAKOUT, steps=60), tmp_path / "often")
    monkeypatch.setattr(rollouts, "n_evaluations", lambda env: 1)
    once = run(training(BREAKOUT, steps=60), tmp_path / "once", eval_episodes=1)
    assert lines(often) == lines(once)
    one, other = (
        load_checkpoint(latest_checkpoint(Path(summary["run_dir"], "checkpoints")))["trainer"]
        for summary in (often, once)
    )
    same(one, other)


def test_atari_is_evaluated_once_with_the_final_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def noting(agent: Any, env: str, seed: int, episodes: int, *rest: Any) -> Any:
        asked.append(episodes)
        return evaluate(agent, env, seed, 1, *rest)

    monkeypatch.setattr(rollouts, "evaluate", noting)
    summary = run(training("Pong", steps=24), tmp_path, eval_episodes=None)
    assert asked == [100]
    assert [line["step"] for line in evaluations(summary)] == [24]
    run(training(SEA, steps=60), tmp_path, eval_episodes=None)
    assert asked[1:] == [20] * 5


def test_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(training(), tmp_path)
    monkeypatch.setattr(Training, "trainer", None)  # nothing may be played
    said: list[str] = []
    assert run(training(), tmp_path, say=said.append) == first
    assert said == ["the run is finished already; its results are shown"]
    Path(first["run_dir"], "DONE").write_text("{}")
    with pytest.raises(UserError, match="remove it and repeat"):
        run(training(), tmp_path)


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


@pytest.mark.parametrize("algo", DEEP_PRESETS)
def test_every_method_plays_atari(algo: str, tmp_path: Path) -> None:
    summary = run(training("Pong", algo, steps=24), tmp_path, eval_episodes=1)
    assert (summary["steps"], summary["updates"]) == (24, 4)


@pytest.mark.parametrize("algo", DEEP_PRESETS)
def test_nan_stops_and_leaves_the_last_good_checkpoint(
    algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = training(BREAKOUT, algo)
    real = Rainbow.update

    def spoilt(agent: Rainbow, replay: Any, batch: Any) -> dict[str, float]:
        if agent.n_updates == 5:
            next(agent.network.parameters()).data[:] = np.nan
        return real(agent, replay, batch)

    monkeypatch.setattr(Rainbow, "update", spoilt)
    with pytest.raises(ArithmeticError, match=r"NaN.* at step 26 .*step_25 is the last good"):
        run(task, tmp_path, every=0.0)
    monkeypatch.setattr(Rainbow, "update", real)
    same_results(run(task, tmp_path / "whole"), run(task, tmp_path))


def test_a_run_is_found_by_its_root_if_it_is_the_only_one(tmp_path: Path) -> None:
    first = Path(run(training(steps=3), tmp_path)["run_dir"])
    assert find_run(tmp_path, "train")[0] == find_run(first, "train")[0] == first
    trained = load_weights(tmp_path)
    assert (trained.n_steps, trained.run_dir) == (3, first)
    assert trained.training.config == training().config
    run(training(steps=4), tmp_path)
    with pytest.raises(UserError, match="2 runs"):
        find_run(tmp_path, "train")
    assert find_run(first, "train")[0] == first
    with pytest.raises(UserError, match="no folder"):
        find_run(tmp_path / "nowhere", "train")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run of 'cucb train'"):
        find_run(tmp_path / "empty", "train")
    shutil.rmtree(first / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint yet"):
        load_weights(first)


@pytest.mark.parametrize(
    ("cpuinfo", "native"),
    [
        ("flags : fpu avx512f avx512_bf16 avx2", True),
        ("flags : fpu amx_bf16", True),
        ("Features : fp asimd bf16", True),
        ("flags : fpu avx512f avx2", False),
        ("cpu : POWER9", None),
        ("", None),
    ],
)
def test_slow_products_in_bfloat16_are_remarked(
    cpuinfo: str, native: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regression: on processors without them a run was 8.5 times slower, without a word."""
    if cpuinfo:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\n{cpuinfo}\n")
    assert multiplies_bfloat16(tmp_path / "cpuinfo") is native
    monkeypatch.setattr(training_module, "multiplies_bfloat16", lambda: native)
    for precision, device in (("bfloat16", "cpu"), ("bfloat16", "cuda"), ("float32", "cpu")):
        remarks = training(precision=precision).remarks(100, device=device)
        slow = native is False and (precision, device) == ("bfloat16", "cpu")
        assert any("several times slower" in remark for remark in remarks) == slow


def test_bonus_has_the_name_of_its_preset_and_what_differs() -> None:
    for env in (SEA, BREAKOUT):
        for name in BONUSES:
            assert training(env, bonus__preset=name).bonus == name
    assert training(**OPTIMISTIC).bonus == "algorithm-1 rebuild_every=7"
    assert training(bonus__scale=0.5).bonus == "paper scale=0.5"
    assert training(algo="spr").bonus == "none"


@pytest.mark.parametrize(
    ("env", "algo", "changes", "remarks"),
    [
        ("FrozenLake-v1", "spr-ucb", {}, 1),
        ("FrozenLake-v1", "spr-ucb", {"support": (0.0, 1.0)}, 0),
        ("FrozenLake-v1", "drq", {}, 0),  # without atoms
        ("CartPole-v1", "spr-ucb", {}, 0),
        (SEA, "spr-ucb", {}, 0),
    ],
)
def test_an_assumed_range_of_returns_is_remarked(
    env: str, algo: str, changes: dict[str, Any], remarks: int, tmp_path: Path
) -> None:
    said: list[str] = []
    run(training(env, algo, steps=3, **changes), tmp_path, say=said.append)
    assert sum("-10 and 10" in line and "support=LOW,HIGH" in line for line in said) == remarks


def test_allocator_takes_the_hint() -> None:
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
    assert torch.ones(1 << 20).sum() == 1 << 20


def test_slow_checkpoints_are_made_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds a step, and each checkpoint takes eight: 5% of the time are a pause of 160."""
    clock = [0.0]
    saved: list[int] = []

    save = module.save_checkpoint

    def saving(folder: Path, step: int, *content: dict[str, Any]) -> Path:
        clock[0] += 8
        saved.append(step)
        return save(folder, step, *content)

    real = Trainer.run

    def slowly(trainer: Trainer, until: int) -> Iterator[Event]:
        for event in real(trainer, until):
            clock[0] += 10
            yield event

    monkeypatch.setattr(Trainer, "run", slowly)
    monkeypatch.setattr(module, "save_checkpoint", saving)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    run(training(steps=40), tmp_path, every=25.0)
    assert saved == [3, 19, 35, 40]


def test_weights_that_the_last_update_broke_are_not_saved(tmp_path: Path) -> None:
    """Losses and gradients are looked at before an update; the weights after it when saved."""
    task = training(steps=21, learning_rate=1e38)
    with pytest.raises(ArithmeticError, match=r"is not finite after update 1, at step 21"):
        run(task, tmp_path)
    folder = RunFolder(task.spec(), tmp_path)
    assert not folder.finished
    assert latest_checkpoint(folder.checkpoints) is None
