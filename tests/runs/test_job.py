"""A job is a run as data: it travels as JSON, and equals the command that it names."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from runs.sweep_runs import jobs_of, results_of, solve_table, train_table

from contrastive_ucb.cli import main
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import loop, session
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.training import Training
from contrastive_ucb.runs.worker import run_job

GAME = {
    "env": "lowrank-game",
    "algo": "tight-cce",
    "settings": {"n_states": 4, "n_actions": 2, "n_column_actions": 3, "rank": 2, "horizon": 2},
}
TABLES: dict[str, dict[str, Any]] = {
    "mdp": solve_table(4, 1, env_seed=3, resources={"cpus": 0.5, "gpus": 2}),
    "game": solve_table(4, 1, **GAME),
    "wrong rank": solve_table(4, 1, settings={"n_states": 5, "true_rank": 2, "rank": 3}),
    "all defaults": solve_table(2, 1, env="riverswim", settings={}),
    "deep": train_table(21, seeds=[2], eval_episodes=3),
}
TABLES["deep"]["settings"] |= {"noisy": 0, "epsilon": [1, 0.1], "double": False, "support": [-1, 2]}


@pytest.mark.parametrize("name", TABLES)
def test_a_job_and_its_command_are_one_run(name: str, tmp_path: Path) -> None:
    [job] = jobs_of(TABLES[name])
    ours, theirs = tmp_path / "job", tmp_path / "command"
    summary = run_job(job, ours)
    assert Path(summary["run_dir"]) == job.folder(ours)
    assert main(shlex.split(job.command(theirs))[1:]) == 0
    assert results_of(ours) == results_of(theirs)


def test_a_run_of_a_command_is_finished_for_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_of(TABLES["mdp"], TABLES["deep"])
    first = [run_job(job, tmp_path) for job in jobs]
    monkeypatch.setattr(session, "Session", None)  # nothing may be played
    monkeypatch.setattr(Training, "trainer", None)
    assert [run_job(job, tmp_path) for job in jobs] == first


@pytest.mark.parametrize("name", TABLES)
def test_a_job_travels_as_json(name: str) -> None:
    [job] = jobs_of(TABLES[name])
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again == job
    assert again.spec() == job.spec()
    assert again.kind == TABLES[name]["kind"]


def test_what_is_no_job_is_an_error_of_one_line() -> None:
    [job] = jobs_of(TABLES["deep"])
    right = job.to_json()
    for wrong in ([], {}, {**right, "kind": "walk"}, {**right, "task": {}}):
        with pytest.raises(UserError, match="this is not a job"):
            Job.from_json(wrong)
    with pytest.raises(UserError, match="did you mean 'Pong'"):
        Job.from_json({**right, "task": {"env": "Pnog"}})


def test_checkpoints_are_as_frequent_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def note(*_: object, **options: Any) -> list[dict[str, Any]]:
        asked.append(options.get("checkpoint_seconds"))
        return [{}]

    monkeypatch.setattr(loop, "solve", note)
    monkeypatch.setattr(loop, "train", note)
    for job in jobs_of(TABLES["mdp"], TABLES["deep"]):
        run_job(job, tmp_path)
        run_job(job, tmp_path, checkpoint_seconds=7.0)
    assert asked == [None, 7.0] * 2
