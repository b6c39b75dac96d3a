"""`cucb solve ENV`: run an algorithm on an MDP or a game."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS, game_preset, preset
from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.commands.solve_envs import ENVIRONMENTS
from contrastive_ucb.core.checks import check_size, hint
from contrastive_ucb.runs.problem import Problem, family_of, problem_of

E = TypeVar("E")


@dataclass(frozen=True)
class Run:
    """Algorithm, length, seeds and output folder."""

    algo: str = "contrastive-ucb"
    """contrastive-ucb or a peer, in games contrastive-ulcb or a peer; see cucb solve --help."""
    rounds: int = 1000
    """Rounds K; each costs H trajectories, with networks H times --trajectories."""
    seed: int = 0
    """The first seed of runs and environments."""
    seeds: int = 1
    """Number of seeds, starting at --seed; the results equal those of separate runs."""
    env_seed: int | None = None
    """Seed of the environment; by default the seed of the run."""
    out: Path = Path("runs")
    """Folder of the runs. Repeating a command resumes unfinished runs."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""
    json: bool = False
    """Print the summary as one JSON object on stdout and everything else on stderr."""

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("seeds", 1), ("seed", 0)):
            check_size(name, getattr(self, name), least)
        if self.env_seed is not None:
            check_size("env_seed", self.env_seed, least=0)
        if not self.checkpoint_seconds >= 0:
            raise ValueError(
                f"checkpoint_seconds must be at least 0, got {self.checkpoint_seconds}"
            )


@dataclass(frozen=True)
class Solve(Generic[E]):
    """Run an algorithm on an MDP. In a finite MDP regret, model error and optimism are exact."""

    env: E
    run: Run
    agent: AgentConfig


@dataclass(frozen=True)
class SolveGame(Generic[E]):
    """Run an algorithm on a zero-sum game. In a finite game duality gap and bounds are exact."""

    env: E
    run: Run
    agent: GameConfig


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0].startswith("-"):
        if not arguments or arguments[0] in ("-h", "--help"):
            print(_help(), end="")
            return
        raise ValueError(f"name an environment before {arguments[0]}: {', '.join(ENVIRONMENTS)}")
    name, *rest = arguments
    if name not in ENVIRONMENTS:
        raise ValueError(f"no environment is called {name!r}; {hint(name, ENVIRONMENTS)}")
    kind: Any = ENVIRONMENTS[name]
    prog = f"cucb solve {name}"
    if _is_game(name, rest):
        algo = _given("--algo", rest) or "contrastive-ulcb"
        for_game = SolveGame(kind(), Run(algo=algo), game_preset(algo))
        _solve(name, parse(SolveGame[kind], rest, prog, for_game))
    else:
        algo = _given("--algo", rest) or "contrastive-ucb"
        for_mdp = Solve(kind(), Run(algo=algo), preset(algo))
        _solve(name, parse(Solve[kind], rest, prog, for_mdp))


def _solve(name: str, command: Solve[Any] | SolveGame[Any]) -> None:
    from contrastive_ucb.runs.loop import overall, solve

    options = command.run
    problem = problem_of_command(name, command)
    seeds = range(options.seed, options.seed + options.seeds)
    summaries = solve(
        problem,
        seeds,
        options.out,
        checkpoint_seconds=options.checkpoint_seconds,
        say=lambda line: print(line, file=sys.stderr),
    )
    summary = overall(summaries)
    emit(summary, options.json, _text(summary))


def problem_of_command(name: str, command: Solve[Any] | SolveGame[Any]) -> Problem:
    """The problem that the parsed options describe."""
    default: Any = type(command.env)()
    env = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in asdict(command.env).items()
        if value != getattr(default, key)
    }
    agent = {key: value for key, value in asdict(command.agent).items() if value is not None}
    options = command.run
    return problem_of(name, options.algo, env | agent, options.rounds, options.env_seed)


def _is_game(name: str, arguments: Sequence[str]) -> bool:
    """Whether it is a game, which has other settings; known before the options are parsed."""
    if name == "file":
        path = _given("--path", arguments)
        if path is None and not {"-h", "--help"} & set(arguments):
            raise ValueError("env 'file' needs a file; pass --path my.npz")
        return path is not None and family_of(name, {"path": path}) == "game"
    return family_of(name, {}) == "game"


def _given(option: str, arguments: Sequence[str]) -> str | None:
    """The value of an option before all options are parsed; the last one counts."""
    value = None
    for at, word in enumerate(arguments):
        if word == option and at + 1 < len(arguments):
            value = arguments[at + 1]
        if word.startswith(f"{option}="):
            value = word.removeprefix(f"{option}=")
    return value


def _text(summary: dict[str, Any]) -> str:
    """The summary as text, one line per entry."""
    count = len(summary.get("runs", [summary]))
    lines = [f"{summary['algo']} on {summary['env']}, {count} seed{'s' * (count > 1)}"]
    for name, value in summary.items():
        if name in ("algo", "env", "runs", "seeds", "seed"):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} {count:,}" for key, count in value.items() if count)
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        lines.append(f"  {name.replace('_', ' '):30} {shown if value is not None else 'never'}")
    return "\n".join(lines)


def _help() -> str:
    lines = [f"  {name:14} {kind.__doc__}" for name, kind in ENVIRONMENTS.items()]
    return (
        "usage: cucb solve ENV [options]\n\nRun an algorithm on an MDP or zero-sum game and measure"
        " regret or duality gap,\nexactly if the environment is finite.\n\nenvironments:\n"
        + "\n".join(lines)
        + "\n\nalgorithms (--algo)"
        f"\n  on MDPs   {', '.join(PRESETS)}\n  on games  {', '.join(GAME_PRESETS)}\n\n"
        "`cucb solve ENV --help` lists the options, for example\n"
        "  cucb solve lock --n-dead 20 --n-actions 5 --negatives exact --rounds 800 --seeds 10\n"
        "  cucb solve lowrank-game --n-states 6 --n-actions 3 --rank 3 --horizon 3 --seeds 4\n"
    )
