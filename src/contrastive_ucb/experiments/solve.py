"""One algorithm on one MDP or game for some seeds, with run folders: what `cucb solve` does.

All seeds that stand at the same round are played together; networks are trained for one seed after
another. A seed leaves the same bytes behind whether it ran alone, in a batch, or was killed and
resumed on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from contrastive_ucb.core.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import (
    Event,
    JsonlListener,
    Listener,
    PositionedListener,
    ProgressListener,
    TensorBoardListener,
)
from contrastive_ucb.core.runtime import interrupts, threads
from contrastive_ucb.experiments.problem import Problem
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.training.learn import progress_event
from contrastive_ucb.training.loop import Round, Session

__all__ = ["Problem", "overall", "solve"]

KEPT = 2  # checkpoints a run keeps: should the newest be damaged, the one before is there


def solve(
    problem: Problem,
    seeds: Sequence[int],
    root: Path,
    *,
    progress: bool = True,
    checkpoint_seconds: float = 30.0,
    say: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Run all seeds that are not finished, and return the summaries of all of them, in order."""
    folders = {seed: RunFolder(problem.spec(seed), root) for seed in seeds}
    waiting = [seed for seed in seeds if not folders[seed].finished]
    if done := len(seeds) - len(waiting):
        say(f"{done} of {len(seeds)} runs are finished already; their results are shown")
    if waiting:
        problem.agent(waiting[:1])  # what cannot be built is an error before any folder is made
    with ExitStack() as opened:
        opened.enter_context(threads(1))
        standing: dict[int, list[int]] = {}  # round -> seeds whose newest checkpoint is of it
        for seed in waiting:
            opened.enter_context(folders[seed])
            if folders[seed].finished:  # by another process, before the lock was ours
                continue
            standing.setdefault(_round_of(folders[seed]), []).append(seed)
        for start, together in sorted(standing.items()):
            if start:
                say(f"{len(together)} runs go on from round {start}")
            apart = [[seed] for seed in together]
            for group in apart if problem.is_observed else [together]:
                batch = [folders[seed] for seed in group]
                _Batch(problem, group, batch, checkpoint_seconds).run(start, progress)
    return [_summary(folders[seed]) for seed in seeds]


class _Batch:
    """Seeds that are played together, each with its own folder, events and checkpoints."""

    def __init__(self, problem: Problem, seeds: list[int], folders: list[RunFolder], every: float):
        self.problem, self.folders, self.every = problem, folders, every
        self.session = Session(problem.agent(seeds))
        self.metrics: list[PositionedListener] = [JsonlListener(f.metrics) for f in folders]
        self.seconds = 0.0  # that passed while these runs were played, over all invocations

    def run(self, start: int, progress: bool) -> None:
        self._resume(start)
        boards = [TensorBoardListener(folder.tensorboard, start + 1) for folder in self.folders]
        bar = _bar(self.problem, start) if progress else None
        began = saved = time.monotonic()
        before = self.seconds
        with ExitStack() as closing:
            listeners: list[Listener] = [*self.metrics, *boards]
            for listener in listeners + ([bar] if bar else []):
                closing.callback(listener.close)
            interrupted = closing.enter_context(interrupts())
            for played in self.session.rounds(self.problem.rounds):
                if played.on_grid:
                    self._write(played, boards)
                if bar is not None:
                    bar.on_event(progress_event(played.number, played.figures))
                now = time.monotonic()
                last = played.number == self.problem.rounds or self.session.is_over
                if last or interrupted.is_set() or now - saved >= self.every:
                    self.seconds = before + now - began
                    self._save(played.number)
                    saved = now
                if interrupted.is_set():
                    raise KeyboardInterrupt
        for at, folder in enumerate(self.folders):
            folder.finish({**self.session.summary(at), "seconds": round(self.seconds, 3)})

    def _resume(self, start: int) -> None:
        """Load the checkpoints of round `start`; events written after them are forgotten."""
        if not start:
            for listener in self.metrics:
                listener.load_state_dict(JsonlListener.START)
            return
        states = [load_checkpoint(folder.checkpoints / f"step_{start}") for folder in self.folders]
        self.session.load_states([state["session"] for state in states])
        self.seconds = max(state["seconds"] for state in states)
        for listener, state in zip(self.metrics, states, strict=True):
            listener.load_state_dict(state["metrics"])

    def _write(self, played: Round, boards: list[TensorBoardListener]) -> None:
        for at, (metrics, board) in enumerate(zip(self.metrics, boards, strict=True)):
            values = {name: float(column[at]) for name, column in played.figures.items()}
            event = Event(played.number, values)
            metrics.on_event(event)
            board.on_event(event)

    def _save(self, number: int) -> None:
        for at, (folder, metrics) in enumerate(zip(self.folders, self.metrics, strict=True)):
            state = {
                "session": self.session.state_of(at),
                "metrics": metrics.state_dict(),
                "seconds": self.seconds,
            }
            save_checkpoint(folder.checkpoints, number, state)
            prune_checkpoints(folder.checkpoints, KEPT)


def _summary(folder: RunFolder) -> dict[str, Any]:
    summary = folder.summary()
    if missing := {"algo", "env", "seed", "rounds", "final_gap", "seconds"} - summary.keys():
        raise UserError(
            f"{folder.path / 'DONE'} has no {min(missing)!r}; remove it and repeat the command"
        )
    return {**summary, "run_dir": str(folder.path)}


def _round_of(folder: RunFolder) -> int:
    """The round of the newest checkpoint, 0 where there is none."""
    newest = latest_checkpoint(folder.checkpoints)
    return 0 if newest is None else int(newest.name.removeprefix("step_"))


def _bar(problem: Problem, start: int) -> ProgressListener:
    return ProgressListener(problem.rounds, f"{problem.algo} on {problem.env}", start=start)


def overall(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One summary for several seeds: means of the numbers, and how many solved it."""
    first = summaries[0]
    if len(summaries) == 1:
        return dict(first)
    total: dict[str, Any] = {}
    for name, value in first.items():
        column = [summary[name] for summary in summaries]
        if name == "solved_at":
            solved = [at for at in column if at is not None]
            total["solved_at"] = sum(solved) / len(solved) if solved else None
            total["solved"] = len(solved)
        elif name.startswith("max_"):
            total[name] = max(column)
        elif isinstance(value, (int, float)) and name != "seed":
            total[name] = value if len(set(column)) == 1 else sum(column) / len(column)
        elif isinstance(value, dict):  # counts by name
            total[name] = {key: sum(one[key] for one in column) for key in value}
        elif name == "run_dir":
            total[name] = str(Path(value).parent)
        elif len(set(column)) == 1:
            total[name] = value
    total["seed"] = first["seed"]
    total["seeds"] = [summary["seed"] for summary in summaries]
    return {**total, "runs": [dict(summary) for summary in summaries]}
