"""Run folders of `solve`: batches equal single runs, and a killed run equals an undisturbed one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive_ucb.core.checkpoint import CheckpointError, latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import loop as module
from contrastive_ucb.runs import session
from contrastive_ucb.runs.loop import overall, solve
from contrastive_ucb.runs.problem import Problem

LOWRANK = {"n_states": 6, "n_actions": 2, "rank": 2, "horizon": 3}

GAME = {
    "env": "lowrank-game",
    "env_settings": {"n_states": 4, "n_actions": [2, 3], "rank": 2, "horizon": 2},
    "algo": "contrastive-ulcb",
}


def problem(**changes: object) -> Problem:
    settings: dict[str, object] = {"env": "lowrank", "env_settings": LOWRANK, "rounds": 40}
    return Problem(**{**settings, **changes})  # type: ignore[arg-type]


def without_time(summary: dict) -> dict:
    return {key: value for key, value in summary.items() if key not in ("seconds", "run_dir")}


def same_results(one: Path, other: Path) -> None:
    """Metrics and final state of two run folders agree to the last bit."""
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    states = [
        load_checkpoint(latest_checkpoint(p / "checkpoints"))["session"] for p in (one, other)
    ]
    _same(*states)


def _same(one: object, other: object) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _same(one[key], other[key])
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_summary_has_what_is_promised(tmp_path: Path) -> None:
    [summary] = solve(problem(), [0], tmp_path, progress=False)
    names = (
        "algo env seed rounds trajectories env_steps optimal_value final_gap average_regret zeta"
    )
    assert {*names.split(), "optimistic_fraction", "seconds", "run_dir"} <= summary.keys()
    assert summary["trajectories"] == 40 * 3
    assert summary["env_steps"] == 40 * (9 + 9 - 2) // 2
    assert "solved_at" not in summary
    json.dumps(summary, allow_nan=False)


def test_lock_summary_says_when_it_was_solved(tmp_path: Path) -> None:
    lock = problem(env="lock", env_settings={"horizon": 2, "n_actions": 2}, rounds=80)
    [summary] = solve(lock, [1], tmp_path, progress=False)
    assert 1 <= summary["solved_at"] <= 76
    assert summary["final_gap"] == pytest.approx(0, abs=1e-9)


def test_game_summary_has_what_is_promised(tmp_path: Path) -> None:
    [summary] = solve(problem(**GAME), [0], tmp_path, progress=False)
    names = "nash_value exploitability average_gap certificate bracket_fraction max_cce_gap"
    assert {*names.split(), "cce_stages", "final_gap", "zeta", "run_dir"} <= summary.keys()
    assert summary["trajectories"] == 40 * 2
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize("changes", [{}, GAME, {**GAME, "algo": "tight-cce"}])
def test_batched_seeds_equal_separate_runs(tmp_path: Path, changes: dict) -> None:
    batch = solve(problem(**changes), [3, 4, 5], tmp_path / "batch", progress=False)
    for summary in batch:
        [alone] = solve(problem(**changes), [summary["seed"]], tmp_path / "alone", progress=False)
        assert without_time(alone) == without_time(summary)
        same_results(Path(alone["run_dir"]), Path(summary["run_dir"]))


def test_batched_seeds_equal_separate_runs_where_batched_products_round_apart(
    tmp_path: Path,
) -> None:
    """torch's batched product of these shapes depends on the number of matrices."""
    for states, actions, rank in ((16, 3, 3), (33, 6, 5)):
        sizes = {"n_states": states, "n_actions": actions, "rank": rank, "horizon": 5}
        large = problem(env_settings=sizes, rounds=20)
        for summary in solve(large, range(6), tmp_path / "batch", progress=False):
            [alone] = solve(large, [summary["seed"]], tmp_path / "alone", progress=False)
            same_results(Path(alone["run_dir"]), Path(summary["run_dir"]))


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


