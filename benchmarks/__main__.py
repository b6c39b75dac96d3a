"""Run one benchmark, or each of them in a process of its own.

    make bench                          # all of them
    make bench NAME=deep                # one of them
    make bench NAME=deep ARGS=--help    # its options
    make bench NAME=deep ARGS=--keep    # replace its file under results/

Prints a table with the target of each figure that has one, then all figures as one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any

import tyro

from benchmarks.finite_results import ROOT, versions
from benchmarks.timing import table

FILES = {  # name: file under results/
    "theory": "mdp/bench-theory.json",
    "games": "games/bench-games.json",
    "neural": "neural/bench.json",
    "deep": "deep/bench-deep.json",
    "bonus": "minigrid/bench-bonus.json",
    "report": "report-bench.json",
    "stats": "stats-bench.json",
}


def main(words: list[str]) -> None:
    if not words or words[0].startswith("-"):
        for name in FILES:
            subprocess.run([sys.executable, "-m", "benchmarks", name, *words], check=True)
        return
    name, *rest = words
    if name not in FILES:
        sys.exit(f"unknown benchmark {name!r}; choose one of {', '.join(FILES)}")
    try:
        run(name, [word for word in rest if word != "--keep"], keep="--keep" in rest)
    except (ValueError, OSError) as error:
        sys.exit(f"bench {name}: {error}")


def run(name: str, rest: list[str], keep: bool = False) -> dict[str, Any]:
    """Measure, print, and with `keep` write the record to results/."""
    module = import_module(f"benchmarks.{name}")
    options = tyro.cli(module.Options, args=rest, prog=f"make bench NAME={name}")
    figures: dict[str, Any] = module.measure(options)
    targets = module.targets(options)
    print(table(name, figures, targets))
    print(json.dumps(figures))
    if keep:
        marks = {"marks": targets} if targets else {}
        record = module.record(figures) if name == "report" else {"summary": figures, **marks}
        record = {"command": f"make bench NAME={name}", **record, "versions": versions()}
        content = json.dumps(record, indent=1) + "\n"
        (ROOT / "results" / FILES[name]).write_text(content, encoding="utf-8")
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
