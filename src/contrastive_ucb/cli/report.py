"""`cucb report FOLDER`: one page about all runs below a folder, and their scores as CSV."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from contrastive_ucb.cli.options import Json, check_file, emit, explained, parse, print_problems
from contrastive_ucb.core.errors import UserError

ENDINGS = (".html", ".md", ".tex")


@dataclass(frozen=True)
class Report:
    """One self-contained page about the runs below a folder, such as the --out of `cucb train` or
    another command: learning curves, scores with intervals, aggregates over tasks, the probability
    of improvement, bonuses, missing runs and the commands that complete them; and the facts of the
    theory if `cucb verify --out FOLDER` wrote some.

    examples:
      cucb report runs/g --out report.html
      cucb report runs/g --facts results/theory/facts.json --out report.md
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """A folder of runs."""
    out: Path = Path("report.html")
    """The page, or its tables as .md or .tex; the scores go to the .csv of the same name."""
    facts: Path | None = None
    """A facts.json of 'cucb verify'; by default that of the folder."""
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    options = parse(Report, arguments, "cucb report")
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

    has_facts = read_facts(options.folder, options.facts) is not None
    loaded = load_scores(options.folder, may_be_empty=has_facts)
    print_problems(loaded.problems)
    command = shlex.join(["cucb", "report", *arguments])
    files = report_files(loaded, options.out, command, options.facts)
    with explained(options.out):
        for path, text in files.items():
            write_atomically(path, text)
    counts = counts_of(loaded)
    summary = {"page": str(options.out.resolve()), "scores": str(scores.resolve()), **counts}
    text = f"{counts['finished']} finished runs, {counts['missing']} missing"
    text += f", {counts['damaged']} damaged" if counts["damaged"] else ""
    emit(summary, options.json, f"{text}; written: {options.out}, {scores}")
