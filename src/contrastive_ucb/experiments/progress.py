"""What state the runs of a grid or a folder are in, read from the run folders alone.

waiting    not begun, or begun and stopped: a sweep would go on with it
running    a process works on it
finished   it has its DONE
failed     the last try left FAILED, or a file of the folder is damaged
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.checkpoint import STATE, latest_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.plan import SWEEPS, remembered
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.worker import LOG, MARK

STATES = ("finished", "running", "waiting", "failed")
TAIL = 1 << 16  # bytes of metrics.jsonl that are looked at, from its end


@dataclass(frozen=True)
class RunState:
    """One run; numbers that are not known are None."""

    run: str  # its folder below the root
    label: str  # the agent, or the name of its variant
    task: str
    seed: int
    state: str = "waiting"
    step: int = 0
    steps: int | None = None
    score: float | None = None  # of a finished run: mean of the evaluation, or the last gap
    latest: float | None = None  # of the others: the last return, or gap, that was written down
    measure: str = "score"  # "score" (more is better) or "gap" (less is)
    seconds_left: float | None = None
    error: str | None = None
    log: str | None = None
    command: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Failure(NamedTuple):
    """What FAILED says."""

    error: str
    log: str | None


class Watched(NamedTuple):
    """A run folder, which need not be there yet, and what is known of it beforehand."""

    path: Path
    start: RunState


def watched_jobs(jobs: Iterable[Job], root: Path) -> list[Watched]:
    """The run folders of the jobs, by their names."""
    return _sorted(_watched(job.spec(), root, job.label, job.command(root)) for job in jobs)


def watched_folder(folder: Path) -> list[Watched]:
    """The runs that are in the folder, and those that its sweeps have not begun yet."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; pass what was the --out of a sweep")
    runs, roots = _runs_and_roots(folder)
    known: dict[Path, Watched] = {}
    for root in roots:
        for group in remembered(root):
            for spec in group.specs():
                run = _watched(spec, root, group.label, group.command(spec.seed, root))
                known[run.path] = _below(folder, run)
    for path in runs:
        if path not in known:
            known[path] = _found(path, folder)
    return _sorted(known.values())


def states_of(runs: Sequence[Watched]) -> list[RunState]:
    """The state of each run now; of those not finished also the seconds left, as far as known."""
    states = [_state_of(run) for run in runs]
    whole: dict[Path, list[float]] = {}  # group: seconds of its finished runs
    for run, state in zip(runs, states, strict=True):
        if state.state == "finished":
            whole.setdefault(run.path.parent, []).append(_seconds_of(run.path))
    return [
        replace(state, seconds_left=_seconds_left(run.path, state, whole.get(run.path.parent, [])))
        for run, state in zip(runs, states, strict=True)
    ]


def is_busy(folder: Path) -> bool:
    """Whether a process works in the run folder now."""
    try:
        with (folder / ".lock").open() as lock:
            # Shared, and for a moment only: those who look are in nobody's way.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no folder yet, or none that can be looked at
        return False
    return False


def failure_of(folder: Path) -> Failure | None:
    """What the last try left behind, if it failed."""
    try:
        note = json.loads((folder / MARK).read_text(encoding="utf-8"))
        error, log = str(note["error"]), folder / (Path(note["log"]).name or LOG)
        # The log stands beside the note, wherever the folder was when it was written.
        return Failure(error, str(log) if log.is_file() else None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return Failure(f"{folder / MARK} cannot be read", None)


def last_lines(metrics: Path) -> Iterator[Mapping[str, Any]]:
    """The last whole lines of metrics.jsonl, newest first; the rest of the file is not read."""
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
        except ValueError:  # the first line of the tail may lack its beginning
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
    """A run that no sweep speaks of; should its spec be damaged, its folder says what it was."""
    try:
        content = json.loads((path / "spec.json").read_text(encoding="utf-8"))
        spec = RunSpec(**content)
    except (OSError, ValueError, TypeError) as error:
        name = str(path.relative_to(root))
        seed = path.name.removeprefix("seed_")
        problem = f"{path / 'spec.json'} is damaged ({error}); remove it and repeat its command"
        start = RunState(
            name, path.parent.parent.name, path.parent.name, int(seed) if seed.isdigit() else 0
        )
        return Watched(path, replace(start, state="failed", error=" ".join(problem.split())))
    return _below(root, Watched(path, _watched(spec, root, "", None).start))


def _below(folder: Path, run: Watched) -> Watched:
    """The run under the name that it has below the folder."""
    return Watched(run.path, replace(run.start, run=str(run.path.relative_to(folder))))


def _runs_and_roots(folder: Path) -> tuple[list[Path], list[Path]]:
    """Every folder with a spec.json, below which nothing is looked at, and those with sweeps."""
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
        problem = f"{path / 'DONE'} lacks its score; remove it and repeat the command"
        return replace(start, state="failed", error=problem)
    except UserError as error:
        return replace(start, state="failed", error=str(error))
    return replace(start, state="finished", step=start.steps or 0, score=float(score))


def _summary(path: Path) -> dict[str, Any]:
    """The summary in DONE; one that is damaged is an error that says what to do."""
    done = path / "DONE"
    try:
        content = json.loads(done.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{done} is damaged (not valid JSON); remove it and run again to finish it anew"
        ) from error
    return content if isinstance(content, dict) else {}


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
    """By its own speed up to the newest checkpoint, or by how long its peers took."""
    if state.state not in ("running", "waiting") or not state.steps:
        return None
    left = max(state.steps - state.step, 0)
    if newest := latest_checkpoint(path / "checkpoints"):
        step = int(newest.name.removeprefix("step_"))
        try:
            seconds = json.loads((newest / STATE).read_text(encoding="utf-8"))["state"]["seconds"]
            return round(left * float(seconds) / step, 1) if step else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it was pruned meanwhile
    return round(left / state.steps * sum(others) / len(others), 1) if others else None
