"""Small made-up run folders, written with the package's own writers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core.events import Event, JsonlListener
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.store import RunFolder

STEPS = (1, 2, 4, 8, 16, 32, 64)
SEA_STEPS = tuple(step for step in range(1, 401) if step % 8 == 0 or step % 100 == 0)
GAME = {"name": "lowrank-game", "n_states": 4, "n_actions": [3, 2], "rank": 2, "horizon": 2}


def write_run(
    root: Path,
    agent: str,
    task: str,
    seed: int,
    *,
    level: float = 1.0,
    finished: bool = True,
    suite: str = "demo",
    steps: tuple[int, ...] = STEPS,
    **summary: Any,
) -> Path:
    """A run whose average regret is level / sqrt(k) and whose zeta is level / k."""

    def measured(step: int) -> dict[str, float]:
        values = {"gap": level / step, "average_regret": level / step**0.5}
        return values if step == 2 else {**values, "zeta": level / step}  # not all rounds have it

    whole = {
        "rounds": 64,
        "trajectories": 256,
        "optimal_value": 2.0,
        "final_gap": level / 64,
        "average_regret": level / 8,
        "zeta": level / 64,
        "strictly_optimistic_fraction": 0.5,
        "seconds": 2.0,
        **summary,
    }
    spec = RunSpec(suite, agent, task, seed, {"rounds": 64})
    return _write(spec, root, steps, measured, whole if finished else None)


def write_game_run(
    root: Path,
    agent: str,
    task: str,
    seed: int,
    *,
    level: float = 1.0,
    finished: bool = True,
    policies: bool = True,
    env: dict[str, Any] = GAME,
    **summary: Any,
) -> Path:
    """A run with the gap level / k, three times that as its certificate, and a checkpoint."""

    def measured(step: int) -> dict[str, float]:
        gap = level / step
        return {"gap": gap, "average_gap": level / step**0.5, "certificate": 3 * gap}

    whole = {
        "rounds": 64,
        "trajectories": 128,
        "final_gap": level / 64,
        "average_gap": level / 8,
        "exploitability": level / 32,
        "certificate": 3 * level / 64,
        "bracket_fraction": 0.75,
        "seconds": 2.0,
        **summary,
    }
    spec = RunSpec("demo", agent, task, seed, {"env": env, "env_seed": None, "rounds": 64})
    path = _write(spec, root, STEPS, measured, whole if finished else None)
    if policies:
        rows, columns = env["n_actions"]
        shape = (1, env["horizon"], env["n_states"])
        best = {
            "row": np.full((*shape, rows), 1 / rows),
            "column": np.full((*shape, columns), 1 / columns),
        }
        save_checkpoint(path / "checkpoints", 64, {"session": {"agent": {"best": best}}})
    return path


def write_sea_run(
    root: Path,
    agent: str,
    seed: int,
    *,
    first: int | None = None,
    finished: bool = True,
    steps: tuple[int, ...] = SEA_STEPS,
    config: dict[str, Any] | None = None,
    **summary: Any,
) -> Path:
    """50 dives of 8 steps, with the treasure from dive `first` on; the bonus is 10 / step."""

    def measured(step: int) -> dict[str, float]:
        values: dict[str, float] = {}
        if step % 8 == 0:
            found = first is not None and step // 8 >= first
            values |= {"charts/episodic_return": 1.0 if found else 0.005}
        if step % 100 == 0 and agent == "spr-ucb":
            values |= {"bonus/mean": 10 / step}
        return values

    whole = {
        "steps": 400,
        "episodes": 50,
        "evaluation": {"mean": 0.005 if first is None else 1.0, "median": 0.5, "episodes": 20},
        "seconds": 2.0,
        "solved_at": None if first is None else first + first // 9,
        **summary,
    }
    spec = RunSpec("demo", agent, "DeepSea-8", seed, config or {"steps": 400})
    return _write(spec, root, steps, measured, whole if finished else None)


def write_demo(root: Path) -> None:
    for at, agent in enumerate(("uniform", "contrastive-ucb", "no-bonus")):
        for seed in range(3):
            write_run(root, agent, "lowrank", seed, level=1.0 + at + seed / 10)
            opened = 20 + seed if agent == "contrastive-ucb" else None
            write_run(root, agent, "lock", seed, level=1.0 + at / 10, solved_at=opened)
    for at, agent in enumerate(("uniform", "contrastive-ulcb")):
        bonus = {} if agent == "contrastive-ulcb" else {"certificate": 0.0}
        for seed in range(2):
            write_game_run(root, agent, "lowrank-game", seed, level=1.0 + at + seed / 10, **bonus)
            solved = 30 + seed if agent == "contrastive-ulcb" else None
            write_game_run(root, agent, "lock-game", seed, solved_at=solved, **bonus)
    for agent, first in (("spr", None), ("spr-ucb", 18)):
        for seed in range(2):
            write_sea_run(root, agent, seed, first=first and first + seed)


def _write(
    spec: RunSpec,
    root: Path,
    steps: tuple[int, ...],
    measured: Callable[[int], dict[str, float]],
    summary: dict[str, Any] | None,
) -> Path:
    with RunFolder(spec, root) as run:
        listener = JsonlListener(run.metrics)
        for step in steps:
            listener.on_event(Event(step, measured(step)))
        listener.close()
        if summary is not None:
            run.finish(summary)
        return run.path
