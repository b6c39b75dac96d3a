"""Run folders as two tidy tables: `runs`, one row per run, and `curves`, one row per value.

| table  | columns                                                                                |
|--------|----------------------------------------------------------------------------------------|
| runs   | run, group, root, suite, agent, task, hash, seed, status, problem, identity, config,   |
|        | inputs, label, words, eval_episodes, versions, solvable, and all entries of the        |
|        | summary ("average_regret", "evaluation.mean", ...)                                     |
| curves | run, step, tag, value                                                                  |

`status` is finished, unfinished, damaged or planned (listed by a sweep, without a folder yet).
Unfinished, damaged and planned runs contribute no numbers. Folders are searched at any depth.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.rows import Row
from contrastive_ucb.runs.grid import SWEEPS, PlannedRun, remembered
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.runs.store import failure_of, read_done, read_object, read_spec

SCORES = ("evaluation.mean", "average_regret", "average_gap")  # a finished run has one of them
NUMBERS = (*SCORES, "evaluation.episodes", "optimal_value")
COLUMNS = (
    *("run", "group", "root", "suite", "agent", "task", "hash", "seed", "status", "problem"),
    *("identity", "config", "inputs", "label", "words", "eval_episodes", "versions", "solvable"),
)
CURVES = ("run", "step", "tag", "value")
REPEAT = "repeat the run's command"

Values = list[tuple[str, int, str, float]]  # rows of `curves`


@dataclass(frozen=True)
class Loaded:
    """The runs of a folder and their curves."""

    root: Path
    runs: pd.DataFrame
    curves: pd.DataFrame

    @property
    def problems(self) -> list[str]:
        """One line per damaged run: what is wrong and what to do about it."""
        return list(self.runs.loc[self.runs["status"] == "damaged", "problem"])


def load(root: Path, may_be_empty: bool = False) -> Loaded:
    """Read all runs below `root`, and the plans of its sweeps.

    A run that cannot be read has the status "damaged" and the reason in `problem`.
    """
    if not root.is_dir():
        raise UserError(f"there is no run folder {root}; pass the folder given to --out")
    rows: list[dict[str, Any]] = []
    values: Values = []
    plans: list[tuple[Path, PlannedRun]] = []
    for path, names, files in os.walk(root):
        folder = Path(path)
        names[:] = sorted(name for name in names if not name.startswith("."))  # not drafts
        if SWEEPS in names:
            plans += [(folder, planned) for planned in remembered(folder)]
        if folder.name.startswith("seed_"):
            if any(not name.startswith(".") for name in (*names, *files)):  # else: nothing begun
                rows.append(_read_run(folder, values))
            names.clear()
    _mark_copies(rows)
    rows += _planned(plans, rows)
    if not rows and not may_be_empty:
        raise UserError(
            f"there are no runs under {root}; pass the folder given to --out of 'cucb train',"
            " 'cucb solve' or 'cucb sweep'"
        )
    columns = list(dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)]))
    runs = pd.DataFrame(rows, columns=columns)
    curves = pd.DataFrame(values, columns=list(CURVES))
    finished = runs.loc[runs["status"] == "finished", "run"]
    return Loaded(root, runs, curves[curves["run"].isin(finished)])


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings, with the keys joined by dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def read_facts(root: Path, given: Path | None = None) -> dict[str, Any] | None:
    """The content of facts.json, with a `Row` per fact; None if the folder has no such file.

    given  a file to read instead of that of the folder
    """
    file = given or root / "facts.json"
    if given is None and not file.exists():
        return None
    remedy = f"run 'cucb verify --out {file.parent}' again or remove the file"
    content = read_object(file, remedy)
    try:
        rows = [Row.of_json(fact) for fact in content["facts"]]
        _ = [row.measured for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file} is damaged ({error}); {remedy}") from error
    return {**content, "facts": rows, "file": file}


def _read_run(folder: Path, values: Values) -> dict[str, Any]:
    """The row of a run; its curves are added to `values` if it is finished."""
    *above, suite, agent, group, seed = ("", "", "", *folder.parts)
    task, _, digest = group.rpartition("-")
    number = seed.removeprefix("seed_")
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"run": str(folder), "group": str(folder.parent), "root": str(Path(*above))}
    row |= {"suite": suite, "agent": agent, "task": task, "hash": digest, "config": {}}
    row |= {"seed": int(number) if number.isdecimal() else -1, "status": "damaged"}
    try:
        spec = _read_spec(folder)
        row |= {**spec.to_json(), "identity": spec.identity(), "status": "unfinished"}
        done = folder / "DONE"
        if not done.exists():
            for name in ("metrics.jsonl", "eval.jsonl"):
                _read_lines(folder / name, torn_end=True)
            return row
        summary = _read_summary(done, spec)
        values += _read_curves(folder)
    except UserError as error:
        return row | {"status": "damaged", "problem": str(error)}
    entries = {key: value for key, value in summary.items() if key not in row and value is not None}
    row |= {"status": "finished", "versions": _read_versions(folder)}
    return row | entries | {"solvable": "solved_at" in summary}


def _read_spec(folder: Path) -> RunSpec:
    file = folder / "spec.json"
    if not file.exists() and (failure := failure_of(folder)):
        raise UserError(f"{folder} failed before it began ({failure.error}); {REPEAT}")
    spec = read_spec(folder)
    place = (spec.suite, spec.agent, folder.parent.name, f"seed_{spec.seed}")
    if folder.parts[-4:] != place or not folder.parent.name.startswith(spec.task):
        here = f"{spec.suite}/{spec.agent}/{spec.task}-{spec.identity()[:8]}/seed_{spec.seed}"
        raise UserError(f"{file} describes the run {here}; move the folder there")
    return spec


def _read_summary(done: Path, spec: RunSpec) -> dict[str, Any]:
    """The entries of DONE; one of `SCORES` must be a number."""
    remedy = f"remove it and {REPEAT}"
    summary = dict(flatten(read_done(done.parent, spec)))
    for key in NUMBERS:
        value = summary.get(key)
        if value is not None and not _is_number(value):
            raise UserError(
                f"{done} is damaged ({key} is {value!r}, not a finite number); {remedy}"
            )
    if all(summary.get(key) is None for key in SCORES):
        raise UserError(f"{done} has no score ({', '.join(SCORES)}); {remedy}")
    return summary


def _read_curves(folder: Path) -> Values:
    metrics = folder / "metrics.jsonl"
    if not metrics.exists():
        raise UserError(f"{metrics} cannot be read (it is missing); move {folder} elsewhere")
    tags = {"mean": "eval/mean", "median": "eval/median"}
    curves = [(line, tag, tag) for line in _read_lines(metrics) for tag in line if tag != "step"]
    curves += [
        (line, key, tag)
        for line in _read_lines(folder / "eval.jsonl")
        for key, tag in tags.items()
        if key in line
    ]
    return [(str(folder), line["step"], tag, line[key]) for line, key, tag in curves]


def _read_lines(file: Path, torn_end: bool = False) -> list[dict[str, Any]]:
    """The lines of a .jsonl file; the last line of a running process may be incomplete."""
    if not file.exists():
        return []
    # Checkpoints store the length of the file, so a run cannot continue without it.
    remedy = f"repair it, or move {file.parent} elsewhere and {REPEAT}"
    try:
        *texts, rest = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read as UTF-8 ({error}); {remedy}") from error
    if rest and not torn_end:
        texts.append(rest)
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
            step = lines[-1]["step"] if lines else -1
            problem = _line_problem(line, step, file.name == "metrics.jsonl")
        except ValueError:
            problem = "not valid JSON"
        if problem:
            raise UserError(f"{file} line {number} is damaged ({problem}); {remedy}")
        lines.append(line)
    return lines


def _line_problem(line: Any, step: int, only_numbers: bool) -> str:
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        return "no JSON object with a whole 'step'"
    if line["step"] < step:
        return f"step {line['step']} after {step}"
    for tag, value in line.items():
        if only_numbers and not _is_number(value):
            return f"{tag} is {value!r}, not a finite number"
    return ""


def _read_versions(folder: Path) -> str | None:
    try:
        versions = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
        return ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
    except (OSError, ValueError, TypeError):
        return None


def _mark_copies(rows: list[dict[str, Any]]) -> None:
    """A second copy of a run is damaged."""
    seen: dict[tuple[str, int], str] = {}
    for row in (row for row in rows if row["status"] != "damaged"):
        first = seen.setdefault((row["identity"], row["seed"]), row["run"])
        if first != row["run"]:
            problem = f"{row['run']} is a copy of {first}; remove one of them"
            row |= {"status": "damaged", "problem": problem}


def _planned(
    plans: list[tuple[Path, PlannedRun]], rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rows for planned runs without a folder; begun runs get the label and words of the plan."""
    known = {(row["identity"], row["seed"]) for row in rows}
    planned: list[dict[str, Any]] = []
    for root, (spec, label, words, episodes) in plans:
        identity, folder = spec.identity(), spec.folder(root)
        shared = {"label": label, "words": tuple(words), "eval_episodes": episodes}
        place = {"group": str(folder.parent), "root": str(root), "hash": identity[:8]}
        begun = [row for row in rows if row["identity"] == identity]
        for row in begun:
            place = {name: begun[0][name] for name in place}
            if row["label"] is None:
                row |= shared
        if (identity, spec.seed) not in known:
            known.add((identity, spec.seed))
            row = {"run": str(folder), "identity": identity, "status": "planned", **shared, **place}
            planned.append({**dict.fromkeys(COLUMNS), **spec.to_json(), **row})
    return planned


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