def test_damaged_done_says_what_to_do(tmp_path: Path) -> None:
    [first] = solve(problem(), [0], tmp_path, progress=False)
    Path(first["run_dir"], "DONE").write_text("{}")
    with pytest.raises(UserError, match="remove it and repeat"):
        solve(problem(), [0], tmp_path, progress=False)


def test_what_cannot_be_built_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file"):
        solve(problem(env="file", env_settings={"path": "x.npz", "rank": 2}), [0], tmp_path)
    assert not list(tmp_path.iterdir())


def test_finished_runs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = solve(problem(), [0, 1], tmp_path, progress=False)
    monkeypatch.setattr(session, "Session", None)  # nothing may be played
    said: list[str] = []
    assert solve(problem(), [0, 1], tmp_path, progress=False, say=said.append) == first
    assert said == ["2 of 2 runs are finished already; their results are shown"]


def test_other_settings_go_to_another_folder(tmp_path: Path) -> None:
    runs = [
        solve(problem(**changes), [0], tmp_path, progress=False)[0]["run_dir"]
        for changes in ({}, {"rounds": 41}, {"agent_settings": {"alpha": 0.5}}, {"env_seed": 0})
    ]
    assert len(set(runs)) == 4


def test_one_mdp_for_all_seeds_or_one_each(tmp_path: Path) -> None:
    own = solve(problem(), [0, 1], tmp_path, progress=False)
    shared = solve(problem(env_seed=0), [0, 1], tmp_path, progress=False)
    assert own[0]["optimal_value"] != own[1]["optimal_value"]
    assert shared[0]["optimal_value"] == shared[1]["optimal_value"]
    assert shared[0]["average_regret"] != shared[1]["average_regret"]


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 13, 39])
@pytest.mark.parametrize("changes", [{}, GAME], ids=["mdp", "game"])
def test_interrupted_run_equals_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict, stop_at: int
) -> None:
    whole = solve(problem(**changes), [0, 1], tmp_path / "whole", progress=False)
    real = module.shown_on

    def stopping(bar: Any) -> Any:
        def observe(event: Any) -> None:
            if event.step == stop_at:
                raise Stop
            real(bar)(event)

        return observe

    monkeypatch.setattr(module, "shown_on", stopping)
    with pytest.raises(Stop):
        solve(problem(**changes), [0, 1], tmp_path / "cut", checkpoint_seconds=0)
    monkeypatch.setattr(module, "shown_on", real)
    cut = solve(problem(**changes), [0, 1], tmp_path / "cut", progress=False)
    for one, other in zip(whole, cut, strict=True):
        assert without_time(one) == without_time(other)
        same_results(Path(one["run_dir"]), Path(other["run_dir"]))


def test_seeds_that_stand_at_different_rounds_are_finished_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = solve(problem(), [0, 1], tmp_path / "whole", progress=False)
    real, saved = module.save_checkpoint, []

    def saving(folder: Path, step: int, state: dict) -> Path:
        if step == 7 and saved:
            raise Stop  # seed 0 has round 7, seed 1 only round 6
        saved.extend([step] if step == 7 else [])
        return real(folder, step, state)

    monkeypatch.setattr(module, "save_checkpoint", saving)
    with pytest.raises(Stop):
        solve(problem(), [0, 1], tmp_path / "cut", progress=False, checkpoint_seconds=0)
    monkeypatch.setattr(module, "save_checkpoint", real)
    said: list[str] = []
    cut = solve(problem(), [0, 1], tmp_path / "cut", progress=False, say=said.append)
    assert [line.split()[-1] for line in said] == ["6", "7"]
    for one, other in zip(whole, cut, strict=True):
        same_results(Path(one["run_dir"]), Path(other["run_dir"]))


def test_killed_before_done_is_finished_from_its_last_checkpoint(tmp_path: Path) -> None:
    [first] = solve(problem(), [0], tmp_path, progress=False)
    (Path(first["run_dir"]) / "DONE").unlink()
    [again] = solve(problem(), [0], tmp_path, progress=False)
    assert without_time(again) == without_time(first)


