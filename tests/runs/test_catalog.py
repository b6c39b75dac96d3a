"""The named experiments are those whose results the repository keeps."""

import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.bonus import BONUS_NAMES
from contrastive_ucb.cli import solve as command
from contrastive_ucb.cli import train as train_command
from contrastive_ucb.cli.options import parse
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import experiment, experiments
from contrastive_ucb.runs.training import Training

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def identities(name: str) -> set[tuple[str, int]]:
    specs = [job.spec() for job in experiment(name).jobs]
    return {(spec.identity(), spec.seed) for spec in specs}


def of_solve(words: list[str]) -> set[tuple[str, int]]:
    """The runs of `cucb solve` with these words."""
    problem, options = command.parse_command(words)
    first, count = options.seed, options.seeds
    return {(problem.spec(seed).identity(), seed) for seed in range(first, first + count)}


@pytest.mark.parametrize(("name", "folder"), [("theory", "mdp"), ("games", "games")])
def test_finite_experiments_are_those_of_the_results(name: str, folder: str) -> None:
    kept = runpy.run_path(str(BENCHMARKS / "finite_results.py"))["EXPERIMENTS"][folder]
    commands = [line.split()[1:] for line in kept.values() if line.startswith("solve")]
    assert identities(name) == set().union(*map(of_solve, commands))


def of_train(lines: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """The runs of `cucb train` with these words, each for so many seeds."""
    found: set[tuple[str, int]] = set()
    for line, n_seeds in lines:
        spec = parse(train_command.Train, line.split()[1:], "").training().spec()
        found |= {(spec.identity(), seed) for seed in range(n_seeds)}
    return found


def kept(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a script of results runs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return runpy.run_path(str(BENCHMARKS / f"{name}_results.py"))


@pytest.mark.parametrize(("name", "group"), [("deepsea", "SEAS"), ("minatar", "MINATAR")])
def test_deep_experiments_are_those_of_the_results(
    name: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert identities(name) == of_train(kept("deep", monkeypatch)[group].values())


def test_the_comparison_has_all_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = kept("deep", monkeypatch)
    shared = [groups["MINATAR"][f"minatar-{game.lower()}-{agent}"][0]
              for game in groups["GAMES"] for agent in ("spr", "paper")]  # fmt: skip
    wanted = of_train(groups["COMPARISON"].values()) | of_train((line, 3) for line in shared)
    assert identities("comparison") == wanted
    compared = {job.task.algo for job in experiment("comparison").jobs}
    assert compared == ALGORITHMS.keys() - {"ppo"}


def test_the_minigrid_experiment_has_every_bonus(monkeypatch: pytest.MonkeyPatch) -> None:
    name_of = kept("minigrid", monkeypatch)["name_of"]
    jobs, tasks = experiment("minigrid").jobs, [job.task for job in experiment("minigrid").jobs]
    assert {task.algo for task in tasks} == {"ppo"}
    for env in {task.env for task in tasks if task.steps < 500_000}:
        bonuses = {task.bonus.split()[0] for task in tasks if task.env == env}
        assert bonuses == {"none", *BONUS_NAMES}
    names = [name_of(job) for job in jobs]
    assert set(Counter(names).values()) == {5}  # seeds
    assert len(set(names)) == len({job.spec().identity() for job in jobs})


def test_the_explorer_experiment_compares_bonuses_on_both_suites() -> None:
    jobs = experiment("explorer").jobs
    tasks = [job.task for job in jobs if isinstance(job.task, Training)]
    seas = {size: Counter(x.bonus for x in tasks if x.env == f"DeepSea-{size}")
            for size in (10, 20, 30, 50)}  # fmt: skip
    seeds = {10: 10, 20: 10, 30: 10, 50: 3}
    assert seas == {size: Counter({"explorer": n, "algorithm-1": n}) for size, n in seeds.items()}
    games = [x for x in tasks if x.env.startswith("MinAtar/")]
    assert len({x.env for x in games}) == 5
    assert {x.settings["updates_per_step"] for x in games} == {0.25}
    for name in ("contrastive", "rnd"):
        explorers = [
            x for x in games if x.bonus.split()[:2] == ["explorer", f"intrinsic.bonus={name}"]
        ]
        assert len(explorers) == 50
    assert len({(job.spec().identity(), job.spec().seed) for job in jobs}) == len(jobs)


def test_neural_experiments_are_among_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = kept("neural", monkeypatch)["EXPERIMENTS"].values()
    commands = [line.split()[1:] for line in lines if line.startswith("solve")]
    assert identities("neural") <= set().union(*map(of_solve, commands))


def test_the_papers_grid() -> None:
    grid = experiment("atari26")
    assert len(grid.jobs) == 26 * 10 * 10
    agents = {"spr-ucb", "spr", "curl", "drq", "drq-eps", "der", "otr", "simple"}
    assert {job.task.algo for job in grid.jobs} == agents
    assert {job.eval_episodes for job in grid.jobs} == {100}
    assert {job.task.steps for job in grid.jobs if isinstance(job.task, Training)} == {100_000}
    assert len({job.task.env for job in grid.jobs}) == 26
    ours = {job.label: job.task for job in grid.jobs if job.task.algo == "spr-ucb"}
    bonuses = {label: task.bonus for label, task in ours.items() if isinstance(task, Training)}
    assert bonuses == {"SPR-UCB (paper)": "paper", "SPR-UCB (reference)": "reference"}
    assert {job.label for job in grid.jobs if job.task.algo == "spr"} == {
        "spr",
        "SPR (released code)",
    }


def test_each_experiment_is_explained_and_unknown_ones_get_a_suggestion() -> None:
    assert all(len(about) < 90 for about in experiments().values())
    with pytest.raises(UserError, match="no experiment is called 'theroy'; did you mean 'theory'"):
        experiment("theroy")


def test_listing_needs_neither_torch_nor_environments() -> None:
    code = (
        "import sys; from contrastive_ucb.cli import main\n"
        "code = main(['sweep', 'atari26', '--dry-run'])\n"
        "slow = {'torch', 'cv2', 'scipy', 'matplotlib', 'tensorboard'} & {*sys.modules}\n"
        "print(code, sorted(slow))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *_, counts, last = done.stdout.splitlines()
    assert last == "0 []", done.stderr
    assert counts.startswith("2600 runs")
