"""The experiments behind the README and the demo are commands that `cucb` understands."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from contrastive_ucb.cli import solve
from contrastive_ucb.cli.demo import Demo, problems_of, solve_command
from contrastive_ucb.runs.problem import Problem, make_env

ROOT = Path(__file__).parents[2]
EXPERIMENTS = runpy.run_path(str(ROOT / "benchmarks" / "finite_results.py"))["EXPERIMENTS"]
GAMES = EXPERIMENTS["games"]


def understand(text):
    """Read a command as `cucb` does: the problem and the options of the run."""
    return solve.parse_command(text.removeprefix("cucb ").removeprefix("solve ").split())


@pytest.mark.parametrize("folder", EXPERIMENTS)
def test_every_experiment_is_understood(folder):
    for name, text in EXPERIMENTS[folder].items():
        problem, options = understand(text)
        assert name.startswith(problem.env)
        assert problem.algo in name or "--algo" not in text
        assert options.seeds == 10


def test_every_long_run_of_a_game_has_its_beginning():
    random = {name for name in GAMES if name.startswith("lowrank-game")}
    short = {name for name in random if name.endswith("-500")}
    assert random - short == {name.removesuffix("-500") for name in short}
    assert len(short) == 14  # two sizes, six algorithms and one with exact negatives
    for name in short:
        beginning, whole = GAMES[name], GAMES[name.removesuffix("-500")]
        assert beginning == whole.replace("--rounds 5000", "--rounds 500")


def test_the_committed_results_are_those_of_the_script():
    for folder, names in EXPERIMENTS.items():
        kept = {path.stem for path in (ROOT / "results" / folder).glob("*.json")}
        assert kept <= {*names, "bench-theory", "bench-games"}


def test_the_demos_commands_are_the_demos_runs():
    demo = Demo(seed=4, seeds=2, game_rounds=30)
    problems = problems_of(demo)
    assert [p.env for p in problems[-8:]] == ["lowrank-game"] * 5 + ["lock-game"] * 3
    for problem in problems:
        text = solve_command(problem, demo)
        shown, options = understand(text)
        assert (options.seed, options.seeds) == (4, 2)
        assert (shown.env, shown.algo, shown.rounds) == (problem.env, problem.algo, problem.rounds)
        envs = [make_env(one.env, one.env_settings, 4) for one in (shown, problem)]
        np.testing.assert_array_equal(envs[0].rewards, envs[1].rewards)
    assert "--n-actions 3" in text
    assert "--n-column-actions" not in text


def test_different_numbers_of_actions_are_both_shown():
    text = solve_command(Problem("lock-game", {"n_actions": [3, 4]}, "uniform", {}, 5), Demo())
    assert "--n-actions 3 --n-column-actions 4" in text
    assert understand(text)[0].env_settings["n_actions"] == [3, 4]
