"""Small made-up run folders, written with the package's own writers."""

from pathlib import Path
from typing import Any

from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.training.events import Event, JsonlListener

STEPS = (1, 2, 4, 8, 16, 32, 64)


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
    spec = RunSpec(suite, agent, task, seed, {"rounds": 64})
    with RunFolder(spec, root) as run:
        listener = JsonlListener(run.metrics)
        for step in steps:
            values = {"gap": level / step, "average_regret": level / step**0.5}
            if step != 2:  # not every round has a model error
                values["zeta"] = level / step
            listener.on_event(Event(step, values))
        listener.close()
        if finished:
            run.finish(
                {
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
            )
        return run.path


def write_demo(root: Path) -> None:
    for at, agent in enumerate(("uniform", "contrastive-ucb", "no-bonus")):
        for seed in range(3):
            write_run(root, agent, "lowrank", seed, level=1.0 + at + seed / 10)
            opened = 20 + seed if agent == "contrastive-ucb" else None
            write_run(root, agent, "lock", seed, level=1.0 + at / 10, solved_at=opened)
