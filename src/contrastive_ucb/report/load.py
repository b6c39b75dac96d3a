"""Run folders as two tidy tables: `runs`, one row per run, and `curves`, one row per value.

| table  | columns                                                                                |
|--------|----------------------------------------------------------------------------------------|
| runs   | run, group, root, suite, agent, task, hash, seed, status, problem, identity, config,   |
|        | inputs, label, command, words, versions, solvable, and all entries of the summary      |
|        | ("average_regret", "evaluation.mean", ...)                                             |
| curves | run, step, tag, value                                                                  |

`status` is finished, unfinished, damaged or planned (listed by a sweep, without a folder yet).
Unfinished, damaged and planned runs contribute no numbers. Folders are searched at any depth.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from contrastive_ucb.core.errors import UserError

SCORES = ("evaluation.mean", "average_regret", "average_gap")  # a finished run has one of them
CHECKED = (*SCORES, "evaluation.episodes", "optimal_value")
COLUMNS = (
    *("run", "group", "root", "suite", "agent", "task", "hash", "seed", "status", "problem"),
    *("identity", "config", "inputs", "label", "command", "words", "versions", "solvable"),
)
CURVES = ("run", "step", "tag", "value")
REPEAT = "repeat the run's command"
FACT_TEXTS = ("fact", "claim", "setting", "mark", "unit", "state", "paper")
FACT_NUMBERS = ("value", "low", "high")  # None if not measured
FACT_STATES = ("holds", "does not hold", "reported", "not run")


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
    values: list[tuple[str, int, str, float]] = []
    for folder in _seed_folders(root):
        if any(not name.startswith(".") for name in os.listdir(folder)):  # else: nothing begun
            row, lines = _read_run(folder)
            rows.append(row)
            values += lines
    _check_groups(rows)
    rows += _planned(root, rows)
    if not rows and not may_be_empty:
        raise UserError(
            f"there are no runs under {root}; pass the folder given to --out of 'cucb train',"
            " 'cucb solve' or 'cucb sweep'"
        )
    finished = {row["run"] for row in rows if row["status"] == "finished"}
    curves = pd.DataFrame((value for value in values if value[0] in finished), columns=CURVES)
    runs = pd.DataFrame(
        rows, columns=list(dict.fromkeys([*COLUMNS, *(k for r in rows for k in r)]))
    )
    return Loaded(root, runs, curves)


def identity(spec: Mapping[str, Any]) -> str:
    """The hash of everything but the seed; runs that share it are repetitions."""
    content = {key: spec[key] for key in ("suite", "agent", "task", "config")}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings, with the keys joined by dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def read_facts(root: Path, given: Path | None = None) -> dict[str, Any] | None:
    """The content of facts.json, with a DataFrame under "facts"; None if the folder has no file.

    given  a file to read instead of that of the folder
    """
    file = given or root / "facts.json"
    if given is None and not file.exists():
        return None
    remedy = f"run 'cucb verify --out {file.parent}' again or remove the file"
    content = _read_object(file, remedy)
    if not isinstance(content.get("facts"), list):
        raise UserError(f"{file} is damaged (no list 'facts'); {remedy}")
    for number, fact in enumerate(content["facts"], 1):
        if problem := _fact_problem(fact):
            raise UserError(f"{file} is damaged (fact {number} {problem}); {remedy}")
    return {**content, "facts": pd.DataFrame(content["facts"]), "file": file}


def _fact_problem(fact: Any) -> str:
    if not isinstance(fact, Mapping):
        return "is no JSON object"
    for key in (*FACT_TEXTS, *FACT_NUMBERS, "required", "seconds"):
        value = fact.get(key)
        if key in FACT_TEXTS:
            valid = isinstance(value, str) and (key != "state" or value in FACT_STATES)
        elif key == "required":
            valid = isinstance(value, bool)
        else:
            valid = _is_number(value) or (value is None and key in FACT_NUMBERS and key in fact)
        if not valid:
            return f"has the {key} {value!r}" if key in fact else f"has no {key!r}"
    return ""


def _seed_folders(root: Path) -> list[Path]:
    """All folders seed_<n> below `root`, or `root` itself; names with a leading dot are drafts."""
    folders = []
    for path, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        if Path(path).name.startswith("seed_"):
            folders.append(Path(path))
            names.clear()
    return folders


def _read_run(folder: Path) -> tuple[dict[str, Any], list[tuple[str, int, str, float]]]:
    """The row of a run, and its curves if it is finished."""
    run = str(folder)
    *above, suite, agent, group, seed = ("", "", "", *folder.parts)
    task, _, digest = group.rpartition("-")
    row: dict[str, Any] = {
        **dict.fromkeys(COLUMNS),
        "config": {},
        "status": "damaged",
    }
    row |= {"run": run, "group": str(folder.parent), "root": str(Path(*above)), "suite": suite}
    number = seed.removeprefix("seed_")
    row |= {"agent": agent, "task": task, "hash": digest}
    row["seed"] = int(number) if number.isdecimal() else -1
    try:
        spec = _read_spec(folder)
        row |= {key: spec[key] for key in ("suite", "agent", "task", "seed", "config")}
        row |= {"inputs": spec.get("inputs"), "status": "unfinished", "identity": identity(spec)}
        done = folder / "DONE"
        if not done.exists():
            for name in ("metrics.jsonl", "eval.jsonl"):
                _read_lines(folder / name, torn_end=True)
            return row, []
        summary = dict(flatten(_read_object(done, f"remove {done} and {REPEAT}")))
        _check_summary(summary, done)
        curves = _read_curves(folder)
    except UserError as error:
        return row | {"status": "damaged", "problem": str(error)}, []
    entries = {key: value for key, value in summary.items() if key not in row and value is not None}
    row |= {"status": "finished", "versions": _read_versions(folder)}
    return row | entries | {"solvable": "solved_at" in summary}, curves


def _read_spec(folder: Path) -> dict[str, Any]:
    file = folder / "spec.json"
    if not file.exists() and (folder / "FAILED").exists():
        try:
            error = json.loads((folder / "FAILED").read_text(encoding="utf-8"))["error"]
        except (OSError, ValueError, KeyError, TypeError):
            error = f"{folder / 'FAILED'} cannot be read"
        raise UserError(f"{folder} failed before it began ({error}); {REPEAT}")
    remedy = f"remove it and {REPEAT}"
    spec = _read_object(file, remedy)
    for key, kind in (
        ("suite", str),
        ("agent", str),
        ("task", str),
        ("seed", int),
        ("config", dict),
    ):
        if key not in spec:
            raise UserError(f"{file} is damaged ({key!r} is missing); {remedy}")
        if type(spec[key]) is not kind:
            raise UserError(f"{file} is damaged ({key} is {spec[key]!r}); {remedy}")
    place = Path(spec["suite"], spec["agent"], folder.parent.name, f"seed_{spec['seed']}")
    if folder.parts[-4:] != place.parts or not folder.parent.name.startswith(spec["task"]):
        raise UserError(
            f"{file} describes the run {spec['suite']}/{spec['agent']}/{spec['task']}-"
            f"{identity(spec)}/seed_{spec['seed']}; move the folder there"
        )
    return spec


def _check_summary(summary: Mapping[str, Any], done: Path) -> None:
    for key in CHECKED:
        value = summary.get(key)
        if value is not None and not _is_number(value):
            raise UserError(
                f"{done} is damaged ({key} is {value!r}, not a finite number);"
                f" remove it and {REPEAT}"
            )
    if all(summary.get(key) is None for key in SCORES):
        raise UserError(f"{done} has no score ({', '.join(SCORES)}); remove it and {REPEAT}")


def _read_curves(folder: Path) -> list[tuple[str, int, str, float]]:
    run = str(folder)
    curves = [
        (run, line["step"], tag, value)
        for line in _read_lines(folder / "metrics.jsonl", required=True)
        for tag, value in line.items()
        if tag != "step"
    ]
    return curves + [
        (run, line["step"], f"eval/{tag}", line[tag])
        for line in _read_lines(folder / "eval.jsonl")
        for tag in ("mean", "median")
        if tag in line
    ]


def _read_lines(file: Path, torn_end: bool = False, required: bool = False) -> list[dict[str, Any]]:
    """The lines of a .jsonl file; the last line of a running process may be incomplete."""
    if not file.exists() and not required:
        return []
    # Checkpoints store the length of the file, so a run cannot continue without it.
    remedy = f"repair it, or move {file.parent} elsewhere and {REPEAT}"
    *whole, rest = _read_text(file, remedy).split("\n")
    if rest and not torn_end:
        whole.append(rest)
    lines, step = [], -1
    for number, text in enumerate(whole, start=1):
        where = f"{file} line {number}"
        try:
            line = json.loads(text)
        except ValueError as error:
            raise UserError(f"{where} is damaged (not valid JSON); {remedy}") from error
        if not isinstance(line, dict) or type(line.get("step")) is not int:
            raise UserError(f"{where} is damaged (no JSON object with a whole 'step'); {remedy}")
        for tag, value in line.items():
            if file.name == "metrics.jsonl" and not _is_number(value):
                raise UserError(
                    f"{where} is damaged ({tag} is {value!r}, not a finite number); {remedy}"
                )
        if line["step"] < step:
            raise UserError(f"{where} is damaged (step {line['step']} after {step}); {remedy}")
        step = line["step"]
        lines.append(line)
    return lines


def _read_versions(folder: Path) -> str | None:
    try:
        versions = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
        return ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
    except (OSError, ValueError, TypeError):
        return None


def _check_groups(rows: list[dict[str, Any]]) -> None:
    """Mark copies of a run, and runs whose score is of another kind than that of their group."""
    seen: dict[tuple[str, int], str] = {}
    kinds: dict[str, str] = {}
    for row in rows:
        if row["status"] == "damaged":
            continue
        key = (row["identity"], row["seed"])
        if key in seen:
            problem = f"{row['run']} is a copy of {seen[key]}; remove one of them"
            row |= {"status": "damaged", "problem": problem}
        seen.setdefault(key, row["run"])
        if row["status"] != "finished":
            continue
        own = next(name for name in SCORES if name in row)
        kind = kinds.setdefault(row["identity"], own)
        if kind not in row:
            done = Path(row["run"]) / "DONE"
            row |= {
                "status": "damaged",
                "problem": f"{done} has no {kind}; remove it and {REPEAT}",
            }


def _planned(root: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows for planned runs without a folder; begun runs get the label and command of the plan."""
    begun = {(row.get("identity"), row["seed"]): row for row in rows}
    groups = {row.get("identity"): row for row in rows}
    planned: list[dict[str, Any]] = []
    for file in sorted(root.rglob("sweeps/*.json")):
        remedy = "remove it, the next sweep writes it again"
        content = _read_object(file, remedy)
        for group in content.get("groups", []):
            try:
                spec, key = dict(group["spec"]), identity(group["spec"])
                shared = {"label": group["label"], "words": tuple(group["words"])}
                shared["command"] = content.get("command")
                seeds = list(group["seeds"])
            except (KeyError, TypeError) as error:
                raise UserError(f"{file} is damaged ({error!r}); {remedy}") from error
            shared["eval_episodes"] = group.get("eval_episodes")
            for row in rows:
                if row.get("identity") == key and row["label"] is None:
                    row |= shared
            place = file.parent.parent
            folder = place / group.get(
                "folder", f"{spec['suite']}/{spec['agent']}/{spec['task']}-{key}"
            )
            for seed in seeds:
                if (key, seed) in begun:
                    continue
                row = dict.fromkeys(COLUMNS) | {
                    name: spec[name] for name in spec if name in COLUMNS
                }
                row |= {"seed": seed, "hash": key, "identity": key, "status": "planned", **shared}
                row |= {
                    "root": str(place),
                    "group": str(folder),
                    "run": str(folder / f"seed_{seed}"),
                }
                if key in groups:
                    row |= {name: groups[key][name] for name in ("group", "hash", "root")}
                begun[key, seed] = row
                planned.append(row)
    return planned


def _read_object(file: Path, remedy: str) -> dict[str, Any]:
    try:
        content = json.loads(_read_text(file, remedy))
    except ValueError as error:
        raise UserError(f"{file} is damaged (not valid JSON); {remedy}") from error
    if not isinstance(content, dict):
        raise UserError(f"{file} is damaged (no JSON object); {remedy}")
    return content


def _read_text(file: Path, remedy: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}); {remedy}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is damaged (not UTF-8 text); {remedy}") from error


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
