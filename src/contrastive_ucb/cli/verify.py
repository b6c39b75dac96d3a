"""`cucb verify [F1 F7 ...]`: measure the claims of the paper and compare with their targets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from tyro.conf import Positional, arg

from contrastive_ucb.cli.options import Json, emit, parse, say
from contrastive_ucb.cli.status import aligned, run_shown
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.rows import NAME, Row, check_place, summary_of, write_summary
from contrastive_ucb.runs.store import remedy_of

MAX_SETTING = 76  # characters in the terminal; facts.json contains the whole text


@dataclass(frozen=True)
class Verify:
    """Measure the claims of the paper. Each fact has a setting, a target from the paper, a measured
    value with a 95% interval, and a result. Settings and targets are fixed in
    experiments/facts.toml.

    The command exits with an error if a required fact does not hold. With --out, measurements are
    stored, and a repeated command continues with the missing ones. Examples:
      cucb verify --quick
      cucb verify F1 F7 --seeds 10
      cucb verify --out results/theory"""

    facts: Annotated[tuple[str, ...], Positional, arg(metavar="[FACT ...]")] = ()
    """Facts, F1 to F19; `ablations` and `peers` are tables without targets. By default all."""
    seeds: int | None = None
    """Number of seeds; 10 by default, 3 with --quick."""
    quick: bool = False
    """Small sizes, about a minute. Inequalities are tested; slopes are only reported."""
    out: Path | None = None
    """Folder for facts.json, facts.csv, figures and measurements. By default nothing is stored."""
    workers: int | None = None
    """Number of parallel runs; by default the number of cores."""
    json: Json = False

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_size("seeds", self.seeds, least=2)  # needed for an interval


def run(arguments: Sequence[str]) -> None:
    options = parse(Verify, arguments, "cucb verify", Verify())

    from contrastive_ucb.facts.plan import fingerprint, load_records, read_plan
    from contrastive_ucb.facts.rules import row_of

    plan = read_plan(options.quick, options.seeds).choose(options.facts)
    with TemporaryDirectory() as temporary:
        root = Path(temporary)
        if options.out is not None:
            root = options.out / "runs" / fingerprint()[:16]
            try:
                root.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                problem = f"cannot write to {root} ({error.strerror}); {remedy_of(error)}"
                raise UserError(problem) from error
            check_place(options.out, plan)
        run_shown(plan.jobs, root, options.workers)
        records = load_records(plan.runs, root)
    rows = [row_of(fact, records) for fact in plan.facts]
    summary = summary_of(plan, rows, records, shlex.join(["cucb", "verify", *arguments]))
    if options.out is not None:
        from contrastive_ucb.report.theory_figures import write_figures  # imports matplotlib

        write_summary(options.out, summary)
        figures = write_figures(options.out, plan, records, rows)
        say(f"wrote {options.out / NAME}, facts.csv and {len(figures)} figures")
    emit(summary, options.json, text_of(rows))
    if failed := [row for row in rows if row.failed]:
        first = failed[0]
        raise UserError(
            f"{len(failed)} required facts do not hold, the first is {first.name}:"
            f" measured {first.measured}, target {first.mark}; see docs/results/theory.md"
        )


def text_of(rows: Sequence[Row]) -> str:
    """Tables for a terminal: the facts, then the groups without targets."""
    facts = [("fact", "setting", "target", "measured (95% interval)", "state", "seconds")]
    others = [("table", "setting", "measure", "mean (95% interval)")]
    for row in rows:
        if row.group == "facts":
            long = len(row.setting) > MAX_SETTING
            setting = f"{row.setting[:52]} ... {row.setting[-19:]}" if long else row.setting
            state = f"{row.state} (required)" if row.failed else row.state
            facts.append((row.name, setting, row.mark, row.measured, state, f"{row.seconds:.0f}"))
        else:
            measured = f"{row.measured} {row.note}".strip()
            others.append((row.fact, row.part, row.measure.replace("_", " "), measured))
    return "\n\n".join(aligned(table) for table in (facts, others) if len(table) > 1)
