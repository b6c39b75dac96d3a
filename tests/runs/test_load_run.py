"""Runs of `cucb solve` become agents that play, and that go on as the run itself would."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs.training_runs import same, without_time

import contrastive_ucb as cu
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.loop import solve
from contrastive_ucb.runs.problem import Problem

TABLES: dict[str, Any] = {"n_states": 4, "n_actions": 2, "true_rank": 2, "horizon": 3}
QUICK = {"trajectories": 4, "fit_steps": 5, "batch_size": 16, "n_negatives": 16, "n_draws": 12}
PROBLEMS = {
    "mdp": Problem("lowrank", settings=TABLES, rounds=4),
    "settings": Problem("lock", settings={"horizon": 3, "alpha": 0.7}, rounds=4, env_seed=5),
    "peer": Problem("deepsea", "ucbvi", {"size": 3}, rounds=4),
    "game": Problem(
        "lowrank-game", "contrastive-ulcb", {**TABLES, "n_column_actions": 3}, rounds=4
    ),
    "networks": Problem("rich-lock", settings={"horizon": 3, "n_actions": 2, **QUICK}, rounds=4),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_is_loaded_and_goes_on(name: str, tmp_path: Path) -> None:
    problem = PROBLEMS[name]
    [summary] = solve(problem, [3], tmp_path, progress=False)
    loaded: Any = cu.load(summary["run_dir"])
    mine: Any = problem.agent([3])
    mine.learn(rounds=4, progress=False)
    assert loaded.n_rounds == 4
    assert Problem.of_spec(problem.spec(3)).spec(3) == problem.spec(3)
    for one in (loaded, mine):
        one.learn(rounds=2, progress=False)
    same(mine.session.state_of(0), loaded.session.state_of(0))
    loaded.save(tmp_path / "saved")
    again: Any = cu.load(tmp_path / "saved")
    same(again.session.state_of(0), loaded.session.state_of(0))


def test_checkpoints_of_earlier_versions_are_loaded(tmp_path: Path) -> None:
    """They had the state of the agent and its trackers under "session"."""
    problem = PROBLEMS["mdp"]
    [summary] = solve(problem, [0], tmp_path, progress=False)
    checkpoints = Path(summary["run_dir"], "checkpoints")
    newest = latest_checkpoint(checkpoints)
    assert newest is not None
    own = {"seconds", "metrics"}
    state = load_checkpoint(newest)
    shutil.rmtree(newest)
    session = {name: value for name, value in state.items() if name not in own}
    old = {"session": session, **{name: state[name] for name in own}}
    save_checkpoint(checkpoints, problem.rounds, old)
    loaded: Any = cu.load(summary["run_dir"])
    assert loaded.n_rounds == problem.rounds
    Path(summary["run_dir"], "DONE").unlink()
    [again] = solve(problem, [0], tmp_path, progress=False)
    assert without_time(again) == without_time(summary)


def test_the_only_run_below_a_folder_is_meant(tmp_path: Path) -> None:
    problem = Problem("lowrank", settings=TABLES, rounds=2)
    solve(problem, [0], tmp_path, progress=False)
    assert cu.load(tmp_path).n_rounds == 2  # type: ignore[union-attr]
    solve(problem, [1], tmp_path, progress=False)
    with pytest.raises(UserError, match=r"there are 2 runs in .*; name one of them, such as"):
        cu.load(tmp_path)


def test_what_cannot_be_loaded_says_what_to_do(tmp_path: Path) -> None:
    [summary] = solve(
        Problem("lowrank", settings=TABLES, rounds=2), [0], tmp_path / "a", progress=False
    )
    run_dir = Path(summary["run_dir"])
    with pytest.raises(UserError, match="a checkpoint of a run; name the run folder"):
        cu.load(run_dir / "checkpoints")
    (run_dir / "checkpoints").rename(run_dir / "gone")
    with pytest.raises(UserError, match="has no checkpoint yet; repeat its command"):
        cu.load(run_dir)
    (run_dir / "spec.json").write_text('{"suite": "solve"}')
    (run_dir / "gone").rename(run_dir / "checkpoints")
    with pytest.raises(UserError, match=r"spec\.json is damaged .*; remove it"):
        cu.load(run_dir)


def test_a_run_on_a_file_is_loaded_while_the_file_is_unchanged(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"transitions": rng.dirichlet(np.ones(3), (2, 3, 2)), "rewards": rng.random((2, 3, 2))}
    np.savez(tmp_path / "my.npz", **arrays)
    settings = {"path": str(tmp_path / "my.npz"), "rank": 2}
    [summary] = solve(
        Problem("file", settings=settings, rounds=2), [0], tmp_path / "r", progress=False
    )
    assert cu.load(summary["run_dir"]).n_rounds == 2  # type: ignore[union-attr]
    np.savez(tmp_path / "my.npz", **{**arrays, "rewards": 1 - arrays["rewards"]})
    with pytest.raises(UserError, match=r"my.npz has changed since the run; restore"):
        cu.load(summary["run_dir"])
