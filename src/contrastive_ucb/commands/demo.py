"""`cucb demo`: Contrastive UCB next to its peers, in a few minutes, ending with a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.core.checks import check_size

if TYPE_CHECKING:
    from contrastive_ucb.experiments.problem import Problem
    from contrastive_ucb.experiments.training import Training

FIRST_UPDATE = 100  # steps in the deep sea before an agent learns: fewer would show nothing


@dataclass(frozen=True)
class Demo:
    """Low-rank MDPs and games, and a lock, a vault and a deep sea that need the bonus."""

    seed: int = 0
    """The first seed."""
    seeds: int = 5
    """How many seeds, but for the deep sea."""
    rounds: int = 2000
    """Rounds on the low-rank MDP."""
    lock_rounds: int = 800
    """Rounds on the lock."""
    game_rounds: int = 1000
    """Rounds on the low-rank game."""
    lock_game_rounds: int = 1500
    """Rounds on the vault, the lock for two players."""
    sea_steps: int = 2000
    """Steps of the deep agents in the deep sea, 8 a dive."""
    sea_seeds: int = 2
    """How many seeds in the deep sea."""
    out: Path = Path("runs")
    """Where run folders and the page go."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        counts = ("rounds", "lock_rounds", "game_rounds", "lock_game_rounds", "seeds", "sea_seeds")
        for name in counts:
            check_size(name, getattr(self, name))
        check_size("seed", self.seed, least=0)
        check_size("sea_steps", self.sea_steps, least=FIRST_UPDATE)


def run(arguments: Sequence[str]) -> None:
    options = parse(Demo, arguments, "cucb demo", Demo())
    from contrastive_ucb.experiments.solve import overall, solve
    from contrastive_ucb.report.demo_page import write_demo_page

    seeds = range(options.seed, options.seed + options.seeds)
    results, commands = [], []
    problems, dives = problems_of(options), dives_of(options)
    total = len(problems) + len(dives)
    for at, problem in enumerate(problems, 1):
        print(f"[{at}/{total}] {problem.algo} on {problem.env}", file=sys.stderr)
        results.append(_without_runs(overall(solve(problem, seeds, options.out))))
        commands.append(_command(problem, options))
    for at, trainings in enumerate(dives, len(problems) + 1):
        print(f"[{at}/{total}] {trainings[0].algo} on {trainings[0].env}", file=sys.stderr)
        results.append(_without_runs(_dive(trainings, options.out)))
        commands.append(_train_command(trainings))
    # The page shows the runs of this command only, whatever else is in the folder.
    folders = {p.spec(options.seed).folder(options.out).parent for p in problems}
    folders |= {trainings[0].spec().folder(options.out).parent for trainings in dives}
    page = write_demo_page(options.out, options.out / "demo" / "index.html", commands, folders)
    summary = {"page": str(page.resolve()), "results": results}
    emit(summary, options.json, f"\nThe page with the figures: {page.resolve()}")


def problems_of(options: Demo) -> list[Problem]:
    """What the demo runs: first the MDPs, then the games."""
    from contrastive_ucb.experiments.problem import Problem

    lowrank = {"n_states": 10, "n_actions": 3, "rank": 3, "horizon": 4, "reward": "sparse"}
    lock = {"n_dead": 20, "n_actions": 5, "horizon": 6}
    small = [
        Problem("lowrank", lowrank, algo, {}, options.rounds, suite="demo")
        for algo in ("contrastive-ucb", "rep-ucb", "lsvi-ucb", "ucbvi", "no-bonus", "uniform")
    ]
    locks = [
        Problem("lock", lock, algo, {"negatives": "exact"}, options.lock_rounds, suite="demo")
        for algo in ("contrastive-ucb", "no-bonus", "epsilon-greedy", "uniform")
    ]
    game = {"n_states": 6, "n_actions": [3, 3], "rank": 3, "horizon": 3}
    vault = {"horizon": 5, "n_actions": [3, 3], "n_dead": 10}
    games = [
        Problem("lowrank-game", game, algo, {}, options.game_rounds, suite="demo")
        for algo in ("contrastive-ulcb", "omni-vi", "midpoint-nash", "no-bonus", "uniform")
    ]
    vaults = [
        Problem("lock-game", vault, algo, {}, options.lock_game_rounds, suite="demo")
        for algo in ("contrastive-ulcb", "no-bonus", "uniform")
    ]
    return small + locks + games + vaults


def dives_of(options: Demo) -> list[list[Training]]:
    """What the demo trains in the deep sea: the seeds of each agent."""
    from contrastive_ucb.experiments.training import Training
    from contrastive_ucb.report.sea_page import SEA

    agents: dict[str, dict[str, Any]] = {"spr-ucb": {"bonus.preset": "algorithm-1"}, "spr": {}}
    seeds = range(options.seed, options.seed + options.sea_seeds)
    return [
        [Training(SEA, algo, settings, options.sea_steps, seed, suite="demo") for seed in seeds]
        for algo, settings in agents.items()
    ]


def _dive(trainings: list[Training], out: Path) -> dict[str, Any]:
    """Train the seeds of one agent; what all their summaries say together."""
    from contrastive_ucb.core.runtime import threads
    from contrastive_ucb.experiments.solve import overall
    from contrastive_ucb.experiments.train import train

    with threads(1):
        done = [train(training, out) for training in trainings]
    score = fmean(summary["evaluation"]["mean"] for summary in done)
    return overall([one | {"evaluation": None} for one in done]) | {"evaluation": {"mean": score}}


def _without_runs(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "runs"}


def _command(problem: Problem, options: Demo) -> str:
    """The same run as a command of its own."""
    settings = {**problem.env_settings, **problem.agent_settings}
    settings["reward-kind"] = settings.pop("reward", None)
    if isinstance(counts := settings.get("n_actions"), list):  # one count a player
        rows, columns = counts
        settings |= {"n_actions": rows, "n_column_actions": columns if columns != rows else None}
    words = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in settings.items()
        if value is not None
    ]
    run = f"--rounds {problem.rounds} --seed {options.seed} --seeds {options.seeds}"
    return f"cucb solve {problem.env} --algo {problem.algo} {' '.join(words)} {run}"


def _train_command(trainings: list[Training]) -> str:
    """The seeds of one agent in the deep sea as a command of its own."""
    first = trainings[0]
    settings = [f"{key}={value}" for key, value in first.settings.items()]
    words = ["cucb", "train", first.env, "--algo", first.algo]
    words += ["--set", *settings] if settings else []
    run = f"--steps {first.steps} --seed {first.seed} --seeds {len(trainings)}"
    return f"{' '.join(words)} {run}"
