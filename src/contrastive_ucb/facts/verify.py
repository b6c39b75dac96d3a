"""Run the experiment of a plan, and apply the rules of all facts.

The runs are ordinary run folders, so an interrupted command continues where it stopped. They are
stored under a hash of the source code, so results of older code are never reused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.runtime import versions
from contrastive_ucb.facts.plan import Fact, Plan, Record, Run, load_record
from contrastive_ucb.facts.rows import Row, State
from contrastive_ucb.facts.rules import RULES, Case, Outcome
from contrastive_ucb.runs.pool import run_local

ELSEWHERE = "elsewhere"  # the rule of a fact that this command does not measure
PACKAGE = Path(__file__).parents[1]
MEASURING = (  # folders whose code determines the measurements
    *("core", "envs", "data", "representation", "bonus", "planning", "agents/finite"),
    *("evaluation", "runs", "facts"),
)
SHORT = {"n_states": "S", "n_actions": "A", "n_dead": "n_dead", "rank": "d", "horizon": "H"}


@cache
def fingerprint() -> str:
    """Hash of the source code and the library versions that determine the measurements."""
    paths = sorted(path for folder in MEASURING for path in (PACKAGE / folder).glob("*.py"))
    content = [f"{path.relative_to(PACKAGE)} {path.read_text(encoding='utf-8')}" for path in paths]
    return hashlib.sha256("\n".join([json.dumps(versions()), *content]).encode()).hexdigest()


def verify(
    plan: Plan, root: Path, workers: int = 1, tick: Callable[[], None] = lambda: None
) -> tuple[list[Row], dict[str, Record]]:
    """Run what is not finished yet; returns the rows of all facts, and the records by run.

    root     of the run folders
    workers  number of processes
    """
    if errors := run_local(plan.jobs(), root, workers, tick):
        folder, error = next(iter(errors.items()))
        raise UserError(
            f"{len(errors)} runs failed; {folder.relative_to(root)}: {error}; repeat the command,"
            " which continues with --out"
        )
    loaded = {run.identity(): load_record(run, root) for run in plan.unique_runs()}
    records = {name: loaded[run.identity()] for name, run in plan.runs.items()}
    return [row_of(fact, plan, records) for fact in plan.facts], records


def row_of(fact: Fact, plan: Plan, records: Mapping[str, Record]) -> Row:
    """The row of a fact."""
    runs, measured = plan.runs_of(fact), [records[name] for name in fact.runs]
    is_run = fact.rule != ELSEWHERE
    case = Case(fact, runs, measured, plan.window)
    result = RULES[fact.rule](case) if is_run else Outcome(None)
    state: State = "holds" if result.held else "does not hold"
    if fact.reported or fact.mark == "none" or result.held is None:
        state = "reported" if is_run else "not run"
    shared = ("fact", "part", "claim", "unit", "required", "paper", "measure", "group")
    return Row(
        **{name: getattr(fact, name) for name in shared},
        setting=fact.setting or setting_of(runs),
        mark=result.mark or fact.mark,
        value=_rounded(result.value),
        low=_rounded(result.low),
        high=_rounded(result.high),
        state=state,
        seconds=round(sum(record.seconds for record in measured), 1),
        note=result.note or fact.note,
        limit=fact.limit if result.limit is None else _rounded(result.limit),
    )


def setting_of(runs: Sequence[Run]) -> str:
    """Environment, algorithm, rounds and seeds of the first run, and the labels of all runs."""
    if not runs:
        return "an example without a run"
    problem, seeds = runs[0].problem, runs[0].seeds
    env = problem.env_settings
    sizes = [f"{short}={_plain(env[name])}" for name, short in SHORT.items() if name in env]
    agent = {k: v for k, v in problem.agent_settings.items() if k != "rank" or v != env.get("rank")}
    parts = [
        " ".join([problem.env, *sizes]),
        " ".join([problem.algo, *(f"{name}={_plain(value)}" for name, value in agent.items())]),
        f"K={problem.rounds:,}",
        f"{seeds} seed{'s' * (seeds != 1)}",
    ]
    if len(runs) > 1:
        parts.append(" | ".join(run.label or run.name for run in runs))
    return ", ".join(parts)


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
