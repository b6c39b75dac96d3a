"""The states of the runs of a grid or a folder, read from the run folders alone.

waiting    not begun, or begun and stopped: a sweep would continue it
running    a process works on it
finished   it has a DONE file
failed     the last attempt left a FAILED file, or a file of the folder is damaged
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.checkpoint import STATE, latest_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import SWEEPS, Job, remembered
from contrastive_ucb.runs.spec import RunSpec, command_words, commands
from contrastive_ucb.runs.store import failure_of, is_busy, read_object

STATES = ("finished", "running", "waiting", "failed")
TAIL = 1 << 16  # bytes read from the end of metrics.jsonl


@dataclass(frozen=True)
class RunState:
    """The state of one run; unknown numbers are None."""

    run: str  # its folder, relative to the root
    label: str  # the agent or the name of its variant
    task: str
    seed: int
    state: str = "waiting"
    step: int = 0
    steps: int | None = None
    score: float | None = None  # of a finished run: mean of the evaluations, or the last gap
    latest: float | None = None  # of other runs: the last return or gap in the metrics
    measure: str = "score"  # "score" (higher is better) or "gap" (lower is better)
    seconds_left: float | None = None
    error: str | None = None
    log: str | None = None
    command: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Watched(NamedTuple):
    """A run folder, which need not exist yet, and the state of a run that has not begun."""

    path: Path
    start: RunState


def watched_jobs(jobs: Iterable[Job], root: Path) -> list[Watched]:
    """The run folders of the jobs, sorted by name."""
    return _sorted(
        _watched(spec, root, job.label, commands(job.words(), [spec.seed], root)[0])
        for job in jobs
        for spec in job.specs()
    )


def watched_folder(folder: Path) -> list[Watched]:
    """The runs at any depth below the folder, and those that its sweeps have not begun yet."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; pass the --out of a command")
    runs, roots = _runs_and_roots(folder)
    known: dict[Path, Watched] = {}
    for root in roots:
        for spec, label, words, _ in remembered(root):
            run = _watched(spec, root, label, commands(words, [spec.seed], root)[0])
            known[run.path] = _below(folder, run)
    for path in runs:
        if path not in known:
            known[path] = _found(path, folder)
    return _sorted(known.values())


def states_of(runs: Sequence[Watched]) -> list[RunState]:
    """The present state of each run, with an estimate of the seconds left."""
    states = [_state_of(run) for run in runs]
    whole: dict[Path, list[float]] = {}  # group: seconds of its finished runs
    for run, state in zip(runs, states, strict=True):
        if state.state == "finished":
            whole.setdefault(run.path.parent, []).append(_seconds_of(run.path))
    return [
        replace(state, seconds_left=_seconds_left(run.path, state, whole.get(run.path.parent, [])))
        for run, state in zip(runs, states, strict=True)
    ]


def last_lines(metrics: Path) -> Iterator[Mapping[str, Any]]:
    """The last complete lines of metrics.jsonl, newest first, without reading the whole file."""
    try:
        with metrics.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            text = file.read()
    except OSError:
        return
    *lines, _torn = text.split(b"\n")
    for line in reversed(lines):
        try:
            values = json.loads(line)
        except ValueError:  # the first line may be incomplete
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            yield values


def _watched(spec: RunSpec, root: Path, label: str, command: str | None) -> Watched:
    path = spec.folder(root)
    steps = spec.config.get("steps", spec.config.get("rounds"))
    start = RunState(
        run=str(path.relative_to(root)),
        label=label or spec.agent,
        task=spec.task,
        seed=spec.seed,
        steps=steps if isinstance(steps, int) else None,
        measure="score" if "steps" in spec.config else "gap",
        command=command,
    )
    return Watched(path, start)


def _found(path: Path, root: Path) -> Watched:
    """A run that belongs to no sweep; if its spec is damaged, the folder names are used."""
    try:
        content = json.loads((path / "spec.json").read_text(encoding="utf-8"))
        spec = RunSpec(**content)
    except (OSError, ValueError, TypeError) as error:
        name = str(path.relative_to(root))
        seed = path.name.removeprefix("seed_")
        problem = f"{path / 'spec.json'} is damaged ({error}); remove it and repeat the command"
        start = RunState(
            name, path.parent.parent.name, path.parent.name, int(seed) if seed.isdigit() else 0
        )
        return Watched(path, replace(start, state="failed", error=" ".join(problem.split())))
    command = None
    if spec.inputs is not None and spec.kind == spec.suite and len(path.parents) > 3:
        command = commands(command_words(spec.kind, spec.inputs), [spec.seed], path.parents[3])[0]
    return _below(root, Watched(path, _watched(spec, root, "", command).start))


def _below(folder: Path, run: Watched) -> Watched:
    """The run with its path relative to the folder."""
    return Watched(run.path, replace(run.start, run=str(run.path.relative_to(folder))))


def _runs_and_roots(folder: Path) -> tuple[list[Path], list[Path]]:
    """Every folder with a spec.json, and every folder with stored sweeps."""
    runs, roots = [], []
    for path, folders, files in os.walk(folder):
        if "spec.json" in files:
            folders.clear()
            runs.append(Path(path))
        if SWEEPS in folders:
            roots.append(Path(path))
        folders[:] = [name for name in folders if not name.startswith(".")]
    return runs, roots


def _sorted(runs: Iterable[Watched]) -> list[Watched]:
    return sorted(runs, key=lambda run: (run.path.parent, run.start.seed))


def _state_of(run: Watched) -> RunState:
    path, start = run
    if start.error:
        return start
    if (path / "DONE").exists():
        return _finished(path, start)
    step, latest = _latest(path / "metrics.jsonl", start.measure)
    start = replace(start, step=step, latest=latest)
    if is_busy(path):
        return replace(start, state="running")
    if failure := failure_of(path):
        return replace(start, state="failed", error=failure.error, log=failure.log)
    return start


def _finished(path: Path, start: RunState) -> RunState:
    try:
        summary = _summary(path)
        score = summary["evaluation"]["mean"] if start.measure == "score" else summary["final_gap"]
    except (KeyError, TypeError):
        problem = f"{path / 'DONE'} has no score; remove it and repeat the command"
        return replace(start, state="failed", error=problem)
    except UserError as error:
        return replace(start, state="failed", error=str(error))
    return replace(start, state="finished", step=start.steps or 0, score=float(score))


def _summary(path: Path) -> dict[str, Any]:
    """The summary in DONE."""
    return read_object(path / "DONE", "remove it and repeat the command")


def _latest(metrics: Path, measure: str) -> tuple[int, float | None]:
    """The last step in the file, and the last return or gap up to it."""
    name = "charts/episodic_return" if measure == "score" else "gap"
    step = 0
    for line in last_lines(metrics):
        step = max(step, line["step"])
        if name in line:
            return step, float(line[name])
    return step, None


def _seconds_of(path: Path) -> float:
    seconds = _summary(path).get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


def _seconds_left(path: Path, state: RunState, others: Sequence[float]) -> float | None:
    """Estimated from its own speed up to the newest checkpoint, or from runs of its group."""
    if state.state not in ("running", "waiting") or not state.steps:
        return None
    left = max(state.steps - state.step, 0)
    if newest := latest_checkpoint(path / "checkpoints"):
        step = int(newest.name.removeprefix("step_"))
        try:
            seconds = json.loads((newest / STATE).read_text(encoding="utf-8"))["state"]["seconds"]
            return round(left * float(seconds) / step, 1) if step else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it was removed meanwhile
    return round(left / state.steps * sum(others) / len(others), 1) if others else None
