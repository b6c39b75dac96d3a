"""Write docs/tutorials/exploration.html, the animation of the first tutorial.

    python tools/animation.py

Two agents explore the same combination lock, one with and one without the bonus. The page shows
for every step, state and action the bonus, the number of visits and the action of the policy. The
template is tools/templates/exploration.html.j2; its data is a JSON object (see `record`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

import contrastive_ucb as cu
from contrastive_ucb.core.files import write_atomically

TOOLS = Path(__file__).parent
PAGE = TOOLS.parent / "docs" / "tutorials" / "exploration.html"
ALGORITHMS = {"contrastive-ucb": "With the bonus", "no-bonus": "Without the bonus"}
ROUNDS, EVERY = 241, 3


def lock() -> cu.Lock:
    """The lock of the tutorial."""
    return cu.Lock(horizon=6, n_actions=5, n_dead=10, seed=0)


def record(rounds: int = ROUNDS, every: int = EVERY) -> dict[str, Any]:
    """Two runs as JSON values, with one frame for round 1 and every `every` rounds after it.

    rounds   the round of each frame
    correct  [step][state]                the correct action of the two good states
    agents   per agent its title, and per frame
             value   V^pi of the policy
             policy  [step][state]        the action of the policy in the good states
             visits  [step][pair]         visits of the pairs (state, action) of the good states,
                                          then the mean over all pairs of the dead states
             bonus   [step][pair]         the bonus of the same pairs, times 100
    """
    env = lock()
    agents = [_run(env, algo, title, rounds, every) for algo, title in ALGORITHMS.items()]
    return {
        "rounds": list(range(1, rounds + 1, every)),
        "optimal": round(cu.optimal_value(env), 3),
        "correct": env.combination.tolist(),
        "agents": agents,
    }


def _run(env: cu.Lock, algo: str, title: str, rounds: int, every: int) -> dict[str, Any]:
    agent = cu.ContrastiveUCB(env, seed=0, algo=algo, negatives="exact")
    optimal, frames = cu.optimal_value(env), []

    def add_frame(event: Any) -> None:
        if (event.step - 1) % every:
            return
        visits = agent.model.visits[0].reshape(agent.bonus[0].shape)
        frames.append(
            {
                "value": round(optimal - event.values["gap"], 3),
                "policy": agent.policy[:, :2].argmax(-1).tolist(),
                "visits": [[float(f"{n:.1f}") for n in row] for row in _pairs(visits)],
                "bonus": np.round(100 * _pairs(agent.bonus[0])).astype(int).tolist(),
            }
        )

    agent.learn(rounds=rounds, progress=False, callback=add_frame)
    return {"algo": algo, "title": title, "frames": frames}


def _pairs(table: np.ndarray) -> np.ndarray:
    """The pairs of the two good states and the mean over the dead ones   (H, S, A) -> (H, 2A+1)"""
    good = table[:, :2].reshape(len(table), -1)
    return np.concatenate([good, table[:, 2:].mean((1, 2))[:, None]], axis=1)


def page(data: dict[str, Any]) -> str:
    """The HTML fragment that the tutorial shows."""
    loader = jinja2.FileSystemLoader(TOOLS / "templates")
    text = re.sub(r"\.0(?=[,\]])", "", json.dumps(data, separators=(",", ":")))  # 3.0 to 3
    template = jinja2.Environment(loader=loader).get_template("exploration.html.j2")
    return template.render(data=text)


def data_of(text: str) -> dict[str, Any]:
    """The data in the page that `page` wrote."""
    start = text.index(">", text.index('type="application/json"')) + 1
    data: dict[str, Any] = json.loads(text[start : text.index("</script>", start)])
    return data


if __name__ == "__main__":
    write_atomically(PAGE, page(record()))
    print(f"wrote {PAGE} ({PAGE.stat().st_size / 1000:.0f} kB)")
