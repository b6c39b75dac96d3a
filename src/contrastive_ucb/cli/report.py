"""`cucb report FOLDER`: one page about all runs below a folder, and their scores as CSV."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrastive_ucb.cli.options import check_file, emit, explained, parse, print_problems
from contrastive_ucb.core.errors import UserError

HELP = """usage: cucb report FOLDER [--out FILE]

One self-contained page about the runs below a folder, such as the --out of 'cucb train',
'cucb solve' or 'cucb sweep': learning curves, scores with intervals, aggregates over tasks, the
probability of improvement, bonuses, missing runs and the commands that complete them; and the facts
of the theory if 'cucb verify --out FOLDER' wrote some. The raw scores go to a .csv next to the
page. --out FILE.md or FILE.tex writes only the tables. Examples:
  cucb report runs/g --out report.html
  cucb report runs/g --facts results/theory/facts.json --out report.md
"""
ENDINGS = (".html", ".md", ".tex")


@dataclass(frozen=True)
class Report:
    """One self-contained page about a folder of runs."""

    out: Path = Path("report.html")
    """The page, or its tables as .md or .tex; the scores go to the .csv of the same name."""
    facts: Path | None = None
    """A facts.json of 'cucb verify'; by default that of the folder."""
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
    check_file(options.out, ENDINGS)
    scores = options.out.with_suffix(".csv")
    check_file(scores, (".csv",))
    if options.facts is not None and not options.facts.is_file():
        raise UserError(
            f"there is no file {options.facts}; 'cucb verify --out FOLDER' writes FOLDER/facts.json"
        )

    from contrastive_ucb.core.files import write_atomically
    from contrastive_ucb.report.load import read_facts
    from contrastive_ucb.report.pages import counts_of, report_files
    from contrastive_ucb.report.scores import load_scores

    command = shlex.join(["cucb", "report", *arguments])
    has_facts = read_facts(Path(folder), options.facts) is not None
    loaded = load_scores(Path(folder), may_be_empty=has_facts)
    print_problems(loaded.problems)
    files = report_files(loaded, options.out, command, options.facts)
    with explained(options.out):
        for path, text in files.items():
            write_atomically(path, text)
    counts = counts_of(loaded)
    summary = {"page": str(options.out.resolve()), "scores": str(scores.resolve()), **counts}
    text = f"{counts['finished']} finished runs, {counts['missing']} missing"
    text += f", {counts['damaged']} damaged" if counts["damaged"] else ""
    emit(summary, options.json, f"{text}; written: {options.out}, {scores}")
