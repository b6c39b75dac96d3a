"""`cucb verify [F1 F7 ...]`: measure the claims of the paper and compare with their targets.

`cucb verify locks` measures an agent on the lock board.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
      cucb verify --out results/theory
      cucb verify locks --agent mymodule:make_agent   (see cucb verify locks --help)"""

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


@dataclass(frozen=True)
class Locks:
    """Measure an agent on the lock board: RichLock with A = 10 and H = 6, 12, 24, 50 and 100.

    A lock is solved if all 20 episodes of five evaluations in a row return 1. Seeds, budgets and
    this rule are fixed in experiments/locks.toml. The function of --agent takes a seed and returns
    an object with the method run(env_factory, budget), which returns a policy or yields policies;
    see docs/how-to/lock-board.md. Examples:
      cucb verify locks --agent mymodule:make_agent --horizons 6 12
      cucb verify locks --agent no-bonus --out board"""

    agent: str = "contrastive-ucb"
    """module:function that makes the agent, or an algorithm of `cucb solve`."""
    horizons: tuple[int, ...] = ()
    """Horizons; by default all."""
    seeds: int | None = None
    """Number of seeds per horizon; by default all."""
    quick: bool = False
    """A lock with H = 3 and A = 3 only, to test an agent."""
    out: Path | None = None
    """Folder for locks.json. A repeated command continues, and several agents share one board."""
    json: Json = False

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_size("seeds", self.seeds)


def run(arguments: Sequence[str]) -> None:
    if arguments[:1] in (["locks"], ("locks",)):
        run_locks(arguments[1:])
        return
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


def run_locks(arguments: Sequence[str]) -> None:
    """`cucb verify locks`: run an agent on the locks and print the board."""
    options = parse(Locks, arguments, "cucb verify locks", Locks())

    from contrastive_ucb.facts.locks import board_rows, run_board, tasks

    chosen = tasks(options.horizons, options.seeds, options.quick)
    runs = run_board(options.agent, chosen, options.out, say)
    rows = board_rows(runs)
    header = ("H", "agent", "solved", "trajectories", "environment steps", "CPU seconds")
    table = [header]
    for row in rows:
        numbers = (row[name] for name in ("trajectories", "env_steps", "cpu_seconds"))
        cells = ("\N{EN DASH}" if number is None else f"{number:,.0f}" for number in numbers)
        solved = f"{row['solved']} of {row['seeds']}"
        table.append((str(row["horizon"]), row["agent"], solved, *cells))
    text = f"{aligned(table)}\n\nNumbers are medians over the solved seeds."
    summary = {"agent": options.agent, "rows": rows, "runs": [asdict(run) for run in runs]}
    emit(summary, options.json, text)


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
