"""Run folders of `solve`: batches equal single runs, and a killed run equals an undisturbed one."""

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
from runs.training_runs import Stop, same, stop_at, without_time

import contrastive_ucb as cu
from contrastive_ucb.core.checkpoint import CheckpointError, latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import loop as module
from contrastive_ucb.runs import session
from contrastive_ucb.runs.loop import overall, solve
from contrastive_ucb.runs.problem import Problem

LOWRANK = {"n_states": 6, "n_actions": 2, "true_rank": 2, "horizon": 3}

GAME = {
    "env": "lowrank-game",
    "settings": {
        "n_states": 4,
        "n_actions": 2,
        "n_column_actions": 3,
        "true_rank": 2,
        "horizon": 2,
    },
    "algo": "contrastive-ulcb",
}


def problem(**changes: object) -> Problem:
    settings: dict[str, object] = {"env": "lowrank", "settings": LOWRANK, "rounds": 40}
    return Problem(**{**settings, **changes})  # type: ignore[arg-type]


def same_results(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Summary, metrics and final state of two runs agree to the last bit."""
    assert without_time(one) == without_time(other)
    folders = [Path(run["run_dir"]) for run in (one, other)]
    metrics = [(folder / "metrics.jsonl").read_bytes() for folder in folders]
    assert metrics[0] == metrics[1]
    newest = [latest_checkpoint(folder / "checkpoints") for folder in folders]
    same(*[{**load_checkpoint(path), "seconds": 0.0} for path in newest])


def test_summary_has_the_documented_fields(tmp_path: Path) -> None:
    [summary] = solve(problem(), [0], tmp_path, progress=False)
    names = (
        "algo env seed rounds trajectories env_steps optimal_value final_gap average_regret zeta"
    )
    assert {*names.split(), "optimistic_fraction", "seconds", "run_dir"} <= summary.keys()
    assert summary["trajectories"] == 40 * 3
    assert summary["env_steps"] == 40 * (9 + 9 - 2) // 2
    assert "solved_at" not in summary
    [game] = solve(problem(**GAME), [0], tmp_path, progress=False)
    names = "nash_value exploitability average_gap certificate bracket_fraction max_cce_gap"
    assert {*names.split(), "cce_stages", "final_gap", "zeta", "run_dir"} <= game.keys()
    assert game["trajectories"] == 40 * 2
    lock = problem(env="lock", settings={"horizon": 2, "n_actions": 2}, rounds=80)
    [solved] = solve(lock, [1], tmp_path, progress=False)
    assert 1 <= solved["solved_at"] <= 76
    assert solved["final_gap"] == pytest.approx(0, abs=1e-9)
    json.dumps([summary, game, solved], allow_nan=False)


@pytest.mark.parametrize("changes", [{}, GAME, {**GAME, "algo": "tight-cce"}])
def test_batched_seeds_equal_separate_runs(tmp_path: Path, changes: dict) -> None:
    batch = solve(problem(**changes), [3, 4, 5], tmp_path / "batch", progress=False)
    for summary in batch:
        [alone] = solve(problem(**changes), [summary["seed"]], tmp_path / "alone", progress=False)
        same_results(alone, summary)


def test_batched_seeds_equal_separate_runs_where_batched_products_round_apart(
    tmp_path: Path,
) -> None:
    """torch's batched product of these shapes depends on the number of matrices."""
    for states, actions, rank in ((16, 3, 3), (33, 6, 5)):
        sizes = {"n_states": states, "n_actions": actions, "true_rank": rank, "horizon": 5}
        large = problem(settings=sizes, rounds=20)
        for summary in solve(large, range(6), tmp_path / "batch", progress=False):
            [alone] = solve(large, [summary["seed"]], tmp_path / "alone", progress=False)
            same_results(alone, summary)


def test_ctrl_c_saves_the_round_it_is_in(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "contrastive_ucb.cli", "solve", "lowrank", "--rounds", "50000"]
    command += ["--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    patience = time.monotonic() + 60
    while not any(file.stat().st_size for file in tmp_path.rglob("metrics.jsonl")):
        assert time.monotonic() < patience
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped" in said.splitlines()[-1]
    [folder] = list(tmp_path.rglob("checkpoints"))
    assert latest_checkpoint(folder) is not None


def test_what_cannot_be_built_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file"):
        solve(problem(env="file", settings={"path": "x.npz", "rank": 2}), [0], tmp_path)
    assert not list(tmp_path.iterdir())


def test_finished_runs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = solve(problem(), [0, 1], tmp_path, progress=False)
    monkeypatch.setattr(session, "Session", None)  # nothing may be played
    said: list[str] = []
    assert solve(problem(), [0, 1], tmp_path, progress=False, say=said.append) == first
    assert said == ["2 of 2 runs are finished already; their results are shown"]
    Path(first[0]["run_dir"], "DONE").write_text("{}")
    with pytest.raises(UserError, match="remove it and repeat"):
        solve(problem(), [0], tmp_path, progress=False)


def test_one_mdp_for_all_seeds_or_one_each(tmp_path: Path) -> None:
    own = solve(problem(), [0, 1], tmp_path, progress=False)
    shared = solve(problem(env_seed=0), [0, 1], tmp_path, progress=False)
    assert own[0]["optimal_value"] != own[1]["optimal_value"]
    assert shared[0]["optimal_value"] == shared[1]["optimal_value"]
    assert shared[0]["average_regret"] != shared[1]["average_regret"]


@pytest.mark.parametrize("step", [1, 13, 39])
@pytest.mark.parametrize("changes", [{}, GAME], ids=["mdp", "game"])
def test_interrupted_run_equals_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict, step: int
) -> None:
    whole = solve(problem(**changes), [0, 1], tmp_path / "whole", progress=False)
    with monkeypatch.context() as patch:
        stop_at(step, patch)
        with pytest.raises(Stop):
            solve(problem(**changes), [0, 1], tmp_path / "cut", checkpoint_seconds=0)
    cut = solve(problem(**changes), [0, 1], tmp_path / "cut", progress=False)
    for one, other in zip(whole, cut, strict=True):
        same_results(one, other)


def test_seeds_that_stand_at_different_rounds_are_finished_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = solve(problem(), [0, 1], tmp_path / "whole", progress=False)
    real = module.save_checkpoint

    def saving(folder: Path, step: int, *content: dict) -> Path:
        if step == 7 and folder.parent.name == "seed_1":
            raise Stop  # seed 0 has round 7, seed 1 only round 6
        return real(folder, step, *content)

    monkeypatch.setattr(module, "save_checkpoint", saving)
    with pytest.raises(Stop):
        solve(problem(), [0, 1], tmp_path / "cut", progress=False, checkpoint_seconds=0)
    monkeypatch.setattr(module, "save_checkpoint", real)
    said: list[str] = []
    cut = solve(problem(), [0, 1], tmp_path / "cut", progress=False, say=said.append)
    assert [line.split()[-1] for line in said] == ["6", "7"]
    for one, other in zip(whole, cut, strict=True):
        same_results(one, other)


def test_a_run_with_a_torn_checkpoint_continues_from_the_older_one(tmp_path: Path) -> None:
    [first] = solve(problem(), [0], tmp_path, progress=False, checkpoint_seconds=0)
    run = Path(first["run_dir"])
    (run / "DONE").unlink()
    [again] = solve(problem(), [0], tmp_path, progress=False)
    same_results(first, again)
    (run / "DONE").unlink()
    newest = latest_checkpoint(run / "checkpoints")
    arrays = newest / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-5])
    said: list[str] = []
    [again] = solve(problem(), [0], tmp_path, progress=False, say=said.append)
    assert str(arrays) in said[0]
    assert said[0].endswith("; continuing from step_39 instead")
    same_results(first, again)
    for path in (run / "checkpoints").glob("step_*"):
        (path / "state.json").unlink()
    (run / "DONE").unlink()
    with pytest.raises(CheckpointError, match=r"step_40.*no older .*; remove the run folder /"):
        solve(problem(), [0], tmp_path, progress=False)


