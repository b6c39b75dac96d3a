"""Run folders as data: one record a run, one group an agent and task, nothing drawn yet.

A run that has no DONE is kept and marked, but no number is taken from it: half a run is no run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.progress import failure_of
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.store import RunFolder

FIELDS = ("suite", "agent", "task", "seed", "config")
AGAIN = "repeat the run's command"


class Damage(NamedTuple):
    """A run that cannot be read, with one line on why, and on what to do about it."""

    path: Path
    problem: str


@dataclass(frozen=True)
class RunRecord:
    """One run: what it was, what it measured, and its summary if it is finished."""

    path: Path
    spec: RunSpec
    lines: tuple[Mapping[str, float], ...]  # each has "step"; steps never fall
    summary: Mapping[str, Any] | None
    begun: bool = True  # False: it is planned, and there is no folder yet

    @property
    def seed(self) -> int:
        return self.spec.seed

    @property
    def finished(self) -> bool:
        return self.summary is not None

    def number(self, name: str) -> float | None:
        """A number of the summary, such as "seconds" or "evaluation.mean".

        None where the run has none (or is not finished).
        """
        value: Any = self.summary
        for key in name.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            return None
        if not is_number(value):
            done = self.path / "DONE"
            raise UserError(
                f"{done} is damaged ({name} is {value!r}, not a finite number);"
                f" remove it and {AGAIN}"
            )
        return float(value)


@dataclass(frozen=True)
class Group:
    """The runs of one agent on one task with equal settings; they differ in the seed only."""

    agent: str
    task: str
    runs: tuple[RunRecord, ...]  # by seed

    @property
    def folder(self) -> Path:
        """<root>/<suite>/<agent>/<task>-<hash8>"""
        return self.runs[0].path.parent

    @property
    def begun(self) -> bool:
        return any(run.begun for run in self.runs)

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        return tuple(run for run in self.runs if run.finished)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that are finished."""
        return tuple(run.seed for run in self.finished)

    def series(self, name: str) -> tuple[IntArray, Array]:
        """What the finished runs measured under `name`, at the steps where all of them did.

        Of several lines of one step, as in SimPLe's learning phases, the last one counts.

        returns steps (n,) and values (n_seeds, n), a row for each of `seeds`
        """
        measured = [
            {int(line["step"]): line[name] for line in run.lines if name in line}
            for run in self.finished
        ]
        every = {step for row in measured for step in row}
        steps = sorted(step for step in every if all(step in row for row in measured))
        values = [[row[step] for step in steps] for row in measured]
        shape = (len(measured), len(steps))
        return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64).reshape(shape)


def read_groups(root: Path, suite: str = "*", damaged: list[Damage] | None = None) -> list[Group]:
    """All groups under `root`, by task, then agent (see `agent_order`), then folder.

    damaged  takes what cannot be read, which is then no run, or one that is not finished; without
             it that is an error
    """
    if not root.is_dir():
        raise UserError(f"there is no run folder {root}; pass the folder given to --out")
    groups = []
    for folder in _visible(root, f"{suite}/*/*"):
        records = [_read_run(path, root, damaged) for path in _visible(folder, "seed_*")]
        runs = sorted((run for run in records if run is not None), key=lambda run: run.seed)
        if runs:
            spec = runs[0].spec
            groups.append(Group(spec.agent, spec.task, tuple(runs)))
    return sorted(groups, key=lambda group: (group.task, *agent_order(group.agent), group.folder))


def agent_order(agent: str) -> tuple[int, str]:
    """Sorts agents as the package lists them, in games, on MDPs and deep; others follow by name."""
    games = [name for name in GAME_PRESETS if name not in PRESETS]
    known = [*games, *PRESETS, *ALGORITHMS]
    return known.index(agent) if agent in known else len(known), agent


def missing_seeds(group: Group, peers: list[Group]) -> list[int]:
    """Seeds that this group or one of its peers has begun and this group has not finished."""
    begun = {run.seed for peer in [group, *peers] for run in peer.runs}
    return sorted(begun - set(group.seeds))


def read_text(file: Path, way_out: str) -> str:
    """The text of a file; an error says what to do about one that has none."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}); {way_out}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is damaged (not UTF-8 text); {way_out}") from error


def is_number(value: object) -> bool:
    """Whether a value of a JSON file is a finite number (true and false are none)."""
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _visible(folder: Path, pattern: str) -> list[Path]:
    """Folders below `folder`; a leading dot means a draft."""
    return [
        path
        for path in sorted(folder.glob(pattern))
        if path.is_dir() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]


def _read_run(path: Path, root: Path, damaged: list[Damage] | None) -> RunRecord | None:
    """The run in the folder; None if a process was stopped before it wrote anything."""
    if not any(not item.name.startswith(".") for item in path.iterdir()):
        return None
    record = None
    try:
        record = RunRecord(path, _read_spec(path / "spec.json", root), (), None)
        return _with_content(record, root)
    except UserError as error:
        if damaged is None:
            raise
        damaged.append(Damage(path, str(error)))
    return record


def _with_content(record: RunRecord, root: Path) -> RunRecord:
    """The run with what it has measured and, if it is finished, its summary."""
    folder = RunFolder(record.spec, root)
    summary = folder.summary() if folder.finished else None
    if summary is None and not folder.metrics.exists():
        return record
    lines = tuple(_read_lines(folder.metrics, torn_end=summary is None))
    return replace(record, lines=lines, summary=summary)


def _read_spec(file: Path, root: Path) -> RunSpec:
    if not file.exists() and (failure := failure_of(file.parent)):
        raise UserError(f"{file.parent} failed before it began ({failure.error}); {AGAIN}")
    way_out = f"remove it and {AGAIN}"
    try:
        content = json.loads(read_text(file, way_out))
        spec = RunSpec(**{name: content[name] for name in FIELDS})
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"{file} is damaged ({error} is missing); {way_out}") from error
    except (ValueError, TypeError) as error:
        raise UserError(f"{file} is damaged ({error}); {way_out}") from error
    if spec.folder(root) != file.parent:
        raise UserError(f"{file} describes the run {spec.folder(root)}; move the folder there")
    return spec


def _read_lines(file: Path, torn_end: bool) -> Iterator[Mapping[str, float]]:
    """The lines of metrics.jsonl; a run in progress may have a last line without its end."""
    # Checkpoints know how long the file was: a run cannot go on without it.
    way_out = f"put it right, or move {file.parent} elsewhere and {AGAIN}"
    *whole, rest = read_text(file, way_out).split("\n")
    if rest and not torn_end:
        whole.append(rest)
    step = -1.0
    for number, text in enumerate(whole, start=1):
        where = f"{file} line {number}"
        line = _read_line(text, where, way_out)
        if line["step"] < step:
            raise UserError(f"{where} is damaged (step {line['step']:g} after {step:g}); {way_out}")
        step = line["step"]
        yield line


def _read_line(text: str, where: str, way_out: str) -> dict[str, float]:
    try:
        line = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where} is damaged (not valid JSON); {way_out}") from error
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        raise UserError(f"{where} is damaged (no JSON object with a whole 'step'); {way_out}")
    for name, value in line.items():
        if not is_number(value):
            raise UserError(
                f"{where} is damaged ({name} is {value!r}, not a finite number); {way_out}"
            )
    return line
