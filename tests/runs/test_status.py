"""The states of runs, and the stored plans of sweeps."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs.sweep_runs import jobs_of, solve_table, train_table

from contrastive_ucb.cli.status import counted, table_of
from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.scores import load_scores, missing_runs
from contrastive_ucb.runs import grid
from contrastive_ucb.runs.grid import Grid, Job, remembered
from contrastive_ucb.runs.status import (
    RunState,
    last_lines,
    states_of,
    watched_folder,
    watched_jobs,
)
from contrastive_ucb.runs.store import RunFolder

SEA, MDP = jobs_of(train_table(steps=100)), jobs_of(solve_table(rounds=50, seeds=4))


def state_of(job: Job, root: Path) -> RunState:
    [state] = states_of(watched_jobs([job], root))
    return state


def test_the_life_of_a_run(tmp_path: Path) -> None:
    [job] = SEA
    state = state_of(job, tmp_path)
    assert (state.state, state.step, state.steps, state.label) == ("waiting", 0, 100, "spr")
    assert state.command == job.command(tmp_path)
    with RunFolder(job.spec(), tmp_path) as folder:
        lines = [{"step": 12, "charts/episodic_return": 0.25}, {"step": 20, "losses/value": 1.0}]
        folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 9')
        state = state_of(job, tmp_path)
        assert (state.state, state.step, state.latest, state.score) == ("running", 20, 0.25, None)
        assert state.seconds_left is None
        save_checkpoint(folder.checkpoints, 10, {"seconds": 5.0})
        assert state_of(job, tmp_path).seconds_left == 40.0
    assert state_of(job, tmp_path).state == "waiting"
    (folder.path / "FAILED").write_text('{"error": "no luck", "log": "log.txt"}')
    state = state_of(job, tmp_path)
    assert (state.state, state.error, state.log) == ("failed", "no luck", None)
    (folder.path / "log.txt").touch()
    log = str(folder.path / "log.txt")
    assert state_of(job, tmp_path).log == log
    # The folder may have been moved.
    (folder.path / "FAILED").write_text('{"error": "no luck", "log": "runs/elsewhere/log.txt"}')
    assert state_of(job, tmp_path).log == log
    with folder:
        assert state_of(job, tmp_path).state == "running"  # it is tried again
        folder.finish({"evaluation": {"mean": 0.5}, "seconds": 8.0})
    state = state_of(job, tmp_path)
    assert (state.state, state.step, state.score, state.error) == ("finished", 100, 0.5, None)
    assert state.seconds_left is None


def test_the_seconds_left_follow_from_runs_of_the_group(tmp_path: Path) -> None:
    for job, seconds in zip(MDP, (10.0, 30.0), strict=False):
        with RunFolder(job.spec(), tmp_path) as folder:
            folder.finish({"final_gap": 0.125, "seconds": seconds})
    third = RunFolder(MDP[2].spec(), tmp_path)
    with third:
        third.metrics.write_text('{"step": 25, "gap": 0.5}\n')
    states = states_of(watched_jobs(reversed(MDP), tmp_path))
    assert [state.seed for state in states] == [0, 1, 2, 3]
    assert [state.seconds_left for state in states] == [None, None, 10.0, 20.0]
    assert [state.score for state in states] == [0.125, 0.125, None, None]
    assert (states[2].latest, states[2].measure) == (0.5, "gap")


def test_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with path.open("w") as file:
        for step in range(20_000):
            file.write(json.dumps({"step": step, "gap": 0.5}) + "\n")
    steps = [line["step"] for line in last_lines(path)]
    assert steps[:2] == [19_999, 19_998]
    assert 1000 < len(steps) < 10_000
    path.write_text('{"step": 1}\nnonsense\n[1]\n{"step": 3}\n{"st')
    assert [line["step"] for line in last_lines(path)] == [3, 1]
    assert list(last_lines(tmp_path / "nowhere")) == []


def test_a_folder_has_its_runs_and_the_planned_ones_of_its_sweeps(tmp_path: Path) -> None:
    out = tmp_path / "g"  # sweeps are also found below the folder
    for jobs in (MDP[:2], MDP[2:], MDP[:2]):  # grids of one name do not replace each other
        Grid("mine", tuple(jobs)).remember(out)
    assert len(list((out / "sweeps").iterdir())) == 2
    with RunFolder(MDP[1].spec(), out) as folder:
        folder.finish({"final_gap": 0.125, "seconds": 1.0})
    with RunFolder(SEA[0].spec(), out):
        pass
    states = states_of(watched_folder(tmp_path))
    assert [(state.measure, state.seed, state.state) for state in states] == [
        *(("gap", seed, "finished" if seed == 1 else "waiting") for seed in range(4)),
        ("score", 0, "waiting"),
    ]
    assert states[0].run == str(MDP[0].folder(Path("g")))
    assert states[0].command == MDP[0].command(out)
    [below] = states_of(watched_folder(folder.path.parent))
    assert (below.run, below.state) == ("seed_1", "finished")
    [itself] = states_of(watched_folder(folder.path))
    assert (itself.run, itself.score) == (".", 0.125)
    with pytest.raises(UserError, match="there is no folder"):
        watched_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"suite": "a b"}'])
def test_damage_is_a_failure_of_one_line(tmp_path: Path, damage: str) -> None:
    with RunFolder(SEA[0].spec(), tmp_path) as folder:
        pass
    (folder.path / "DONE").write_text(damage)
    state = state_of(SEA[0], tmp_path)
    assert (state.state, state.score) == ("failed", None)
    assert "DONE" in (state.error or "")
    (folder.path / "DONE").unlink()
    (folder.path / "FAILED").write_text(damage)
    assert "FAILED cannot be read" in (state_of(SEA[0], tmp_path).error or "")
    (folder.path / "spec.json").write_text(damage)
    [state] = states_of(watched_folder(tmp_path))
    assert state.state == "failed"
    assert "spec.json is damaged" in (state.error or "")
    assert f"remove {folder.path} " not in (state.error or "")
    assert "\n" not in (state.error or "")


def write_mdp(path: Path, scale: float = 1.0) -> None:
    rewards = np.linspace(0, scale, 2 * 3 * 2).reshape(2, 3, 2)
    np.savez(path, transitions=np.full((2, 3, 2, 3), 1 / 3), rewards=rewards)


@pytest.mark.parametrize("content", ['{"name": "mi', "[]", '{"groups": [{}]}', '{"groups": 3}'])
def test_a_grid_is_remembered(content: str, tmp_path: Path) -> None:
    jobs = jobs_of(solve_table(), train_table(eval_episodes=3))
    Grid("mine", tuple(jobs)).remember(tmp_path)
    assert list(remembered(tmp_path)) == [
        (job.spec(), job.label, job.words(), job.eval_episodes) for job in jobs
    ]
    [path] = (tmp_path / "sweeps").iterdir()
    for damaged in (path.read_text().replace('"seeds": [0', '"seeds": [7'), content):
        path.write_text(damaged)
        with pytest.raises(UserError, match=r"mine-\w+.json is damaged .* remove it"):
            list(remembered(tmp_path))


def test_a_plan_does_not_depend_on_the_folder_or_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, runs = tmp_path / "here", tmp_path / "there", tmp_path / "runs"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    write_mdp(here / "mine.npz")
    table = solve_table(3, env="file", settings={"path": "mine.npz", "rank": 2})
    jobs = jobs_of(table)
    Grid("mine", tuple(jobs)).remember(runs)
    specs = [job.spec() for job in jobs]
    write_mdp(here / "mine.npz", scale=0.5)
    assert [planned.spec for planned in remembered(runs)] == specs
    monkeypatch.chdir(there)
    with RunFolder(specs[0], runs) as run:
        run.metrics.touch()
        run.finish({"average_regret": 0.1, "optimal_value": 1.0, "final_gap": 0.1, "seconds": 1.0})
    states = states_of(watched_folder(runs))
    assert [state.state for state in states] == ["finished", "waiting"]
    assert str(here / "mine.npz") in shlex.split(states[1].command or "")
    [gap] = missing_runs(load_scores(runs).runs).itertuples()
    assert (gap.seeds, gap.commands) == ((1,), (states[1].command,))


def test_a_full_disk_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(grid, "write_atomically", full)
    with pytest.raises(UserError, match=r"No space left on device.*free some disk space"):
        Grid("g", tuple(jobs_of(solve_table()))).remember(tmp_path)


def test_the_table_has_run_state_and_score() -> None:
    state = RunState("solve/a/b/seed_0", "a", "b", 0, steps=10)
    states = [
        replace(state, state="finished", score=0.123456),
        replace(state, run="solve/a/b/seed_1", state="running", step=3, latest=0.5),
        replace(state, run="solve/a/b/seed_2", state="failed", error="no luck", log="x/log.txt"),
    ]
    head, first, second, *_, error, counts = table_of(states).splitlines()
    assert head.split() == ["run", "state", "score"]
    assert first.split() == ["solve/a/b/seed_0", "finished", "0.12346"]
    assert second.split() == ["solve/a/b/seed_1", "running", "30%", "-"]
    assert error == "solve/a/b/seed_2: no luck (log: x/log.txt)"
    assert counts == "3 runs: 1 finished, 1 running, 1 failed"
    assert counted([]) == "0 runs"
    mixed = [states[0], replace(states[1], measure="gap")]
    assert table_of(mixed).splitlines()[0].endswith("gap or score")
