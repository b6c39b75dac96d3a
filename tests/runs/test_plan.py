"""The stored plans of sweeps."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from runs.sweep_runs import jobs_of, solve_table, train_table

from contrastive_ucb.cli.sweep import find_grid
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.scores import load_scores, missing_runs
from contrastive_ucb.runs import grid as plan
from contrastive_ucb.runs.grid import Grid, remembered
from contrastive_ucb.runs.status import states_of, watched_folder
from contrastive_ucb.runs.store import RunFolder


def write_mdp(path: Path, scale: float = 1.0) -> None:
    rewards = np.linspace(0, scale, 2 * 3 * 2).reshape(2, 3, 2)
    np.savez(path, transitions=np.full((2, 3, 2, 3), 1 / 3), rewards=rewards)


def file_grid() -> Grid:
    settings = {"path": "mine.npz", "rank": 2}
    return Grid("mine", tuple(jobs_of(solve_table(3, env="file", settings=settings))))


def test_a_grid_is_remembered(tmp_path: Path) -> None:
    jobs = jobs_of(solve_table(), train_table(eval_episodes=3))
    Grid("mine", tuple(jobs)).remember(tmp_path)
    assert list(remembered(tmp_path)) == [
        (job.spec(), job.label, job.words(), job.eval_episodes) for job in jobs
    ]
    [path] = (tmp_path / "sweeps").iterdir()
    path.write_text('{"name": "mi')
    with pytest.raises(UserError, match=r"mine-\w+.json is damaged .* remove it"):
        list(remembered(tmp_path))


def test_a_file_is_not_needed_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan does not depend on the folder or on the present content of the file."""
    here, there, runs = tmp_path / "here", tmp_path / "there", tmp_path / "runs"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    write_mdp(here / "mine.npz")
    grid = file_grid()
    grid.remember(runs)
    specs = [job.spec() for job in grid.jobs]
    write_mdp(here / "mine.npz", scale=0.5)
    assert [planned.spec for planned in remembered(runs)] == specs
    monkeypatch.chdir(there)
    with RunFolder(specs[0], runs) as run:
        run.metrics.touch()
        run.finish({"average_regret": 0.1, "optimal_value": 1.0, "final_gap": 0.1, "seconds": 1.0})
    states = states_of(watched_folder(runs))
    assert [state.state for state in states] == ["finished", "waiting"]
    path = str(here / "mine.npz")
    assert path in shlex.split(states[1].command or "")
    [gap] = missing_runs(load_scores(runs).runs).itertuples()
    assert gap.seeds == (1,)
    assert gap.commands == (states[1].command,)


@pytest.mark.parametrize("content", ["[]", '{"groups": [{}]}', '{"groups": 3}'])
def test_what_is_no_plan_is_damaged(content: str, tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "a.json").write_text(content)
    with pytest.raises(UserError, match="is damaged"):
        list(remembered(tmp_path))


def test_two_grids_of_one_name_stay_apart(tmp_path: Path) -> None:
    """The second does not replace the first."""
    for rounds in (3, 4, 3):
        Grid("grid", tuple(jobs_of(solve_table(rounds)))).remember(tmp_path)
    assert len(list((tmp_path / "sweeps").iterdir())) == 2
    lengths = [planned.spec.config["rounds"] for planned in remembered(tmp_path)]
    assert sorted(lengths) == [3, 3, 4, 4]
    assert len(missing_runs(load_scores(tmp_path).runs)) == 2


def test_plans_below_a_folder_are_found(tmp_path: Path) -> None:
    """`cucb status runs` shows the planned runs of runs/g too."""
    [first, second] = jobs_of(solve_table())
    Grid("g", (first, second)).remember(tmp_path / "g")
    with RunFolder(first.spec(), tmp_path / "g"):
        pass
    states = states_of(watched_folder(tmp_path))
    assert [state.run for state in states] == [
        str(job.folder(Path("g"))) for job in (first, second)
    ]
    assert states[1].command == second.command(tmp_path / "g")


def test_a_full_disk_has_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plan, "write_atomically", full)
    with pytest.raises(UserError, match=r"No space left on device.*free some disk space"):
        Grid("g", tuple(jobs_of(solve_table()))).remember(tmp_path)
    with pytest.raises(UserError, match="name an existing TOML file"):
        find_grid(str(tmp_path / "nowhere.toml"))
