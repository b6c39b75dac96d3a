"""`cucb solve ENV`: an algorithm on a finite MDP, one seed or several at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from contrastive_ucb.agents.config import AgentConfig
from contrastive_ucb.agents.peers import PRESETS, preset
from contrastive_ucb.checks import check_size
from contrastive_ucb.commands.options import emit, parse

E = TypeVar("E")


@dataclass(frozen=True)
class LowRank:
    """A random low-rank MDP: phi and psi are Dirichlet(.3)."""

    n_states: int = 10
    """S."""
    n_actions: int = 3
    """A."""
    horizon: int = 4
    """H, the steps of an episode."""
    true_rank: int | None = None
    """d of the MDP; by default --rank, or 3. Give both to choose the model's rank wrong."""
    reward_kind: Literal["sparse", "linear"] = "sparse"
    """A few rewards at the last step, or rewards linear in the features."""


@dataclass(frozen=True)
class Lock:
    """A combination lock: one wrong action and the episode is lost; small rewards lead astray."""

    horizon: int = 6
    """H, the digits of the combination."""
    n_actions: int = 10
    """A; one of them is right."""
    n_dead: int = 1
    """Observations that the dead state is spread over; with 20 the bonus is needed."""


@dataclass(frozen=True)
class DeepSea:
    """DeepSea: a treasure behind N steps to the right, each of which costs a little."""

    size: int = 10
    """N: rows, columns and steps."""


@dataclass(frozen=True)
class RiverSwim:
    """RiverSwim: swimming against the current to the better bank."""

    n_states: int = 6
    """Positions in the river."""
    horizon: int = 20
    """H, the steps of an episode."""


@dataclass(frozen=True)
class File:
    """Your own MDP: an .npz with transitions (H,S,A,S), rewards (H,S,A) and perhaps initial (S)."""

    path: Path | None = None
    """Where the file is; numpy.savez(path, transitions=P, rewards=r) writes one."""


ENVIRONMENTS: dict[str, type] = {
    "lowrank": LowRank,
    "lock": Lock,
    "deepsea": DeepSea,
    "riverswim": RiverSwim,
    "file": File,
}


@dataclass(frozen=True)
class Run:
    """What to run, for how long, and where to."""

    algo: str = "contrastive-ucb"
    """contrastive-ucb, rep-ucb, lsvi-ucb, ucbvi, no-bonus, epsilon-greedy or uniform."""
    rounds: int = 1000
    """Rounds K; each costs H trajectories."""
    seed: int = 0
    """The first seed, of the run and of the MDP."""
    seeds: int = 1
    """How many seeds, from --seed on; they are played at once and equal separate runs."""
    env_seed: int | None = None
    """One MDP for all seeds; by default each seed has its own."""
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
    """Run an algorithm on a finite MDP; regret, model error and optimism are accounted exactly."""

    env: E
    run: Run
    agent: AgentConfig


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
    kind = ENVIRONMENTS[name]
    default = Solve(kind(), Run(algo=_algo(rest)), preset(_algo(rest)))
    command = parse(Solve[kind], rest, f"cucb solve {name}", default)  # type: ignore[valid-type]
    _solve(name, command)


def _solve(name: str, command: Solve[Any]) -> None:
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
    summaries = solve(
        problem,
        seeds,
        options.out,
        checkpoint_seconds=options.checkpoint_seconds,
        say=lambda line: print(line, file=sys.stderr),
    )
    summary = overall(summaries)
    emit(summary, options.json, _text(summary))


def _env_settings(command: Solve[Any]) -> dict[str, Any]:
    """The environment's own arguments; --rank speaks for the model, and here for the MDP too."""
    settings = asdict(command.env)
    if isinstance(command.env, LowRank):
        ranks = (settings.pop("true_rank"), command.agent.rank, 3)
        settings["rank"] = next(rank for rank in ranks if rank is not None)
        settings["reward"] = settings.pop("reward_kind")
    if isinstance(command.env, File):
        if command.env.path is None:
            raise ValueError("which file? pass --path my.npz")
        settings = {"path": str(command.env.path), "rank": command.agent.rank}
    return settings


def _algo(arguments: Sequence[str]) -> str:
    """--algo decides the defaults of the other options, so it is read first; the last one wins."""
    algo = "contrastive-ucb"
    for at, word in enumerate(arguments):
        if word == "--algo" and at + 1 < len(arguments):
            algo = arguments[at + 1]
        if word.startswith("--algo="):
            algo = word.removeprefix("--algo=")
    return algo


def _text(summary: dict[str, Any]) -> str:
    """The summary for people, a line a figure."""
    count = len(summary.get("runs", [summary]))
    lines = [f"{summary['algo']} on {summary['env']}, {count} seed{'s' * (count > 1)}"]
    for name, value in summary.items():
        if name in ("algo", "env", "runs", "seeds", "seed"):
            continue
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        lines.append(f"  {name.replace('_', ' '):30} {shown if value is not None else 'never'}")
    return "\n".join(lines)


def _help() -> str:
    lines = [f"  {name:10} {kind.__doc__}" for name, kind in ENVIRONMENTS.items()]
    return (
        "usage: cucb solve ENV [options]\n\nRun an algorithm on a finite MDP and account for it"
        " exactly.\n\nenvironments:\n" + "\n".join(lines) + "\n\nalgorithms (--algo): "
        f"{', '.join(PRESETS)}\n\n`cucb solve ENV --help` lists the options, for example\n"
        "  cucb solve lock --n-dead 20 --n-actions 5 --negatives exact --rounds 800 --seeds 10\n"
    )
