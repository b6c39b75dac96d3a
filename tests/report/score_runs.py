"""Made-up runs of deep agents, written with the package's own writers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from contrastive_ucb.core.events import Event, JsonlListener
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.stats.published import atari100k


def write_deep_run(
    root: Path,
    agent: str,
    task: str,
    seed: int,
    *,
    score: float = 1.0,
    finished: bool = True,
    config: dict[str, Any] | None = None,
    returns: Sequence[tuple[int, float]] = ((7, 0.5), (15, 1.0), (33, 2.0)),
    episodes: int = 100,
    **summary: Any,
) -> Path:
    """A run with an evaluation of `score`; its episodes ended at the steps of `returns`."""
    spec = RunSpec("train", agent, task, seed, {"env": task, "steps": 100_000, **(config or {})})
    with RunFolder(spec, root) as run:
        listener = JsonlListener(run.metrics)
        for step, value in returns:
            bonus = {"bonus/mean": 10 / step} if agent == "spr-ucb" else {}
            listener.on_event(Event(step, {"charts/episodic_return": value, **bonus}))
        listener.close()
        if finished:
            evaluation = {"mean": score, "episodes": episodes}
            run.finish({"steps": 40, "evaluation": evaluation, "seconds": 1.0, **summary})
        return run.path


def raw_score(game: str, normalised: float) -> float:
    """The raw score that has this human-normalised one."""
    table = atari100k()
    at = table.games.index(game)
    return float(table.random[at] + normalised * (table.human[at] - table.random[at]))


def write_atari(
    root: Path, agents: dict[str, float], games: Iterable[str], seeds: int = 3, **more: Any
) -> None:
    """Runs whose human-normalised score is that of the agent, plus a tenth of the seed."""
    for agent, level in agents.items():
        for game in games:
            for seed in range(seeds):
                score = raw_score(game, level + seed / 10)
                write_deep_run(root, agent, game, seed, score=score, **more)
