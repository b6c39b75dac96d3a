"""`cucb reproduce WHAT`: the paper's table and figures, next to own runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from contrastive_ucb.cli.options import Json, check_file, emit, explained, parse, print_problems

ENDINGS = {
    "table": (".html", ".md", ".tex"),
    "figure-mean": (".html", ".svg", ".png", ".md", ".tex"),
    "figure-aggregates": (".html", ".svg", ".png", ".md", ".tex"),
}


@dataclass(frozen=True)
class Reproduce:
    """The paper's results on Atari 100K from published numbers, next to own runs.

    what to reproduce:
      table              games x methods: mean and deviation, the best two in bold
      figure-mean        bar chart of the mean human-normalized score
      figure-aggregates  median, IQM, mean and optimality gap with 95% intervals

    examples:
      cucb reproduce table --out table.html
      cucb reproduce figure-aggregates --runs runs --out aggregates.svg
    """

    what: Annotated[Literal["table", "figure-mean", "figure-aggregates"], tyro.conf.Positional]
    """The table or one of the figures."""
    runs: Path | None = None
    """Folder of runs whose scores are shown next to the published ones."""
    out: Path | None = None
    """The file to write, by default WHAT.html. Its suffix selects the format: .html .md .tex, for
    figures also .svg .png (.md and .tex contain their numbers)."""
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    options = parse(Reproduce, arguments, "cucb reproduce")
    what, out = options.what, options.out or Path(f"{options.what}.html")
    check_file(out, ENDINGS[what])

    from contrastive_ucb.core.files import write_atomically
    from contrastive_ucb.report.atari import own_runs
    from contrastive_ucb.report.pages import reproduced_figure, reproduced_page
    from contrastive_ucb.report.plots import save_png, save_svg

    own = own_runs(options.runs)
    print_problems(own.problems)
    with explained(out):
        if out.suffix in (".png", ".svg"):
            save = save_png if out.suffix == ".png" else save_svg
            save(reproduced_figure(what, own), out)
        else:
            command = shlex.join(["cucb", "reproduce", *arguments])
            write_atomically(out, reproduced_page(what, own, command, out.suffix))
    summary = {
        "what": what,
        "file": str(out.resolve()),
        "run_here": {scores.name: int(scores.n_runs.sum()) for scores in own.scores},
        "missing": int(own.missing["seeds"].map(len).sum()),
        "damaged": len(own.problems),
    }
    emit(summary, options.json, f"written: {out}")
