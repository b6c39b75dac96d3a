"""Small synthetic run folders, written with the package's own writers."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from contrastive_ucb.core.events import JsonlListener
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.runs.store import RunFolder
from contrastive_ucb.stats.published import atari100k

STEPS = (1, 2, 4, 8, 16, 32, 64)
RETURNS = ((7, 0.5), (15, 1.0), (33, 2.0))


def write_run(
    root: Path,
    agent: str,
    task: str,
    seed: int,
    *,
    level: float = 1.0,
    finished: bool = True,
    suite: str = "solve",
    **summary: Any,
) -> Path:
    """A finite run whose average regret is level / sqrt(k) and whose zeta is level / k."""

    def measured(step: int) -> dict[str, float]:
        values = {"gap": level / step, "average_regret": level / step**0.5}
        return values if step == 2 else {**values, "zeta": level / step}  # not in every round

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
    return write(spec, root, [(k, measured(k)) for k in STEPS], whole if finished else None)


def write_game_run(
    root: Path, agent: str, task: str, seed: int, *, level: float = 1.0, **summary: Any
) -> Path:
    """A run on a game with the gap level / k and three times that as its certificate."""

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
    spec = RunSpec("solve", agent, task, seed, {"rounds": 64})
    return write(spec, root, [(k, measured(k)) for k in STEPS], whole)


def write_deep_run(
    root: Path,
    agent: str,
    task: str,
    seed: int,
    *,
    score: float = 1.0,
    finished: bool = True,
    config: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    returns: Sequence[tuple[int, float]] = RETURNS,
    episodes: int = 100,
    suite: str = "train",
    **summary: Any,
) -> Path:
    """A run with an evaluation of `score`; its episodes ended at the steps of `returns`."""
    own = {"env": task, "steps": 100_000, **(config or {}), **(settings or {})}
    spec = RunSpec(suite, agent, task, seed, own)
    lines = []
    for step, value in returns:
        bonus = {"bonus/mean": 10 / step} if agent == "spr-ucb" else {}
        lines.append((step, {"charts/episodic_return": value, **bonus}))
    evaluation = {"mean": score, "episodes": episodes}
    whole = {"steps": 40, "episodes": len(lines), "evaluation": evaluation, "seconds": 1.0}
    path = write(spec, root, lines, whole | summary if finished else None)
    inputs = {"algo": agent, "env": task, "settings": settings or {}, "length": own["steps"]}
    edit(path / "spec.json", lambda content: content.update(inputs=inputs))
    return path


def raw_score(game: str, normalized: float) -> float:
    """The raw score with this human-normalized score."""
    table = atari100k()
    at = table.games.index(game)
    return float(table.random[at] + normalized * (table.human[at] - table.random[at]))


def write_atari(
    root: Path, agents: dict[str, float], games: Iterable[str], seeds: int = 3, **more: Any
) -> None:
    """Runs whose human-normalized score is that of the agent plus a tenth of the seed."""
    for agent, level in agents.items():
        for game in games:
            for seed in range(seeds):
                score = raw_score(game, level + seed / 10)
                write_deep_run(root, agent, game, seed, score=score, **more)


def write_demo(root: Path) -> None:
    for at, agent in enumerate(("uniform", "contrastive-ucb", "no-bonus")):
        for seed in range(3):
            write_run(root, agent, "lowrank", seed, level=1.0 + at + seed / 10)
            opened = 20 + seed if agent == "contrastive-ucb" else None
            write_run(root, agent, "lock", seed, level=1 + at / 10, solved_at=opened)
    for at, agent in enumerate(("uniform", "contrastive-ulcb")):
        bonus = {} if agent == "contrastive-ulcb" else {"certificate": 0.0}
        for seed in range(2):
            write_game_run(root, agent, "lowrank-game", seed, level=1 + at + seed / 10, **bonus)
            solved = 30 + seed if agent == "contrastive-ulcb" else None
            write_game_run(root, agent, "lock-game", seed, solved_at=solved, **bonus)
    for agent, first in (("spr", None), ("spr-ucb", 18)):
        for seed in range(2):
            returns = [(8 * n, 1.0 if first and n >= first + seed else 0.005) for n in range(1, 51)]
            solved = first and 20 + seed
            own: dict[str, Any] = {"returns": returns, "solved_at": solved}
            write_deep_run(root, agent, "DeepSea-8", seed, config={"steps": 400}, **own)


def write_everything(root: Path) -> None:
    """Runs of every kind: many agents, gaps, long names, single points; and facts."""
    write_atari(root, {"spr": 0.4, "spr-ucb": 0.6}, ["Pong", "Alien", "Kangaroo"])
    write_deep_run(root, "spr", "Pong", 3, finished=False)
    for size, score in ((8, 0.5), (10, 12345.0)):
        for agent in ("spr", "spr-ucb"):
            config = {"steps": 3000, "agent": {"n_step": size}}
            own: dict[str, Any] = {"score": score, "config": config, "returns": [(100, score)]}
            write_deep_run(root, agent, f"DeepSea-{size}", 0, **own)
    long = {"agent": {"bonus": {"schedule": "practical, never rebuilt"}, "n_step": 3}}
    write_deep_run(root, "spr", "DeepSea-8", 0, config=long, returns=[(100, 1.0)])
    agents = ("contrastive-ucb", "no-bonus", "uniform", "rep-ucb", "lsvi-ucb", "ucbvi")
    for at, agent in enumerate(agents):
        for task in ("lowrank", "lock")[: 2 - at // 3]:
            for seed in range(2):
                write_run(root, agent, task, seed, level=1 + at / 10 + seed / 20)
    write_facts(root / "facts.json")


def fact(**changes: Any) -> dict[str, Any]:
    """A fact as `cucb verify` writes it."""
    return {
        "fact": "F1",
        "claim": "the model error zeta_k falls like 1/k, up to logarithms",
        "setting": "10 states, 3 actions, rank 3, horizon 4, 10 seeds, 2,000 rounds",
        "mark": "-1 or steeper, within the interval",
        "value": -1.05,
        "low": -1.125,
        "high": -0.98,
        "unit": "",
        "state": "holds",
        "required": True,
        "seconds": 12.5,
        "paper": "l.317",
        "part": "",
        "note": "",
        "measure": "zeta",
        "group": "facts",
        **changes,
    }


def write_facts(path: Path, **changes: Any) -> None:
    """Four facts, one in each state."""
    facts = [
        fact(),
        fact(fact="F2", state="does not hold", value=1234567.0, low=None, high=None, unit="rounds"),
        fact(fact="F3", state="not run", value=None, low=None, high=None, required=False),
        fact(fact="F4", state="reported", mark="none", required=False, unit="of the bound"),
    ]
    content = {
        "command": "cucb verify --out results/theory",
        "versions": {"contrastive-ucb": "0.1.0", "numpy": "2.4.6"},
        "date": "2026-01-02",
        "facts": facts,
        **changes,
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def write(
    spec: RunSpec,
    root: Path,
    lines: Sequence[tuple[int, dict[str, float]]],
    summary: dict[str, Any] | None,
) -> Path:
    with RunFolder(spec, root) as run:
        listener = JsonlListener(run.metrics)
        for step, values in lines:
            listener.write(step, values)
        listener.close()
        if summary is not None:
            run.finish(summary)
        return run.path


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the content of a JSON file, and make it one without checksums."""
    content = json.loads(path.read_text())
    content = {key: v for key, v in content.items() if key not in ("sha256", "covers")}
    change(content)
    path.write_text(json.dumps(content))