def test_torn_checkpoint_is_an_error_and_the_one_before_is_there(tmp_path: Path) -> None:
    [first] = solve(problem(), [0], tmp_path, progress=False, checkpoint_seconds=0)
    run = Path(first["run_dir"])
    (run / "DONE").unlink()
    newest = latest_checkpoint(run / "checkpoints")
    arrays = newest / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match="step_39"):
        solve(problem(), [0], tmp_path, progress=False)
    for path in newest.iterdir():
        path.unlink()
    newest.rmdir()
    [again] = solve(problem(), [0], tmp_path, progress=False)
    assert without_time(again) == without_time(first)


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    from contrastive_ucb.runs.store import RunFolder

    with (
        RunFolder(problem().spec(0), tmp_path),
        pytest.raises(UserError, match=r"in use|another"),
    ):
        solve(problem(), [0], tmp_path, progress=False)


def test_file_is_told_by_its_content(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "my.npz"
    tables = rng.dirichlet(np.ones(3), (2, 2, 3, 2))
    rewards = rng.random((2, 3, 2))
    np.savez(path, transitions=tables[0], rewards=rewards)
    mine = problem(env="file", env_settings={"path": str(path), "rank": 2})
    before = mine.spec(0).identity()
    [summary] = solve(mine, [0], tmp_path, progress=False)
    assert summary["env"] == "file"
    np.savez(path, transitions=tables[1], rewards=rewards)
    assert mine.spec(0).identity() != before


def test_overall_adds_up_counts_by_name() -> None:
    runs = [{"seed": s, "cce_stages": {"pure": s, "previous": 2}} for s in (3, 4)]
    assert overall(runs)["cce_stages"] == {"pure": 7, "previous": 4}


def test_overall_has_means_and_the_runs() -> None:
    runs = [
        {"algo": "a", "env": "lock", "seed": s, "zeta": z, "solved_at": at, "seconds": 1.0}
        for s, z, at in ((0, 1.0, 10), (1, 3.0, None))
    ]
    for run in runs:
        run["run_dir"] = f"runs/a/lock/seed_{run['seed']}"
    total = overall(runs)
    assert (total["zeta"], total["solved_at"], total["solved"]) == (2.0, 10, 1)
    assert (total["seconds"], total["run_dir"], total["seeds"]) == (1.0, "runs/a/lock", [0, 1])
    assert total["runs"] == runs
    assert overall(runs[:1]) == runs[0]


@pytest.mark.parametrize("after", [1, 60])
def test_kill_9_and_repeat_equals_an_undisturbed_run(tmp_path: Path, after: int) -> None:
    command = [sys.executable, "-m", "contrastive_ucb.cli", "solve", "lowrank", "--rounds", "300"]
    command += ["--rank", "2", "--seeds", "2", "--checkpoint-seconds", "0", "--json", "--out"]
    whole = subprocess.run([*command, tmp_path / "whole"], capture_output=True, check=True)
    summary = json.loads(whole.stdout.splitlines()[-1])
    metrics = Path(summary["run_dir"]).relative_to(tmp_path / "whole") / "seed_0" / "metrics.jsonl"
    process = subprocess.Popen([*command, tmp_path / "cut"], stderr=subprocess.DEVNULL)
    folder = (tmp_path / "cut" / metrics).parent / "checkpoints"
    patience = time.monotonic() + 60
    while not (newest := latest_checkpoint(folder)) or int(newest.name[5:]) < after:
        assert time.monotonic() < patience
        time.sleep(0.005)
    assert process.poll() is None, "finished before it could be killed; make the run longer"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    cut = subprocess.run([*command, tmp_path / "cut"], capture_output=True, check=True)
    again = json.loads(cut.stdout.splitlines()[-1])
    for one, other in zip(summary["runs"], again["runs"], strict=True):
        assert without_time(one) == without_time(other)
        same_results(Path(one["run_dir"]), Path(other["run_dir"]))
