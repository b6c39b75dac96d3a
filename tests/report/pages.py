"""Every page that the package makes, from small made-up runs."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

from report.runs import write_demo, write_run
from report.score_runs import write_atari, write_deep_run

from contrastive_ucb.cli import main
from contrastive_ucb.envs.atari_names import ATARI_100K
from contrastive_ucb.report import demo_page

PAGES = ("report", "table", "figure-mean", "figure-aggregates", "demo")
COMMANDS = ["make demo", f"cucb solve lock --algo contrastive-ucb {'--rounds 800 ' * 12}"]
MANY = ("no-bonus", "uniform", "rep-ucb", "lsvi-ucb", "ucbvi")


def make_page(name: str, folder: Path) -> Path:
    """Make the page `name` in the folder, with the command that a person would type."""
    out, runs = folder / f"{name}.html", folder / f"{name}-runs"
    if name == "report":
        write_everything(runs)
        assert main(["report", str(runs), "--out", str(out)]) == 0
    elif name == "demo":
        write_demo(runs)
        with patch.object(demo_page, "save_png"):  # the page has no use for them
            demo_page.write_demo_page(runs, out, COMMANDS)
    elif name == "figure-mean":  # published numbers alone
        assert main(["reproduce", name, "--out", str(out)]) == 0
    else:  # one agent with runs of all games, or two with runs of some
        whole = name == "figure-aggregates"
        agents = {"spr-ucb": 0.6} if whole else {"spr": 0.4, "spr-ucb": 0.6}
        games = ATARI_100K if whole else ATARI_100K[::3]
        write_atari(runs, agents, games, seeds=2, returns=())
        assert main(["reproduce", name, "--runs", str(runs), "--out", str(out)]) == 0
    return out


def write_everything(root: Path) -> None:
    """Runs of every kind: many agents, gaps, long names, one point only; and facts."""
    write_atari(root, {"spr": 0.4, "spr-ucb": 0.6}, ["Pong", "Alien", "Kangaroo"])
    write_deep_run(root, "spr", "Pong", 3, finished=False)
    for size, score in ((8, 0.5), (10, 12345.0)):
        for agent in ("spr", "spr-ucb"):
            config = {"steps": 3000, "agent": {"n_step": size}}
            one = {"score": score, "config": config, "returns": [(100, score)]}
            write_deep_run(root, agent, f"DeepSea-{size}", 0, **one)
    long = {"agent": {"bonus": {"schedule": "practical, never rebuilt"}, "n_step": 3}}
    write_deep_run(root, "spr", "DeepSea-8", 0, config=long, returns=[(100, 1.0)])
    for at, agent in enumerate(("contrastive-ucb", *MANY)):
        for task in ("lowrank", "lock")[: 2 - at // 3]:
            for seed in range(2):
                level = 1 + at / 10 + seed / 20
                write_run(root, agent, task, seed, level=level, suite="solve")
    write_facts(root / "facts.json")


def fact(**changes: Any) -> dict[str, Any]:
    """A fact as `cucb verify` writes it."""
    return {
        "fact": "F1",
        "claim": "the model error zeta_k falls like 1/k, up to logarithms, as the lemma promises",
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
