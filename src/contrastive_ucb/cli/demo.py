"""`cucb demo`: Contrastive UCB and its peers in a few minutes, ending with a page of figures."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from contrastive_ucb.cli.options import emit, parse
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError

if TYPE_CHECKING:
    from contrastive_ucb.runs.problem import Problem
    from contrastive_ucb.runs.spec import RunSpec
    from contrastive_ucb.runs.training import Training

FIRST_UPDATE = 100  # steps in DeepSea before an agent learns


@dataclass(frozen=True)
class Demo:
    """Low-rank MDPs and games, and a lock, a vault and DeepSea, which need the bonus."""

    seed: int = 0
    """The first seed."""
    seeds: int = 5
    """The number of seeds, except for DeepSea."""
    rounds: int = 2000
    """Rounds on the low-rank MDP."""
    lock_rounds: int = 800
    """Rounds on the lock."""
    game_rounds: int = 1000
    """Rounds on the low-rank game."""
    lock_game_rounds: int = 1500
    """Rounds on the vault, the lock for two players."""
    sea_steps: int = 2000
    """Steps of the deep agents in DeepSea, 8 per episode."""
    sea_seeds: int = 2
    """The number of seeds in DeepSea."""
    out: Path = Path("runs")
    """The folder for run folders and the page."""
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
    from contrastive_ucb.report.demo import write_demo_page
    from contrastive_ucb.runs.loop import overall, solve

    seeds = range(options.seed, options.seed + options.seeds)
    results, commands = [], []
    problems, trainings = problems_of(options), trainings_of(options)
    total = len(problems) + len(trainings)
    write_plan(options)
    for at, problem in enumerate(problems, 1):
        print(f"[{at}/{total}] {problem.algo} on {problem.env}", file=sys.stderr)
        results.append(_without_runs(overall(solve(problem, seeds, options.out))))
        commands.append(solve_command(problem, options))
    for at, seeds_of_agent in enumerate(trainings, len(problems) + 1):
        first = seeds_of_agent[0]
        print(f"[{at}/{total}] {first.algo} on {first.env}", file=sys.stderr)
        results.append(_without_runs(_train(seeds_of_agent, options.out)))
        commands.append(train_command(seeds_of_agent))
    # The page shows the runs of this command only, whatever else is in the folder.
    folders = {spec.folder(options.out).parent for spec in specs_of(options)}
    target = options.out / "demo" / "index.html"
    page = write_demo_page(options.out, target, commands, folders)
    summary = {"page": str(page.resolve()), "results": results}
    emit(summary, options.json, f"\nThe page with the figures: {page.resolve()}")


def problems_of(options: Demo) -> list[Problem]:
    """The finite problems of the demo: first the MDPs, then the games."""
    from contrastive_ucb.runs.problem import Problem

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


def trainings_of(options: Demo) -> list[list[Training]]:
    """The training runs of the demo in DeepSea: the seeds of each agent."""
    from contrastive_ucb.report.demo import SEA
    from contrastive_ucb.runs.training import Training

    agents: dict[str, dict[str, Any]] = {"spr-ucb": {"bonus.preset": "algorithm-1"}, "spr": {}}
    seeds = range(options.seed, options.seed + options.sea_seeds)
    return [
        [Training(SEA, algo, settings, options.sea_steps, seed, suite="demo") for seed in seeds]
        for algo, settings in agents.items()
    ]


def specs_of(options: Demo) -> Iterator[RunSpec]:
    """All runs of the demo."""
    for problem in problems_of(options):
        for seed in range(options.seed, options.seed + options.seeds):
            yield problem.spec(seed)
    for trainings in trainings_of(options):
        yield from (training.spec() for training in trainings)


def write_plan(options: Demo) -> None:
    """List all runs of the demo in its folder, with the command that completes them."""
    from contrastive_ucb.core.files import write_atomically

    groups: dict[str, dict[str, Any]] = {}
    words = command_of(replace(options, seed=0, seeds=1, sea_seeds=1), with_out=False)
    for spec in specs_of(options):
        fresh: dict[str, Any] = {"label": spec.agent, "spec": spec.to_json(), "seeds": []}
        fresh |= {"eval_episodes": None, "words": words}
        group = groups.setdefault(spec.identity(), fresh)
        group["seeds"].append(spec.seed)
    command = shlex.join(command_of(options))
    content = json.dumps({"name": "demo", "command": command, "groups": list(groups.values())})
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    path = options.out / "sweeps" / f"demo-{digest}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content + "\n")
    except OSError as error:
        raise UserError(
            f"cannot write to {options.out} ({error.strerror}); pass --out FOLDER with a folder"
            " that can be written to"
        ) from error


def command_of(options: Demo, with_out: bool = True) -> list[str]:
    """The command line with these options; default values are left out."""
    words = ["cucb", "demo"]
    for option in fields(Demo):
        value = getattr(options, option.name)
        if value != option.default and option.name not in ("out", "json"):
            words += [f"--{option.name.replace('_', '-')}", str(value)]
    return [*words, "--out", str(options.out)] if with_out else words


def _train(trainings: list[Training], out: Path) -> dict[str, Any]:
    """Train the seeds of one agent; returns the means of their summaries."""
    from contrastive_ucb.core.runtime import threads
    from contrastive_ucb.runs.loop import overall, train

    with threads(1):
        summaries = [train(training, out) for training in trainings]
    score = fmean(summary["evaluation"]["mean"] for summary in summaries)
    return overall([s | {"evaluation": None} for s in summaries]) | {"evaluation": {"mean": score}}


def _without_runs(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "runs"}


def solve_command(problem: Problem, options: Demo) -> str:
    """The same runs as a command of `cucb solve`."""
    settings = {**problem.env_settings, **problem.agent_settings}
    settings["reward-kind"] = settings.pop("reward", None)
    if isinstance(counts := settings.get("n_actions"), list):  # one count per player
        rows, columns = counts
        settings |= {"n_actions": rows, "n_column_actions": columns if columns != rows else None}
    words = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in settings.items()
        if value is not None
    ]
    run = f"--rounds {problem.rounds} --seed {options.seed} --seeds {options.seeds}"
    return f"cucb solve {problem.env} --algo {problem.algo} {' '.join(words)} {run}"


def train_command(trainings: list[Training]) -> str:
    """The same runs as a command of `cucb train`."""
    first = trainings[0]
    settings = [f"{key}={value}" for key, value in first.settings.items()]
    words = ["cucb", "train", first.env, "--algo", first.algo]
    words += ["--set", *settings] if settings else []
    run = f"--steps {first.steps} --seed {first.seed} --seeds {len(trainings)}"
    return f"{' '.join(words)} {run}"
