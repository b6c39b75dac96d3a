"""`cucb verify [F1 F7 ...]`: measure the claims of the paper and compare with their targets."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from contrastive_ucb.cli.options import emit, parse
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError

if TYPE_CHECKING:
    from contrastive_ucb.facts.measure import Record
    from contrastive_ucb.facts.plan import Plan
    from contrastive_ucb.facts.rows import Row

HELP = """usage: cucb verify [F1 F7 ...] [options]

Measure the claims of the paper. Each fact has a setting, a target from the paper, a measured value
with a 95% interval, and a result. Settings and targets are fixed in experiments/facts.toml.
Facts are named F1 to F16; `ablations` and `peers` are tables without targets. Without a name, all
of them are measured.

The command exits with an error if a required fact does not hold. With --out, measurements are
stored, and a repeated command continues with the missing ones. Examples:
  cucb verify --quick
  cucb verify F1 F7 --seeds 10
  cucb verify --out results/theory
`cucb verify --help` lists the options.
"""


WITH_VALUE = ("--seeds", "--out", "--workers")  # options with a value


@dataclass(frozen=True)
class Verify:
    """Measure the claims of the paper and compare them with their targets."""

    seeds: int | None = None
    """Number of seeds; 10 by default, 3 with --quick."""
    quick: bool = False
    """Small sizes, about a minute. Inequalities are tested; slopes are only reported."""
    out: Path | None = None
    """Folder for facts.json, facts.csv, figures and measurements. By default nothing is stored."""
    workers: int | None = None
    """Number of parallel runs; by default the number of cores."""
    json: bool = False
    """Print the summary as one JSON object in the last line of stdout."""

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_size("seeds", self.seeds, least=2)  # needed for an interval
        if self.workers is not None:
            check_size("workers", self.workers)


def run(arguments: Sequence[str]) -> None:
    names, rest = names_and_rest(arguments)
    if rest[:1] in (["-h"], ["--help"]):
        print(HELP)  # followed by the options
    options = parse(Verify, rest, "cucb verify", Verify())

    from contrastive_ucb.facts.plan import read_plan
    from contrastive_ucb.facts.rows import NAME, check_place, summary_of, text_of, write_summary
    from contrastive_ucb.facts.verify import verify
    from contrastive_ucb.runs.pool import cores

    plan = read_plan(options.quick, options.seeds).choose(names)
    if options.out is not None:
        _make_folder(options.out)
        check_place(options.out, plan)
    rows, records = verify(plan, options.out, options.workers or cores(), _log)
    seconds = sum({id(record): record.seconds for record in records.values()}.values())
    summary = summary_of(plan, rows, shlex.join(["cucb", "verify", *arguments]), seconds)
    if options.out is not None:
        write_summary(options.out, summary, rows)
        n_figures = _draw(options.out, plan, records, rows)
        _log(f"wrote {options.out / NAME}, facts.csv and {n_figures} figures")
    emit(summary, options.json, text_of(rows))
    if failed := [row for row in rows if row.failed]:
        first = failed[0]
        raise UserError(
            f"{len(failed)} required facts do not hold, the first is {first.fact} {first.part}:"
            f" measured {first.measured}, target {first.mark}; see docs/theory.md"
        )


def names_and_rest(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into names of facts and options, which may be in any order."""
    names: list[str] = []
    rest: list[str] = []
    for previous, word in zip(("", *arguments), arguments, strict=False):
        is_option = word.startswith("-") or previous in WITH_VALUE
        (rest if is_option else names).append(word)
    return names, rest


def _make_folder(out: Path) -> None:
    """Create the folder, or raise an error before any work if it is not writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write to {out} ({error.strerror}); choose another folder for --out"
        ) from error


def _draw(out: Path, plan: Plan, records: dict[str, Record], rows: list[Row]) -> int:
    from contrastive_ucb.report.theory_figures import write_figures  # imports matplotlib

    return len(write_figures(out, plan, records, rows))


def _log(line: str) -> None:
    print(line, file=sys.stderr)
