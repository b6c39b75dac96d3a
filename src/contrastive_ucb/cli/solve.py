"""`cucb solve ENV`: run an algorithm on an MDP or a game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS, game_preset, preset
from contrastive_ucb.cli.options import Json, check_counts, check_seconds, emit, parse, say
from contrastive_ucb.core.checks import hint
from contrastive_ucb.runs.problem import Problem, family_of, problem_of

Option = tuple[Any, Any, str]  # type, default, help
HORIZON: Option = (int, 4, "H, the steps per episode.")
ACTIONS: Option = (int, 3, "Actions of the row player, by default also of the column player.")
COLUMNS: Option = (int | None, None, "Actions of the column player.")
DEAD = "Observations of the dead state"

# name: description and options
ENVIRONMENTS: dict[str, tuple[str, dict[str, Option]]] = {
    "lowrank": (
        "A random low-rank MDP: phi and psi are Dirichlet(.3).",
        {
            "n_states": (int, 10, "S."),
            "n_actions": (int, 3, "A."),
            "horizon": HORIZON,
            "true_rank": (int | None, None, "d of the MDP; by default --rank, or 3."),
            "reward_kind": (
                Literal["sparse", "linear"],
                "sparse",
                "A few rewards at the last step, or rewards linear in the features.",
            ),
        },
    ),
    "lock": (
        "Combination lock: one wrong action loses the episode; small rewards are misleading.",
        {
            "horizon": (int, 6, "H, the digits of the combination."),
            "n_actions": (int, 10, "A; one of them is right."),
            "n_dead": (int, 1, f"{DEAD}; with 20 of them the bonus is needed."),
        },
    ),
    "deepsea": (
        "DeepSea: a reward after N steps to the right, each of which has a small cost.",
        {"size": (int, 10, "N: rows, columns and steps.")},
    ),
    "riverswim": (
        "RiverSwim: swim against the current to the better bank.",
        {"n_states": (int, 6, "Positions in the river."), "horizon": (int, 20, HORIZON[2])},
    ),
    "lowrank-game": (
        "A random low-rank zero-sum game: phi and psi are Dirichlet(.3), rewards U[-1,1].",
        {
            "n_states": (int, 6, "S."),
            "n_actions": ACTIONS,
            "n_column_actions": COLUMNS,
            "horizon": (int, 3, HORIZON[2]),
            "true_rank": (int | None, None, "d of the game; by default --rank, or 3."),
        },
    ),
    "lock-game": (
        "Lock game of an intruder and a guard: only the right joint action leads on.",
        {
            "horizon": (int, 5, "H, the number of doors."),
            "n_actions": ACTIONS,
            "n_column_actions": COLUMNS,
            "n_dead": (int, 10, f"{DEAD}."),
        },
    ),
    "continuous": (
        "A low-rank MDP on [0, 1] with neural features; values by quadrature.",
        {
            "n_actions": (int, 3, "A."),
            "horizon": HORIZON,
            "amplitude": (float, 0.5, "a in 1 + a cos(2 pi j s'), at most 1, below sqrt(d) - 1."),
            "true_rank": (int | None, None, "d of the MDP; by default --rank, or 4."),
            "nodes": (int, 1024, "Quadrature nodes of values and model errors; at least 4 d."),
        },
    ),
    "rich-lock": (
        "The lock in rotated noise with neural features; it ends when it is solved.",
        {
            "horizon": (int, 6, "H, the digits of the combination."),
            "n_actions": (int, 10, "A; one of them is right."),
        },
    ),
    "rich-lock-game": (
        "The lock game in rotated noise with neural features; it ends when it is solved.",
        {
            "horizon": (int, 4, "H, the number of doors."),
            "n_actions": ACTIONS,
            "n_column_actions": COLUMNS,
        },
    ),
    "gym": (
        "A Gymnasium environment with Box observations and discrete actions; neural features.",
        {
            "id": (str, "CartPole-v1", "Its Gymnasium id."),
            "horizon": (int, 50, "H, at most its time limit; rewards after the end are 0."),
            "reward_low": (float, 0.0, "Smallest reward, at most 0; the agent observes it as 0."),
            "reward_high": (float, 1.0, "Largest reward, at least 0; the agent observes it as 1."),
        },
    ),
    "file": (
        "Your own .npz: transitions (H,S,A,S) and rewards (H,S,A); in a game (H,S,A,B...).",
        {"path": (Path | None, None, "Path of the file; write it with numpy.savez.")},
    ),
}


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
    json: Json = False

    def __post_init__(self) -> None:
        check_counts(self, "rounds", "seeds")
        check_counts(self, "seed", "env_seed", least=0)
        check_seconds(self.checkpoint_seconds)


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help(), end="")
        return
    problem, options = parse_command(arguments)

    from contrastive_ucb.runs.loop import overall, solve

    summaries = solve(
        problem,
        range(options.seed, options.seed + options.seeds),
        options.out,
        checkpoint_seconds=options.checkpoint_seconds,
        say=say,
    )
    summary = overall(summaries)
    emit(summary, options.json, _text(summary))


def parse_command(arguments: Sequence[str]) -> tuple[Problem, Run]:
    """The problem that the arguments describe, and the options of the run."""
    name, *rest = arguments
    if name.startswith("-"):
        raise ValueError(f"name an environment before {name}: {', '.join(ENVIRONMENTS)}")
    if name not in ENVIRONMENTS:
        raise ValueError(f"no environment is called {name!r}; {hint(name, ENVIRONMENTS)}")
    path = _given("--path", rest)
    if name == "file" and path is None and not {"-h", "--help"} & set(rest):
        raise ValueError("env 'file' needs a file; pass --path my.npz")
    # The algorithm and the kind of environment determine the settings and their defaults.
    is_game = (name != "file" or path is not None) and family_of(name, {"path": path}) == "game"
    algo = _given("--algo", rest) or ("contrastive-ulcb" if is_game else "contrastive-ucb")
    config = game_preset(algo) if is_game else preset(algo)
    about, env_options = ENVIRONMENTS[name]
    fields = [
        (key, Annotated[kind, tyro.conf.arg(help=text)], default)
        for key, (kind, default, text) in env_options.items()
    ]
    env: Any = make_dataclass("Env", fields, frozen=True, namespace={"__doc__": about})
    command: Any = make_dataclass(
        "Solve",
        [("env", env), ("run", Run), ("agent", type(config))],
        frozen=True,
        namespace={"__doc__": f"{about} Regret or duality gap are exact if it is finite."},
    )
    parsed = parse(command, rest, f"cucb solve {name}", command(env(), Run(algo=algo), config))
    settings = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in asdict(parsed.env).items()
        if value != env_options[key][1]
    }
    settings |= {key: value for key, value in asdict(parsed.agent).items() if value is not None}
    options: Run = parsed.run
    problem = problem_of(name, options.algo, settings, options.rounds, options.env_seed)
    return problem, options


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
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        lines.append(f"  {name.replace('_', ' '):30} {text if value is not None else 'never'}")
    return "\n".join(lines)


def _help() -> str:
    lines = [f"  {name:14} {about}" for name, (about, _) in ENVIRONMENTS.items()]
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
