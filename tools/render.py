"""Render the generated pages, tables and figures from the files in results/.

    python tools/render.py           write README.md, docs/ and the figures in results/
    python tools/render.py --check   write nothing; exit with 1 if a page is out of date

Every number comes from a JSON file that a command wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))

from figures import learning_curves, trajectories_figure  # noqa: E402
from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: E402
from minigrid_page import (  # noqa: E402
    FIGURE,
    SOLVED,
    minigrid_groups,
    minigrid_page,
    success_curves,
    successes,
)
from theory import TITLES, Facts  # noqa: E402

import results  # noqa: E402
from contrastive_ucb.core.files import write_atomically  # noqa: E402
from contrastive_ucb.report.plots import to_svg  # noqa: E402
from results import Record, Records, read_records, runs_of  # noqa: E402

FOLDERS = ("theory", "mdp", "games", "neural", "deep", "minatar", "atari", "minigrid")
Task = tuple[str, str, tuple[str, str], str, str]
AGENTS, DEEP_AGENTS = ("contrastive-ucb", "no-bonus"), ("algorithm-1", "spr")
EXPLORATION: list[Task] = [  # task, start of the names of its records, agents, unit, page
    *((f"combination lock, H=6, A=5, {kind} negatives", f"mdp/lock-{kind}", AGENTS, "rounds",
       "locks") for kind in ("exact", "sampled")),
    ("lock for two players, H=5", "games/lock-game", ("contrastive-ulcb", "no-bonus"), "rounds",
     "games"),
    *((f"lock with noisy observations, H={size}, networks", f"neural/rich-lock-{size}", AGENTS,
       "trajectories", "locks") for size in (12, 24)),
    *((f"DeepSea N={size}, SPR-UCB `algorithm-1` and SPR", f"deep/deepsea-{size}", DEEP_AGENTS,
       "episodes", "DeepSea") for size in (10, 14, 20)),
    ("MiniGrid MultiRoom-N4-S5, PPO with the contrastive bonus", "minigrid/multiroom-n4-s5",
     ("contrastive", "no-bonus"), "success", "MiniGrid"),
]  # fmt: skip
MINATAR: list[Task] = [
    (f"MinAtar {game.capitalize()}, SPR-UCB `paper` and SPR", f"minatar/{game}", ("paper", "spr"),
     "score", "MinAtar") for game in ("breakout", "freeway")
]  # fmt: skip


def main(check: bool = False) -> int:
    stale = []
    for path, text in {**pages(), **({} if check else figures())}.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                write_atomically(path, text)
    for path in stale:
        print(f"{'out of date' if check else 'written'}: {path.relative_to(ROOT)}")
    return int(check and bool(stale))


def pages() -> dict[Path, str]:
    """The text of every generated page, by its path."""
    docs, readme = ROOT / "docs", ROOT / "README.md"
    records = read_records(*FOLDERS)
    facts = Facts(records["theory/facts"])
    env = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    env.globals |= vars(results) | {"records": records, "facts": facts, "titles": TITLES}
    mdp, trained = results.mdp_page(records), results.deep_page(records)
    data: dict[str, dict[str, Any]] = {
        "results/index": {"main": main_table(records, pages=".")},
        "results/theory": {},
        "results/ablations": {},
        "results/locks": mdp | results.neural_page(records),
        "results/games": results.games_page(records),
        "results/deepsea": mdp | trained,
        "results/minatar": trained,
        "results/atari": trained
        | {
            "full": {name: one for name, one in records.items() if name.startswith("atari/")},
        },
        "explanation/where-it-helps": mdp
        | {
            "helps": main_table(records, pages="../results", parts=[EXPLORATION]),
            "minatar": main_table(records, pages="../results", parts=[MINATAR]),
        },
    }
    if minigrid_groups(records):
        data["results/minigrid"] = minigrid = minigrid_page(records)
        data["explanation/where-it-helps"] |= {"minigrid": minigrid}
    found = {}
    for name, own in data.items():
        folder, _, page = name.rpartition("/")
        template = env.get_template(f"{folder if page == 'index' else page}.md.j2")
        found[docs / f"{name}.md"] = template.render(own)
    features = results.features_table(records["deep/deepsea-features"]["features"])
    bonus = docs / "explanation" / "bonus.md"
    found[bonus] = between(bonus.read_text(encoding="utf-8"), "features", features)
    claims = f"Of the paper's theory, {facts.verdict} ([theory](docs/results/theory.md))."
    content = f"{main_table(records, pages='docs/results')}\n\n{claims}"
    found[readme] = between(readme.read_text(encoding="utf-8"), "results", content)
    return found


def figures() -> dict[Path, str]:
    """The figures of the docs pages as SVG, by their path."""
    records = read_records(*FOLDERS)
    drawn = learning_curves(records)
    drawn[Path("neural", "trajectories.svg")] = trajectories_figure(results.lock_runs(records))
    if groups := minigrid_groups(records):
        drawn[FIGURE] = success_curves(groups)
    return {ROOT / "results" / path: to_svg(figure) for path, figure in drawn.items()}


def between(text: str, name: str, content: str) -> str:
    """The text with the part between <!-- name:begin --> and <!-- name:end --> replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page must have {begin} and {end} once")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def main_table(records: Records, pages: str, parts: Any = None) -> str:
    """The main results: each task with and without the bonus.

    pages  folder of the results pages, as seen from the page with the table
    parts  the lists of tasks that are shown; default: `EXPLORATION` and `MINATAR`
    """
    rows = []
    for task, start, agents, unit, page in [
        line for part in parts or [EXPLORATION, MINATAR] for line in part
    ]:
        with_bonus, without = (_outcome(records[f"{start}-{agent}"], unit) for agent in agents)
        link = f"[{page}]({pages}/{page.lower()}.md)".replace("](./", "](")
        rows.append(
            {
                "task": task,
                "with the bonus": with_bonus,
                "without the bonus": without,
                "details": link,
            }
        )
    return results.markdown_table(rows)


def _outcome(record: Record, unit: str) -> str:
    """How many seeds solved the task, and when, or the mean score; in rounds, episodes, ..."""
    runs = runs_of(record)
    if unit == "score":
        return f"mean score {results.run_scores(record).mean():.1f} ({len(runs)} seeds)"
    if unit == "success":
        rates = successes(record)
        return f"{(rates > SOLVED).sum()} of {len(runs)} seeds, success rate {rates.mean():.2f}"
    at = results.solved_at(runs)
    if not at:
        when = f" in {max(run[unit] for run in runs):,} {unit}"
    elif unit == "trajectories":
        when = f", mean {fmean(results.trajectories(runs, solved=True)):,.0f} trajectories"
    else:
        middle = "median " if len(at) > 1 else ""
        when = f", {middle}{unit.removesuffix('s')} {median(at):.0f}"
    return f"{len(at)} of {len(runs)} seeds{when}"


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
