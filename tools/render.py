"""Render the generated pages, tables and figures from the files in results/.

    python tools/render.py           write README.md, docs/ and the figures in results/
    python tools/render.py --check   write nothing; exit with 1 if a page is out of date

Every number comes from a JSON file that a command wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))

from figures import learning_curves, trajectories_figure  # noqa: E402
from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: E402
from theory import TITLES, Facts, Record, markdown_table, mdp_page, runs_of  # noqa: E402

from contrastive_ucb.core.files import write_atomically  # noqa: E402
from contrastive_ucb.report.plots import to_svg  # noqa: E402
from results import (  # noqa: E402
    agent_name,
    deep_page,
    features_table,
    games_page,
    lock_runs,
    neural_page,
    run_scores,
    solved_at,
)

HEADER = ["task", "with the bonus", "without the bonus", "details"]


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
    docs = ROOT / "docs"
    results = {name: read_records(name) for name in ("theory", "mdp", "games", "neural")}
    deep = read_records("deep")
    deep |= {f"minatar-{name}": one for name, one in read_records("minatar").items()}
    facts = Facts(results["theory"]["facts"])
    env = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    mdp, trained = mdp_page(results["mdp"]), deep_page(deep)
    verdict = f"{facts.verdict}."
    data: dict[str, dict[str, Any]] = {
        "results/index": {"main": main_table(results, deep, pages="."), "verdict": verdict},
        "results/theory": {name: getattr(facts, name) for name in ("m", "section", "overview")}
        | {"origin": facts.origin, "verdict": facts.verdict, "titles": TITLES},
        "results/ablations": {"pivot": facts.pivot},
        "results/locks": mdp | neural_page(results["neural"]),
        "results/games": games_page(results["games"]),
        "results/deepsea": mdp | trained | {"command": deep["deepsea-10-algorithm-1"]["command"]},
        "results/minatar": trained | {"command": deep["minatar-breakout-spr"]["command"]},
        "results/atari": trained | {"command": deep["roadrunner"]["command"]},
        "explanation/where-it-helps": mdp
        | {
            "helps": main_table(results, deep, pages="../results", easy=False),
            "minatar": minatar_table(deep, pages="../results"),
        },
    }
    found = {
        docs / f"{name}.md": env.get_template(f"{_template(name)}.md.j2").render(own)
        for name, own in data.items()
    }
    features = features_table(deep["deepsea-features"]["features"])
    bonus = docs / "explanation" / "bonus.md"
    found[bonus] = between(bonus.read_text(encoding="utf-8"), "features", features)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    of_readme = main_table(results, deep, pages="docs/results")
    claims = f"Of the paper's theory, {facts.verdict} ([theory](docs/results/theory.md))."
    found[ROOT / "README.md"] = between(readme, "results", f"{of_readme}\n\n{claims}")
    return found


def _template(page: str) -> str:
    """The name of the template of a page: that of the page, or of the folder of an index."""
    folder, _, name = page.rpartition("/")
    return folder if name == "index" else name


def figures() -> dict[Path, str]:
    """The figures of the docs pages as SVG, by their path."""
    folder = ROOT / "results"
    deep = [*read_records("deep").values(), *read_records("minatar").values()]
    found = {folder / path: to_svg(figure) for path, figure in learning_curves(deep).items()}
    locks = lock_runs(read_records("neural"))
    return found | {folder / "neural" / "trajectories.svg": to_svg(trajectories_figure(locks))}


def read_records(name: str) -> dict[str, Record]:
    """The JSON files of a folder of results/, by file name."""
    paths = sorted((ROOT / "results" / name).glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def between(text: str, name: str, content: str) -> str:
    """The text with the part between <!-- name:begin --> and <!-- name:end --> replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page must have {begin} and {end} once")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def main_table(
    results: Mapping[str, Mapping[str, Record]],
    deep: Mapping[str, Record],
    pages: str,
    easy: bool = True,
) -> str:
    """The main results: each task with and without the bonus.

    pages  folder of the results pages, as seen from the page with the table
    easy   whether tasks that do not need the bonus are included
    """
    mdp, games, neural = results["mdp"], results["games"], results["neural"]
    lines = []
    for kind in ("exact", "sampled"):
        own = [_rounds(mdp[f"lock-{kind}-{algo}"]) for algo in ("contrastive-ucb", "no-bonus")]
        task = f"combination lock, H=6, A=5, {kind} negatives"
        lines.append([task, *own, f"[locks]({pages}/locks.md)"])
    own = [_rounds(games[f"lock-game-{algo}"]) for algo in ("contrastive-ulcb", "no-bonus")]
    lines.append(["lock for two players, H=5", *own, f"[games]({pages}/games.md)"])
    for horizon in (12, 24):
        names = [f"rich-lock-{horizon}-{algo}" for algo in ("contrastive-ucb", "no-bonus")]
        own = [_trajectories(neural[name]) for name in names]
        task = f"lock with noisy observations, H={horizon}, networks"
        lines.append([task, *own, f"[locks]({pages}/locks.md)"])
    for size in (10, 14, 20):
        own = [_episodes(deep[f"deepsea-{size}-{name}"]) for name in ("algorithm-1", "spr")]
        task = f"DeepSea N={size}, SPR-UCB `algorithm-1` and SPR"
        lines.append([task, *own, f"[DeepSea]({pages}/deepsea.md)"])
    if easy:
        lines += _minatar_rows(deep, pages)
    return markdown_table(HEADER, lines).replace("](./", "](")


def minatar_table(deep: Mapping[str, Record], pages: str) -> str:
    """Mean scores in two games with and without the bonus of the paper."""
    return markdown_table(HEADER, _minatar_rows(deep, pages))


def _minatar_rows(deep: Mapping[str, Record], pages: str) -> list[list[str]]:
    lines = []
    for game in ("breakout", "freeway"):
        own = [_score(deep[f"minatar-{game}-{name}"]) for name in ("paper", "spr")]
        task = f"MinAtar {game.capitalize()}, SPR-UCB `paper` and SPR"
        lines.append([task, *own, f"[MinAtar]({pages}/minatar.md)"])
    return lines


def _rounds(record: Record) -> str:
    runs = runs_of(record)
    at = [run["solved_at"] for run in runs if run["solved_at"] is not None]
    when = f", median round {median(at):.0f}" if at else f" in {runs[0]['rounds']:,} rounds"
    return f"{len(at)} of {len(runs)} seeds{when}"


def _trajectories(record: Record) -> str:
    runs = runs_of(record)
    spent = [run["trajectories"] for run in runs if run["solved_at"] is not None]
    most = max(run["trajectories"] for run in runs)
    when = f", mean {fmean(spent):,.0f} trajectories" if spent else f" in {most:,} trajectories"
    return f"{len(spent)} of {len(runs)} seeds{when}"


def _episodes(record: Record) -> str:
    at, runs = solved_at(record), record["runs"]
    when = f", median episode {median(at):.0f}" if at else f" in {runs[0]['episodes']:,} episodes"
    return f"{len(at)} of {len(runs)} seeds{when}"


def _score(record: Record) -> str:
    assert agent_name(record["runs"][0])
    return f"mean score {run_scores(record).mean():.1f} ({len(record['runs'])} seeds)"


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
