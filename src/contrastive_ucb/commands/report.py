"""`cucb report FOLDER`: one page about all runs in a folder, and their scores as CSV beside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.commands.reproduce import check_file

HELP = """usage: cucb report FOLDER [--out FILE.html]

One self-contained page about the runs in a folder (what was given to --out of 'cucb train',
'cucb solve' or 'cucb sweep'): learning curves, scores with intervals, aggregates over tasks, the
probability of improvement, bonuses, what is missing and the commands that would fill it; and the
facts of the theory, where 'cucb verify --out FOLDER' left some. The raw scores go to a .csv beside
the page. For example
  cucb report runs/g --out report.html
"""


@dataclass(frozen=True)
class Report:
    """One self-contained page about a folder of runs."""

    out: Path = Path("report.html")
    """The page; the scores go to the .csv of the same name."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return
    if arguments[0].startswith("-"):
        raise ValueError(f"name a folder of runs before {arguments[0]}, such as runs")
    folder, *rest = arguments
    options = parse(Report, rest, f"cucb report {folder}", Report())
    check_file(options.out, (".html",))

    from contrastive_ucb.commands.demo_plan import demo_plans
    from contrastive_ucb.report.run_page import write_run_page

    command = shlex.join(["cucb", "report", *arguments])
    counts = write_run_page(Path(folder), options.out, command, demo_plans)
    scores = options.out.with_suffix(".csv")
    summary = {"page": str(options.out.resolve()), "scores": str(scores.resolve()), **counts}
    text = f"{counts['finished']} finished runs, {counts['missing']} missing"
    emit(summary, options.json, f"{text}; written: {options.out}, {scores}")
