"""`cucb solve ENV`: an algorithm on an MDP or a game, for one seed or several."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS, game_preset, preset
from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.commands.solve_envs import ENVIRONMENTS, File
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.experiments.environments import family_of

E = TypeVar("E")


@dataclass(frozen=True)
class Run:
    """What to run, for how long, and where to."""

    algo: str = "contrastive-ucb"
    """contrastive-ucb or a peer, in games contrastive-ulcb or a peer; cucb solve --help has all."""
    rounds: int = 1000
    """Rounds K; each costs H trajectories, with networks H times --trajectories."""
    seed: int = 0
    """The first seed, of the run and of the environment."""
    seeds: int = 1
    """How many seeds, from --seed on; they equal separate runs. Networks learn them one by one."""
    env_seed: int | None = None
    """One environment for all seeds; by default each seed has its own."""
    out: Path = Path("runs")
    """Where run folders go. Repeating a command resumes it, or shows what is finished."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""

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
    """Run an algorithm on an MDP; if it is finite, regret, model error and optimism are exact."""

    env: E
    run: Run
    agent: AgentConfig


@dataclass(frozen=True)
class SolveGame(Generic[E]):
    """Run an algorithm on a zero-sum game; if it is finite, duality gap and bounds are exact."""

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
        close = get_close_matches(name, ENVIRONMENTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(ENVIRONMENTS)}"
        raise ValueError(f"no environment is called {name!r}; {hint}")
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
    from contrastive_ucb.experiments.solve import Problem, overall, solve  # imports torch

    options = command.run
    problem = Problem(
        env=name,
        env_settings=_env_settings(command),
        algo=options.algo,
        agent_settings=asdict(command.agent),
        rounds=options.rounds,
        env_seed=options.env_seed,
    )
    seeds = range(options.seed, options.seed + options.seeds)
    with warnings.catch_warnings():
        warnings.showwarning = _say_once()
        summaries = solve(
            problem,
            seeds,
            options.out,
            checkpoint_seconds=options.checkpoint_seconds,
            say=lambda line: print(line, file=sys.stderr),
        )
    summary = overall(summaries)
    emit(summary, options.json, _text(summary))


def _say_once() -> Callable[..., None]:
    """Shows a warning as one line, without a place in the code, and once for all seeds."""
    said: set[str] = set()

    def show(message: Warning | str, *where: object, **written: object) -> None:
        line = f"cucb: {' '.join(str(message).split())}"
        if line not in said:
            print(line, file=sys.stderr)
        said.add(line)

    return show


def _env_settings(command: Solve[Any] | SolveGame[Any]) -> dict[str, Any]:
    """The environment's own arguments; --rank speaks for the model, and here for the truth too."""
    settings = asdict(command.env)
    if "true_rank" in settings:
        default = getattr(command.env, "default_rank", 3)
        ranks = (settings.pop("true_rank"), command.agent.rank, default)
        settings["rank"] = next(rank for rank in ranks if rank is not None)
    if "reward_kind" in settings:
        settings["reward"] = settings.pop("reward_kind")
    if "n_column_actions" in settings:
        rows, columns = settings["n_actions"], settings.pop("n_column_actions")
        settings["n_actions"] = [rows, rows if columns is None else columns]
    if "id" in settings:
        settings["env_id"] = settings.pop("id")
    if isinstance(command.env, File):
        settings = {"path": str(command.env.path), "rank": command.agent.rank}
    return settings


def _is_game(name: str, arguments: Sequence[str]) -> bool:
    """Games have settings of their own, so this is known before the options are read."""
    if name == "file":
        path = _given("--path", arguments)
        if path is None and not {"-h", "--help"} & set(arguments):
            raise ValueError("which file? pass --path my.npz")
        return path is not None and family_of(name, {"path": path}) == "game"
    return family_of(name, {}) == "game"


def _given(option: str, arguments: Sequence[str]) -> str | None:
    """An option that decides about the others is read before them; the last one wins."""
    found = None
    for at, word in enumerate(arguments):
        if word == option and at + 1 < len(arguments):
            found = arguments[at + 1]
        if word.startswith(f"{option}="):
            found = word.removeprefix(f"{option}=")
    return found


def _text(summary: dict[str, Any]) -> str:
    """The summary for people, a line a figure."""
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
        "usage: cucb solve ENV [options]\n\nRun an algorithm on an MDP or zero-sum game and"
        " account for it,\nexactly where it is finite.\n\nenvironments:\n"
        + "\n".join(lines)
        + "\n\nalgorithms (--algo)"
        f"\n  on MDPs   {', '.join(PRESETS)}\n  on games  {', '.join(GAME_PRESETS)}\n\n"
        "`cucb solve ENV --help` lists the options, for example\n"
        "  cucb solve lock --n-dead 20 --n-actions 5 --negatives exact --rounds 800 --seeds 10\n"
        "  cucb solve lowrank-game --n-states 6 --n-actions 3 --rank 3 --horizon 3 --seeds 4\n"
    )
