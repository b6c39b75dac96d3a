"""`cucb verify [F1 F7 ...]`: the facts of the theory, measured and held against their marks."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError

if TYPE_CHECKING:
    from contrastive_ucb.facts.plan import Plan
    from contrastive_ucb.facts.record import Record
    from contrastive_ucb.facts.rows import Row

HELP = """usage: cucb verify [F1 F7 ...] [options]

Measure what the paper proves: each fact has a setting, a mark from the paper, a measured value with
a 95% interval, and says whether it holds. The settings and marks are fixed in facts.toml of the
package. Facts are F1 to F16; `ablations` and `peers` are tables without marks. No name is all.

Exits with an error if a fact that is required does not hold. With --out, what was measured is kept,
and a repeated command goes on with what is missing. For example
  cucb verify --quick
  cucb verify F1 F7 --seeds 10
  cucb verify --out results/theory
`cucb verify --help` lists the options.
"""


WITH_VALUE = ("--seeds", "--out", "--workers")  # options that take the word behind them


@dataclass(frozen=True)
class Verify:
    """Measure the facts of the theory and hold them against the marks of the paper."""

    seeds: int | None = None
    """How many seeds; by default 10, with --quick 3."""
    quick: bool = False
    """Small sizes, about a minute: inequalities are checked, slopes only shown."""
    out: Path | None = None
    """Folder for facts.json, facts.csv, figures and what was measured; without it nothing stays."""
    workers: int | None = None
    """How many runs at once; by default as many as there are cores."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_size("seeds", self.seeds, least=2)  # an interval needs two
        if self.workers is not None:
            check_size("workers", self.workers)


def run(arguments: Sequence[str]) -> None:
    names, rest = names_and_rest(arguments)
    if rest[:1] in (["-h"], ["--help"]):
        print(HELP)  # and the options follow
    options = parse(Verify, rest, "cucb verify", Verify())

    from contrastive_ucb.facts.plan import read_plan
    from contrastive_ucb.facts.rows import text_of
    from contrastive_ucb.facts.summary import NAME, check_place, summary_of, write_summary
    from contrastive_ucb.facts.verify import verify
    from contrastive_ucb.runs.pool import cores

    plan = read_plan(options.quick, options.seeds).choose(names)
    if options.out is not None:
        _make_folder(options.out)
        check_place(options.out, plan)
    rows, records = verify(plan, options.out, options.workers or cores(), _say)
    spent = sum({id(record): record.seconds for record in records.values()}.values())
    summary = summary_of(plan, rows, shlex.join(["cucb", "verify", *arguments]), spent)
    if options.out is not None:
        write_summary(options.out, summary, rows)
        drawn = _draw(options.out, plan, records, rows)
        _say(f"written: {options.out / NAME}, facts.csv and {drawn} figures")
    emit(summary, options.json, text_of(rows))
    if failed := [row for row in rows if row.failed]:
        first = failed[0]
        raise UserError(
            f"{len(failed)} of the required facts do not hold, first {first.fact} {first.part}:"
            f" {first.measured}; the mark is: {first.mark}"
        )


def names_and_rest(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The facts that are named, and the options, in any order."""
    names: list[str] = []
    rest: list[str] = []
    for before, word in zip(("", *arguments), arguments, strict=False):
        is_option = word.startswith("-") or before in WITH_VALUE
        (rest if is_option else names).append(word)
    return names, rest


def _make_folder(out: Path) -> None:
    """Stop before any work if nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UserError(
            f"nothing can be written to {out} ({error.strerror}); pass another folder to --out"
        ) from error


def _draw(out: Path, plan: Plan, records: dict[str, Record], rows: list[Row]) -> int:
    from contrastive_ucb.report.theory_figures import write_figures  # imports matplotlib

    return len(write_figures(out, plan, records, rows))


def _say(line: str) -> None:
    print(line, file=sys.stderr)
