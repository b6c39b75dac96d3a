"""The experiments behind the README are commands that `cucb` understands."""

import runpy
from pathlib import Path

import pytest

from contrastive_ucb.commands import solve

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
