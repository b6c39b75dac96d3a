"""`cucb reproduce WHAT`: the paper's table and figures, next to own runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from contrastive_ucb.cli.options import emit, parse
from contrastive_ucb.cli.out_file import check_file, explained, print_problems
from contrastive_ucb.core.errors import UserError

if TYPE_CHECKING:
    from contrastive_ucb.report.reproduce import OwnRuns

WHAT = {
    "table": "games x methods: mean and deviation, the best two in bold",
    "figure-mean": "bar chart of the mean human-normalized score",
    "figure-aggregates": "median, IQM, mean and optimality gap with 95% intervals",
}
ENDINGS = {
    "table": (".html", ".md", ".tex"),
    "figure-mean": (".html", ".svg", ".png", ".md", ".tex"),
    "figure-aggregates": (".html", ".svg", ".png", ".md", ".tex"),
}
HELP = f"""usage: cucb reproduce WHAT [--runs FOLDER] [--out FILE]

The paper's results on Atari 100K from published numbers, next to own runs.

what:
{chr(10).join(f"  {name:18} {text}" for name, text in WHAT.items())}

The suffix of --out selects the format: .html .md .tex, for figures also .svg .png (.md and .tex
contain their numbers). Examples:
  cucb reproduce table --out table.html
  cucb reproduce figure-aggregates --runs runs --out aggregates.svg
"""


@dataclass(frozen=True)
class Reproduce:
    """The paper's table or one of its figures; without --runs only published numbers."""

    runs: Path | None = None
    """Folder of runs whose scores are shown next to the published ones."""
    out: Path | None = None
    """The file to write; by default WHAT.html."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return
    what, *rest = arguments
    if what not in WHAT:
        close = get_close_matches(what, WHAT, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(WHAT)}"
        raise UserError(f"there is no {what!r} to reproduce; {hint}")
    options = parse(Reproduce, rest, f"cucb reproduce {what}", Reproduce())
    out = options.out or Path(f"{what}.html")
    check_file(out, ENDINGS[what])

    from contrastive_ucb.report.reproduce import own_runs

    own = own_runs(options.runs)
    print_problems(own.problems)
    with explained(out):
        _write(what, own, out, shlex.join(["cucb", "reproduce", what, *rest]))
    summary = {
        "what": what,
        "file": str(out.resolve()),
        "run_here": {one.name: int(one.n_runs.sum()) for one in own.scores},
        "missing": int(own.missing["seeds"].map(len).sum()),
        "damaged": len(own.problems),
    }
    emit(summary, options.json, f"written: {out}")


def _write(what: str, own: OwnRuns, out: Path, command: str) -> None:
    from contrastive_ucb.core.files import write_atomically
    from contrastive_ucb.report.plots import save_png, save_svg
    from contrastive_ucb.report.reproduce import figure_of, page_of

    if out.suffix == ".png":
        save_png(figure_of(what, own), out)
    elif out.suffix == ".svg":
        save_svg(figure_of(what, own), out)
    else:
        write_atomically(out, page_of(what, own, command, out.suffix))
