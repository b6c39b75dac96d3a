"""The run loop of all agents, and runs in run folders (`cucb solve` and `cucb train`).

`Session.rounds` and `DeepTrainer.run` are generators of events. `follow` passes the events to
observers (log files, progress bar, callback) and saves checkpoints. A run that was killed and
resumed writes the same bytes as an undisturbed one.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from contrastive_ucb.core.checkpoint import (
    finished_steps,
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import EnvironmentFault, UserError
from contrastive_ucb.core.events import JsonlListener, ProgressListener, TensorBoardListener
from contrastive_ucb.core.files import write_errors
from contrastive_ucb.core.runtime import interrupts, threads
from contrastive_ucb.runs.store import KEPT, LOG, METRICS, RunFolder, checkpoint_errors

if TYPE_CHECKING:
    from contrastive_ucb.runs.problem import Problem
    from contrastive_ucb.runs.session import Session
    from contrastive_ucb.runs.training import DeepSession, Training

SHARE = 0.05  # largest fraction of the time that saving may take
Say = Callable[[str], None]
# Of an event with `step` and `values`, which is an `Event` or a `Round`; False stops the run
Observer = Callable[[Any], object]


def follow(
    events: Iterable[Any],
    observers: Sequence[Observer],
    save: Callable[[], None] | None = None,
    every: float = math.inf,
    bar: ProgressListener | None = None,
) -> bool:
    """Run to the end of `events`; returns whether an observer stopped the run.

    save   called every `every` seconds (less often if saving takes long), on a signal and on a stop
    bar    observes too, and is closed at the end

    A signal stops the run after the present step and raises `Stopped`; it can be continued.
    """
    for observer in observers:
        if not callable(observer):
            raise UserError(f"callback must be a function of an event, got {observer!r}")
    saved, pause, stopped = time.monotonic(), every, False
    with interrupts() as interrupted, ExitStack() as closing:
        if bar is not None:
            closing.callback(bar.close)
        for event in events:
            stopped = False in [observe(event) for observe in observers]
            if bar is not None:
                with suppress(OSError):  # the terminal may be gone
                    bar.on_event(event)
            if stopped or interrupted.is_set():
                break
            now = time.monotonic()
            if save is not None and now - saved >= pause:
                save()
                saved = time.monotonic()
                pause = every and max(every, (saved - now) / SHARE)
        if save is not None and (stopped or interrupted.is_set()):
            save()
    return stopped


def run_in_folders(
    session: Session | DeepSession,
    events: Iterable[Any],
    folders: Sequence[RunFolder],
    every: float,
    progress: bool,
    say: Say,
    observers: Sequence[Observer] = (),
) -> bool:
    """Continue from the newest checkpoints, which are of one step; returns whether it was stopped.

    Writes the metrics, checkpoints and summary of each seed into its folder.
    """
    inputs = folders[0].spec.inputs or {}
    title = f"{inputs['algo']} on {inputs['env']}"
    newest = [path for folder in folders if (path := latest_checkpoint(folder.checkpoints))]
    states = [
        load_checkpoint(path, folder.owner) for path, folder in zip(newest, folders, strict=False)
    ]
    if states:
        with checkpoint_errors(newest[0]):
            # Checkpoints of earlier versions have the state of a finite agent under "session".
            session.load_states([state.get("session", state) for state in states])
    start, saved = session.step, session.position
    if start:
        say(f"{title} continues from step {start}")
    with ExitStack() as closing:
        logs, boards = [], []
        for at, folder in enumerate(folders):
            logs.append(JsonlListener(folder.metrics, states[at]["metrics"] if states else None))
            closing.callback(logs[-1].close)
            boards.append(TensorBoardListener(folder.tensorboard, start + 1))
            closing.callback(boards[-1].close)
        # Seconds of training, over all attempts
        seconds = max((state["seconds"] for state in states), default=0.0)
        began = time.monotonic() - seconds

        def write(event: Any) -> None:
            for log, board, one in zip(logs, boards, event.logged, strict=False):
                log.write(one.step, one.values)
                board.write(one.step, one.values)

        def save() -> None:
            nonlocal saved, seconds
            if session.position == saved:
                return
            seconds = time.monotonic() - began - session.idle
            for at, (folder, log) in enumerate(zip(folders, logs, strict=True)):
                with write_errors(folder.path):
                    state = {**session.state_of(at), "metrics": log.sync(), "seconds": seconds}
                    save_checkpoint(folder.checkpoints, session.position, state, folder.owner)
                    prune_checkpoints(folder.checkpoints, KEPT)
            saved = session.position

        closing.enter_context(_saved_at_fault(session, folders, save))
        bar = ProgressListener(inputs["length"], title, start) if progress else None
        stopped = follow(events, [write, *observers], save, every, bar)
        if not stopped:
            save()
            for at, (folder, log) in enumerate(zip(folders, logs, strict=True)):
                summary = {**session.summary(at), "seconds": round(seconds, 3)}
                folder.finish(summary, {METRICS: log.sync(), **session.marks})
    return stopped


@contextmanager
def _saved_at_fault(
    session: Session | DeepSession, folders: Sequence[RunFolder], save: Callable[[], None]
) -> Iterator[None]:
    """Save the run if its environment fails, and write the traceback to the run's log."""
    try:
        yield
    except EnvironmentFault as fault:
        if session.is_complete:
            save()
        for folder in folders:
            with (folder.path / LOG).open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
        steps = finished_steps(folders[0].checkpoints)
        saved = f"the run is saved at step {steps[-1]}" if steps else "nothing was saved yet"
        raise EnvironmentFault(
            f"{fault}; {saved}, repeat the command after a correction (traceback: --debug or"
            f" {folders[0].path / LOG})"
        ) from fault


