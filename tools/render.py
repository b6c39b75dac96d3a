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
from theory import Facts, Record, mdp_page, runs_of  # noqa: E402

from contrastive_ucb.agents.deep.presets import ALGORITHMS  # noqa: E402
from contrastive_ucb.core.files import write_atomically  # noqa: E402
from contrastive_ucb.report.agent_table import differences, rows, settings_of  # noqa: E402
from contrastive_ucb.report.plots import to_svg  # noqa: E402
from contrastive_ucb.report.tables import table, to_markdown  # noqa: E402
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

SHAPES = {  # of one observation
    "Atari": (1, 84, 84),
    "MinAtar": (4, 10, 10),
    "vectors (here of length 100)": (100,),
}


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
    data: dict[str, dict[str, Any]] = {
        "theory": {name: getattr(facts, name) for name in ("m", "claims", "pivot")}
        | {"origin": facts.origin, "overview": facts.overview},
        "results-theory": {"facts": facts, **mdp_page(results["mdp"])},
        "results-games": games_page(results["games"]),
        "results-neural": neural_page(results["neural"]),
        "results-deep": deep_page(deep),
    }
    found = {
        docs / f"{name}.md": env.get_template(f"{name}.md.j2").render(own)
        for name, own in data.items()
    }
    algorithms = (docs / "algorithms.md").read_text(encoding="utf-8")
    algorithms = between(algorithms, "agents", agents_table())
    found[docs / "algorithms.md"] = between(algorithms, "settings", settings_tables())
    features = features_table(deep["deepsea-features"]["features"])
    page = (docs / "deep.md").read_text(encoding="utf-8")
    found[docs / "deep.md"] = between(page, "features", features)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    main_results = main_table(facts, results, deep)
    found[ROOT / "README.md"] = between(readme, "results", main_results)
    return found


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


def agents_table() -> str:
    lines = [[f"`{name}`", one.what, one.source] for name, one in ALGORITHMS.items()]
    return to_markdown(table(["agent", "description", "source"], lines)).rstrip()


def settings_tables() -> str:
    parts = []
    for name, shape in SHAPES.items():
        (corner, *agents), *body = rows(differences(settings_of(shape)))
        lines = [[f"`{setting}`", *values] for setting, *values in body]
        header = [corner, *(f"`{agent}`" for agent in agents)]
        parts.append(f"On {name}:\n\n{to_markdown(table(header, lines)).rstrip()}")
    return "\n\n".join(parts)


def main_table(
    facts: Facts, results: Mapping[str, Mapping[str, Record]], deep: Mapping[str, Record]
) -> str:
    """The main results: each task with and without the bonus."""
    mdp, games, neural = results["mdp"], results["games"], results["neural"]
    lines = []
    for kind in ("exact", "sampled"):
        own = [_rounds(mdp[f"lock-{kind}-{algo}"]) for algo in ("contrastive-ucb", "no-bonus")]
        task = f"combination lock, H=6, A=5, {kind} negatives"
        lines.append([task, *own, "[theory](docs/results-theory.md)"])
    own = [_rounds(games[f"lock-game-{algo}"]) for algo in ("contrastive-ulcb", "no-bonus")]
    lines.append(["lock for two players, H=5", *own, "[games](docs/results-games.md)"])
    for horizon in (12, 24):
        names = [f"rich-lock-{horizon}-{algo}" for algo in ("contrastive-ucb", "no-bonus")]
        own = [_trajectories(neural[name]) for name in names]
        task = f"lock with noisy observations, H={horizon}, networks"
        lines.append([task, *own, "[neural](docs/results-neural.md)"])
    for size in (10, 14, 20):
        own = [_episodes(deep[f"deepsea-{size}-{name}"]) for name in ("algorithm-1", "spr")]
        task = f"DeepSea N={size}, SPR-UCB `algorithm-1` and SPR"
        lines.append([task, *own, "[deep](docs/results-deep.md)"])
    for game in ("breakout", "freeway"):
        own = [_score(deep[f"minatar-{game}-{name}"]) for name in ("paper", "spr")]
        task = f"MinAtar {game.capitalize()}, SPR-UCB `paper` and SPR"
        lines.append([task, *own, "[deep](docs/results-deep.md)"])
    header = ["task", "with the bonus", "without the bonus", "details"]
    text = to_markdown(table(header, lines)).rstrip()
    return f"{text}\n\nOf the paper's theory, {facts.verdict} ([docs/theory.md](docs/theory.md))."


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