def test_a_checkpoint_of_another_seed_is_not_used(tmp_path: Path) -> None:
    """It was used without a message, and the seeds had the same regret."""
    whole = solve(problem(), [0, 1], tmp_path, progress=False, checkpoint_seconds=0)
    first, second = (Path(summary["run_dir"]) for summary in whole)
    for name in ("arrays.safetensors", "state.json"):
        shutil.copy(first / "checkpoints" / "step_40" / name, second / "checkpoints" / "step_40")
    with pytest.raises(CheckpointError, match=r"seed_1.*another .* run \(seed 0 instead of 1\)"):
        cu.load(second)
    for run in (first, second):
        (run / "DONE").unlink()
    said: list[str] = []
    again = solve(problem(), [0, 1], tmp_path, progress=False, say=said.append)
    assert "seed 0 instead of 1" in said[0]
    for one, other in zip(whole, again, strict=True):
        same_results(one, other)


def test_damage_of_a_finished_run_is_noticed_when_it_is_repeated(tmp_path: Path) -> None:
    [summary] = solve(problem(), [0], tmp_path, progress=False)
    run = Path(summary["run_dir"])
    for name in ("metrics.jsonl", "DONE", "spec.json", "versions.json"):
        content = (run / name).read_bytes()
        at = max(content.find(digit) for digit in (b"1", b"2"))
        for damaged in (content[:at] + b"7" + content[at + 1 :], content + b'{"step": 9}\n', b""):
            (run / name).write_bytes(damaged)
            with pytest.raises(UserError, match=rf"{name} .*; remove (it, and )?DONE"):
                solve(problem(), [0], tmp_path, progress=False)
        (run / name).write_bytes(content)
    assert solve(problem(), [0], tmp_path, progress=False) == [summary]


