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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.checkpoint import STATE, latest_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import SWEEPS, Job, PlannedRun, remembered
from contrastive_ucb.runs.spec import LENGTHS, command_words, commands
from contrastive_ucb.runs.store import failure_of, is_busy, read_done, read_spec

STATES = ("finished", "running", "waiting", "failed")
TAIL = 1 << 16  # bytes read from the end of metrics.jsonl
REPEAT = "remove it and repeat the command"


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


class Watched(NamedTuple):
    """A run folder, which need not exist yet, and the state of a run that has not begun."""

    path: Path
    start: RunState


def watched_jobs(jobs: Iterable[Job], root: Path) -> list[Watched]:
    """The run folders of the jobs, sorted by name."""
    return _sorted(
        _watched(PlannedRun(spec, job.label, job.words()), folder, root, root)
        for job in jobs
        for spec, folder in zip(job.specs, job.folders(root), strict=True)
    )


def watched_folder(folder: Path) -> list[Watched]:
    """The runs at any depth below the folder, and those that its sweeps have not begun yet."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; pass the --out of a command")
    runs: dict[Path, Watched] = {}
    for name, folders, files in os.walk(folder):
        path = Path(name)
        if SWEEPS in folders:  # above the runs of these sweeps
            for planned in remembered(path):
                place = planned.spec.folder(path)
                runs[place] = _watched(planned, place, folder, path)
        begun = any(not name.startswith(".") for name in (*folders, *files))
        if "spec.json" in files or (path.name.startswith("seed_") and begun):
            if path not in runs:
                runs[path] = _found(path, folder)
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]
    return _sorted(runs.values())


def _watched(planned: PlannedRun, path: Path, base: Path, out: Path) -> Watched:
    """The run of this folder; its name is relative to `base`, and its command writes to `out`."""
    spec, words = planned.spec, planned.words
    kind = spec.kind or "solve"
    start = RunState(
        run=str(path.relative_to(base)),
        label=planned.label or spec.agent,
        task=spec.task,
        seed=spec.seed,
        steps=spec.config.get(LENGTHS[kind]),
        measure="gap" if kind == "solve" else "score",
        command=commands(words, [spec.seed], out)[0] if words else None,
    )
    return Watched(path, start)


def _found(path: Path, base: Path) -> Watched:
    """A run that belongs to no sweep; if its spec is damaged, the folder names are used."""
    try:
        spec = read_spec(path)
    except UserError as error:
        *_, agent, task, seed = ("", "", *path.parts)
        number = int(seed[5:]) if seed[5:].isdigit() else 0
        name = str(path.relative_to(base))
        return Watched(path, RunState(name, agent, task, number, "failed", error=str(error)))
    words: list[str] = []
    if spec.inputs is not None and spec.kind == spec.suite and len(path.parents) > 3:
        words = command_words(spec.kind, spec.inputs)
    out = path.parents[3] if words else base
    return _watched(PlannedRun(spec, "", words), path, base, out)


def _sorted(runs: Iterable[Watched]) -> list[Watched]:
    return sorted(runs, key=lambda run: (run.path.parent, run.start.seed))


def states_of(runs: Sequence[Watched]) -> list[RunState]:
    """The present state of each run, with an estimate of the seconds left."""
    states: list[RunState] = []
    seconds: dict[Path, list[float]] = {}  # group: seconds of its finished runs
    for path, start in runs:
        state, summary = _state_of(path, start)
        states.append(state)
        if summary:
            seconds.setdefault(path.parent, []).append(float(summary.get("seconds") or 0))
    return [
        replace(state, seconds_left=_seconds_left(run.path, state, seconds.get(run.path.parent)))
        for run, state in zip(runs, states, strict=True)
    ]


def _state_of(path: Path, start: RunState) -> tuple[RunState, Mapping[str, Any]]:
    """The state of a run, and the summary of a finished one."""
    if start.error:
        return start, {}
    finished = (path / "DONE").exists()
    try:
        if finished or (path / "spec.json").exists():
            spec = read_spec(path)
    except UserError as error:
        return replace(start, state="failed", error=str(error)), {}
    if finished:
        try:
            summary = read_done(path, spec)
            is_gap = start.measure == "gap"
            score = float(summary["final_gap"] if is_gap else summary["evaluation"]["mean"])
        except UserError as error:
            return replace(start, state="failed", error=str(error)), {}
        except (ValueError, KeyError, TypeError) as error:
            problem = f"{path / 'DONE'} is damaged ({error!r}); {REPEAT}"
            return replace(start, state="failed", error=problem), {}
        return replace(start, state="finished", step=start.steps or 0, score=score), summary
    name = "gap" if start.measure == "gap" else "charts/episodic_return"
    step, latest = 0, None
    for line in last_lines(path / "metrics.jsonl"):
        step = max(step, line["step"])
        if name in line:
            latest = float(line[name])
            break
    state = replace(start, step=step, latest=latest)
    if is_busy(path):
        return replace(state, state="running"), {}
    if failure := failure_of(path):
        return replace(state, state="failed", error=failure.error, log=failure.log), {}
    return state, {}


def last_lines(metrics: Path) -> Iterator[Mapping[str, Any]]:
    """The last complete lines of metrics.jsonl, newest first, without reading the whole file."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            *lines, _torn = file.read().split(b"\n")
    except OSError:
        return
    for line in reversed(lines):
        try:
            values = json.loads(line)
        except ValueError:  # the first line may be incomplete
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            yield values


def _seconds_left(path: Path, state: RunState, others: Sequence[float] | None) -> float | None:
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
