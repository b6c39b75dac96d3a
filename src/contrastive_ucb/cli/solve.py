"""`cucb solve ENV`: run an algorithm on an MDP or a game."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro

from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS, game_preset, preset
from contrastive_ucb.cli.options import Json, emit, parse, say, text_of
from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.tabular import kind_of
from contrastive_ucb.runs.problem import ADDED, DEFAULTS, GAMES, Problem

Pairs = Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")]
HORIZON = "H, the steps per episode."
ACTIONS = "Actions of the row player, by default also of the column player."
COLUMNS = "Actions of the column player."
LOCK_ACTIONS = "A; one of them is right."

# name: description and options
ENVIRONMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "lowrank": (
        "A random low-rank MDP: phi and psi are Dirichlet(.3).",
        {
            "n_states": "S.",
            "n_actions": "A.",
            "horizon": HORIZON,
            "true_rank": "d of the MDP; by default --rank, or 3.",
            "reward_kind": "sparse: a few rewards at the last step; linear: in the features.",
        },
    ),
    "lock": (
        "Combination lock: one wrong action loses the episode; small rewards are misleading.",
        {
            "horizon": "H, the digits of the combination.",
            "n_actions": LOCK_ACTIONS,
            "n_dead": "Observations of the dead state; with 20 of them the bonus is needed.",
        },
    ),
    "deepsea": (
        "DeepSea: a reward after N steps to the right, each of which has a small cost.",
        {"size": "N: rows, columns and steps."},
    ),
    "riverswim": (
        "RiverSwim: swim against the current to the better bank.",
        {"n_states": "Positions in the river.", "horizon": HORIZON},
    ),
    "lowrank-game": (
        "A random low-rank zero-sum game: phi and psi are Dirichlet(.3), rewards U[-1,1].",
        {
            "n_states": "S.",
            "n_actions": ACTIONS,
            "n_column_actions": COLUMNS,
            "horizon": HORIZON,
            "true_rank": "d of the game; by default --rank, or 3.",
        },
    ),
    "lock-game": (
        "Lock game of an intruder and a guard: only the right joint action leads on.",
        {
            "horizon": "H, the number of doors.",
            "n_actions": ACTIONS,
            "n_column_actions": COLUMNS,
            "n_dead": "Observations of the dead state.",
        },
    ),
    "continuous": (
        "A low-rank MDP on [0, 1] with neural features; values by quadrature.",
        {
            "n_actions": "A.",
            "horizon": HORIZON,
            "amplitude": "a in 1 + a cos(2 pi j s'), at most 1, below sqrt(d) - 1.",
            "true_rank": "d of the MDP; by default --rank, or 4.",
            "nodes": "Quadrature nodes of values and model errors; at least 4 d.",
        },
    ),
    "rich-lock": (
        "The lock in rotated noise with neural features; it ends when it is solved.",
        {"horizon": "H, the digits of the combination.", "n_actions": LOCK_ACTIONS},
    ),
    "rich-lock-game": (
        "The lock game in rotated noise with neural features; it ends when it is solved.",
        {"horizon": "H, the number of doors.", "n_actions": ACTIONS, "n_column_actions": COLUMNS},
    ),
    "gym": (
        "A Gymnasium environment with Box observations and discrete actions; neural features.",
        {
            "id": "Its Gymnasium id.",
            "horizon": "H, at most its time limit; rewards after the end are 0.",
            "reward_low": "Smallest reward, at most 0; the agent observes it as 0.",
            "reward_high": "Largest reward, at least 0; the agent observes it as 1.",
            "solved_return": "Stop when 5 evaluations in a row, 20 episodes each, all return this.",
            "env_kwargs": "Arguments of the environment, as size=5 kind=small.",
        },
    ),
    "file": (
        "Your own .npz: transitions (H,S,A,S) and rewards (H,S,A); in a game (H,S,A,B...).",
        {"path": "Path of the file; write it with numpy.savez."},
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
    """The first seed of runs and environments; with gym it seeds the agent and every episode."""
    seeds: int = 1
    """Number of seeds, starting at --seed; the results equal those of separate runs."""
    env_seed: int | None = None
    """Seed of the environment; by default the seed of the run. Not with gym."""
    out: Path = Path("runs")
    """Folder of the runs. Repeating a command resumes unfinished runs."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help(), end="")
        return
    problem, options = parse_command(arguments)

    from contrastive_ucb.runs.loop import overall, solve

    summary = overall(
        solve(
            problem,
            range(options.seed, options.seed + options.seeds),
            options.out,
            checkpoint_seconds=options.checkpoint_seconds,
            say=say,
        )
    )
    emit(summary, options.json, text_of(summary))


def parse_command(arguments: Sequence[str]) -> tuple[Problem, Run]:
    """The problem that the arguments describe, and the options of the run."""
    name, *rest = arguments
    if name not in ENVIRONMENTS:
        raise ValueError(f"no environment is called {name!r}; {hint(name, ENVIRONMENTS)}")
    # The algorithm and the kind of environment determine the settings and their defaults.
    words = [word for option in rest for word in option.split("=", 1)]
    given = dict(pairwise(words))  # before all options are parsed
    is_game = name in GAMES or ("--path" in given and kind_of(given["--path"]) == "game")
    algo = given.get("--algo", "contrastive-ulcb" if is_game else "contrastive-ucb")
    config = game_preset(algo) if is_game else preset(algo)
    about, meanings = ENVIRONMENTS[name]
    fields = []
    for key, meaning in meanings.items():
        default = DEFAULTS[name][key]
        kind: Any = ADDED.get(key, int | None) if default is None else type(default)
        if key == "env_kwargs":
            kind, default = Pairs, ()
        fields.append((key, Annotated[kind, tyro.conf.arg(help=meaning)], default))
    env: Any = make_dataclass("Env", fields, frozen=True, namespace={"__doc__": about})
    command: Any = make_dataclass(
        "Solve",
        [("env", env), ("run", Run), ("agent", type(config))],
        frozen=True,
        namespace={"__doc__": f"{about} Regret or duality gap are exact if it is finite."},
    )
    parsed = parse(command, rest, f"cucb solve {name}", command(env(), Run(algo=algo), config))
    options: Run = parsed.run
    settings = asdict(parsed.env) | asdict(parsed.agent)
    if pairs := settings.pop("env_kwargs", ()):
        settings["env_kwargs"] = read_pairs(pairs)
    return Problem(name, options.algo, settings, options.rounds, options.env_seed), options


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words as a dictionary; a value is JSON, or else text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UserError(f"--env-kwargs {pair} has no value; write KEY=VALUE, such as size=5")
        try:
            values[key] = json.loads(text)
        except json.JSONDecodeError:
            values[key] = text
    return values


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