def solve(
    problem: Problem,
    seeds: Sequence[int],
    root: Path,
    *,
    progress: bool = True,
    checkpoint_seconds: float = 30.0,
    say: Say = lambda line: None,
) -> list[dict[str, Any]]:
    """Run all seeds that are not finished; returns the summaries of all seeds, in order.

    All seeds at the same round run as one batch; networks are trained one seed at a time. A seed
    writes the same bytes whether it runs alone, in a batch, or is killed and resumed.
    """
    from contrastive_ucb.runs.session import Session  # imports the algorithms

    folders = {seed: RunFolder(problem.spec(seed), root) for seed in seeds}
    waiting = [seed for seed in seeds if not folders[seed].finished]
    if done := len(seeds) - len(waiting):
        say(f"{done} of {len(seeds)} runs are finished already; their results are shown")
    # An agent that cannot be built is an error before any folder is created.
    first = waiting[:1] if problem.is_observed else waiting
    with threads(1), ExitStack() as opened:
        prepared = Session(problem.agent(first), problem.probes, problem.stops) if first else None
        groups: dict[int, list[int]] = {}  # round of the newest checkpoint: seeds
        for seed in waiting:
            opened.enter_context(folders[seed])
            if not folders[seed].finished:  # another process may have finished it meanwhile
                folders[seed].repair(say)
                steps = finished_steps(folders[seed].checkpoints)
                groups.setdefault(steps[-1] if steps else 0, []).append(seed)
        for _, group in sorted(groups.items()):
            for batch in [[seed] for seed in group] if problem.is_observed else [group]:
                session = prepared if batch == first else None
                if session is None:
                    session = Session(problem.agent(batch), problem.probes, problem.stops)
                places = [folders[seed] for seed in batch]
                events = session.rounds(problem.rounds)
                run_in_folders(session, events, places, checkpoint_seconds, progress, say)
    required = ("algo", "env", "seed", "rounds", "final_gap", "seconds")
    return [folders[seed].summary(*required) for seed in seeds]


def train(
    training: Training,
    root: Path,
    *,
    progress: bool = True,
    checkpoint_seconds: float = 60.0,
    eval_episodes: int | None = None,
    device: str = "cpu",
    say: Say = lambda line: None,
    observers: Sequence[Observer] = (),
) -> dict[str, Any]:
    """Train, or resume training, unless the run is finished; returns its summary.

    eval_episodes  episodes per evaluation; by default 100 on Atari and 20 elsewhere
    observers      functions of each event; one that returns False stops the run, which is saved
                   and can be resumed
    """
    from contrastive_ucb.evaluation.rollouts import default_episodes
    from contrastive_ucb.runs.training import DeepSession

    episodes = default_episodes(training.env) if eval_episodes is None else eval_episodes
    check_size("eval_episodes", episodes)
    folder = RunFolder(training.spec(), root)
    if folder.finished:
        say("the run is finished already; its results are shown")
    else:
        trainer = training.trainer(device)  # invalid settings fail before a folder is created
        for remark in training.remarks(training.steps, trainer.env, device):
            say(remark)
        with folder:
            if not folder.finished:  # another process may have finished it meanwhile
                session = DeepSession(training, trainer, folder.path, episodes, say)
                folder.repair(say, session.check)
                try:
                    stopped = run_in_folders(
                        session,
                        session.events(),
                        [folder],
                        checkpoint_seconds,
                        progress,
                        say,
                        observers,
                    )
                except ArithmeticError as error:  # NaN
                    newest = latest_checkpoint(folder.checkpoints)
                    good = f"{newest} is the last good" if newest else "there is no"
                    where = f"at step {trainer.n_steps} of {training.env}"
                    raise ArithmeticError(f"{error}, {where}; {good} checkpoint") from error
                if stopped:
                    inputs = {"algo": training.algo, "env": training.env, "seed": training.seed}
                    return {**inputs, "steps": trainer.n_steps, "run_dir": str(folder.path)}
    return folder.summary("algo", "env", "seed", "steps", "evaluation", "seconds")


def overall(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One summary of several seeds: means of the numbers, and how many seeds solved the task."""
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
        elif name == "evaluation":
            total[name] = {"mean": fmean(evaluation["mean"] for evaluation in column)}
        elif name.startswith("max_"):
            total[name] = max(column)
        elif all(isinstance(one, (int, float)) for one in column):
            total[name] = value if len(set(column)) == 1 else sum(column) / len(column)
        elif isinstance(value, dict):  # counts by name
            total[name] = {key: sum(counts[key] for counts in column) for key in value}
        elif name == "run_dir":
            total[name] = str(Path(value).parent)
        elif len(set(column)) == 1:
            total[name] = value
    total["seed"] = first["seed"]
    total["seeds"] = [summary["seed"] for summary in summaries]
    return {**total, "runs": [dict(summary) for summary in summaries]}