def test_damage_before_the_checkpoint_does_not_survive_a_resume(tmp_path: Path) -> None:
    [summary] = solve(problem(), [0], tmp_path, progress=False)
    run = Path(summary["run_dir"])
    (run / "DONE").unlink()
    (run / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text().replace("1", "2", 1))
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl was changed .*; remove the run"):
        solve(problem(), [0], tmp_path, progress=False)


def test_drafts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    run = problem().spec(0).folder(tmp_path)
    (run / "checkpoints" / f".step_9.{'0' * 32}").mkdir(parents=True)
    (run / f".spec.json.{'0' * 32}").write_text("{")
    solve(problem(), [0], tmp_path, progress=False)
    assert {path.name for path in run.rglob(".*")} == {".lock"}


def test_a_file_is_identified_by_its_content(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "my.npz"
    tables = rng.dirichlet(np.ones(3), (2, 2, 3, 2))
    rewards = rng.random((2, 3, 2))
    np.savez(path, transitions=tables[0], rewards=rewards)
    own = problem(env="file", settings={"path": str(path), "rank": 2})
    before = own.spec(0).identity()
    [summary] = solve(own, [0], tmp_path, progress=False)
    assert summary["env"] == "file"
    np.savez(path, transitions=tables[1], rewards=rewards)
    assert own.spec(0).identity() != before


def test_overall_has_means_sums_of_counts_and_the_runs() -> None:
    runs = [
        {
            "algo": "a",
            "env": "lock",
            "seed": seed,
            "zeta": zeta,
            "solved_at": at,
            "seconds": 1.0,
            "cce_stages": {"pure": seed, "previous": 2},
            "run_dir": f"runs/a/lock/seed_{seed}",
        }
        for seed, zeta, at in ((0, 1.0, 10), (1, 3.0, None))
    ]
    total = overall(runs)
    assert (total["zeta"], total["solved_at"], total["solved"]) == (2.0, 10, 1)
    assert (total["seconds"], total["run_dir"], total["seeds"]) == (1.0, "runs/a/lock", [0, 1])
    assert total["cce_stages"] == {"pure": 1, "previous": 4}
    assert total["runs"] == runs
    assert overall(runs[:1]) == runs[0]


def test_kill_9_and_repeat_equals_an_undisturbed_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "contrastive_ucb.cli", "solve", "lowrank", "--rounds", "150"]
    command += ["--rank", "2", "--seeds", "2", "--checkpoint-seconds", "0", "--json", "--out"]
    whole = subprocess.run([*command, tmp_path / "whole"], capture_output=True, check=True)
    summary = json.loads(whole.stdout.splitlines()[-1])
    metrics = Path(summary["run_dir"]).relative_to(tmp_path / "whole") / "seed_0" / "metrics.jsonl"
    process = subprocess.Popen([*command, tmp_path / "cut"], stderr=subprocess.DEVNULL)
    folder = (tmp_path / "cut" / metrics).parent / "checkpoints"
    patience = time.monotonic() + 60
    while not (newest := latest_checkpoint(folder)) or int(newest.name[5:]) < 20:
        assert time.monotonic() < patience
        time.sleep(0.005)
    assert process.poll() is None, "finished before it could be killed; make the run longer"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    cut = subprocess.run([*command, tmp_path / "cut"], capture_output=True, check=True)
    again = json.loads(cut.stdout.splitlines()[-1])
    for one, other in zip(summary["runs"], again["runs"], strict=True):
        same_results(one, other)
