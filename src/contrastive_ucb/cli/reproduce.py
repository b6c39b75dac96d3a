"""`cucb reproduce WHAT`: the paper's table and figures, next to own runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from contrastive_ucb.cli.options import check_file, emit, explained, parse, print_problems
from contrastive_ucb.core.errors import UserError

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
            command = shlex.join(["cucb", "reproduce", what, *rest])
            write_atomically(out, reproduced_page(what, own, command, out.suffix))
    summary = {
        "what": what,
        "file": str(out.resolve()),
        "run_here": {one.name: int(one.n_runs.sum()) for one in own.scores},
        "missing": int(own.missing["seeds"].map(len).sum()),
        "damaged": len(own.problems),
    }
    emit(summary, options.json, f"written: {out}")
