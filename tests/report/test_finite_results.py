"""The experiments behind the README and the demo are commands that `cucb` understands."""

import runpy
from pathlib import Path

import pytest

from contrastive_ucb.commands import solve
from contrastive_ucb.commands.demo import Demo, problems_of, solve_command
from contrastive_ucb.runs.problem import Problem, make_env

ROOT = Path(__file__).parents[2]
EXPERIMENTS = runpy.run_path(str(ROOT / "benchmarks" / "finite_results.py"))["EXPERIMENTS"]
GAMES = EXPERIMENTS["games"]


@pytest.fixture
def understood(monkeypatch):
    """Read a command as `cucb` does, and say what it would run."""
    read = []
    monkeypatch.setattr(solve, "_solve", lambda name, command: read.append((name, command)))

    def understand(text):
        *before, what, env = text.split()[: 3 if text.startswith("cucb") else 2]
        assert before in ([], ["cucb"])
        assert what == "solve"
        solve.run([env, *text.split()[len(before) + 2 :]])
        return read[-1]

    return understand


@pytest.mark.parametrize("folder", EXPERIMENTS)
def test_every_experiment_is_understood(understood, folder):
    for name, text in EXPERIMENTS[folder].items():
        env, command = understood(text)
        assert name.startswith(env)
        assert command.run.algo in name or "--algo" not in text
        assert command.run.seeds == 10


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


def test_the_demos_commands_are_the_demos_runs(understood):
    options = Demo(seed=4, seeds=2, game_rounds=30)
    problems = problems_of(options)
    assert [p.env for p in problems[-8:]] == ["lowrank-game"] * 5 + ["lock-game"] * 3
    for problem in problems:
        text = solve_command(problem, options)
        env, command = understood(text)
        assert (env, command.run.algo) == (problem.env, problem.algo)
        assert (command.run.seed, command.run.seeds) == (4, 2)
        assert command.run.rounds == problem.rounds
        shown = solve._env_settings(command)
        assert {**shown, **problem.env_settings} == shown
        same = (make_env(env, settings, 0) for settings in (shown, problem.env_settings))
        assert len({one.rewards.shape for one in same}) == 1  # also where defaults fill in
    assert "--n-actions 3" in text
    assert "--n-column-actions" not in text


def test_different_numbers_of_actions_are_both_shown(understood):
    text = solve_command(Problem("lock-game", {"n_actions": [3, 4]}, "uniform", {}, 5), Demo())
    assert "--n-actions 3 --n-column-actions 4" in text
    assert solve._env_settings(understood(text)[1])["n_actions"] == [3, 4]
