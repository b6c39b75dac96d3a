"""`cucb demo`: Contrastive UCB next to its peers, in a few minutes, ending with a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contrastive_ucb.checks import check_size
from contrastive_ucb.commands.options import emit, parse

if TYPE_CHECKING:
    from contrastive_ucb.experiments.solve import Problem


@dataclass(frozen=True)
class Demo:
    """Low-rank MDPs and games, and a lock and a vault that need the bonus."""

    seed: int = 0
    """The first seed."""
    seeds: int = 5
    """How many seeds."""
    rounds: int = 2000
    """Rounds on the low-rank MDP."""
    lock_rounds: int = 800
    """Rounds on the lock."""
    game_rounds: int = 1000
    """Rounds on the low-rank game."""
    lock_game_rounds: int = 1500
    """Rounds on the vault, the lock for two players."""
    out: Path = Path("runs")
    """Where run folders and the page go."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        for name in ("rounds", "lock_rounds", "game_rounds", "lock_game_rounds", "seeds"):
            check_size(name, getattr(self, name))
        check_size("seed", self.seed, least=0)


def run(arguments: Sequence[str]) -> None:
    options = parse(Demo, arguments, "cucb demo", Demo())
    from contrastive_ucb.experiments.solve import overall, solve
    from contrastive_ucb.report.demo_page import write_demo_page

    seeds = range(options.seed, options.seed + options.seeds)
    results, commands = [], []
    problems = problems_of(options)
    for at, problem in enumerate(problems, 1):
        print(f"[{at}/{len(problems)}] {problem.algo} on {problem.env}", file=sys.stderr)
        summary = overall(solve(problem, seeds, options.out))
        results.append({name: value for name, value in summary.items() if name != "runs"})
        commands.append(_command(problem, options))
    # The page shows the runs of this command only, whatever else is in the folder.
    folders = {p.spec(options.seed).folder(options.out).parent for p in problems}
    page = write_demo_page(options.out, options.out / "demo" / "index.html", commands, folders)
    summary = {"page": str(page.resolve()), "results": results}
    emit(summary, options.json, f"\nThe page with the figures: {page.resolve()}")


def problems_of(options: Demo) -> list[Problem]:
    """What the demo runs: first the MDPs, then the games."""
    from contrastive_ucb.experiments.solve import Problem

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
