"""The run loop of all agents, and runs in run folders (`cucb solve` and `cucb train`).

`Session.rounds` and `DeepTrainer.run` are generators of events. `follow` passes the events to
observers (log files, progress bar, callback) and saves checkpoints. A run that was killed and
resumed writes the same bytes as an undisturbed one. Deep runs have two files more than others:

replay/      entries of the replay memory, to which checkpoints refer
eval.jsonl   one line per evaluation: step, mean, median, episodes, scores

Evaluations use their own environments and random streams, so they do not change training.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_ucb.core.checkpoint import (
    finished_steps,
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import (
    Event,
    JsonlListener,
    ProgressListener,
    Rate,
    TensorBoardListener,
)
from contrastive_ucb.core.runtime import interrupts, threads
from contrastive_ucb.runs.store import RunFolder, checkpoint_errors

if TYPE_CHECKING:
    from contrastive_ucb.agents.deep.trainer import DeepTrainer
    from contrastive_ucb.data.replay import ReplayFiles
    from contrastive_ucb.runs.problem import Problem
    from contrastive_ucb.runs.session import Session
    from contrastive_ucb.runs.training import Training

KEPT = 2  # checkpoints per run: if the newest is damaged, the one before it can be used
SHARE = 0.05  # largest fraction of the time that saving may take
LAST = 100  # training episodes whose mean return is in the summary
Say = Callable[[str], None]


# Of an event with `step` and `values`, which is an `Event` or a `Round`; False stops the run
Observer = Callable[[Any], object]


def follow(
    events: Iterable[Any],
    observers: Sequence[Observer],
    save: Callable[[], None] | None = None,
    every: float = math.inf,
) -> bool:
    """Run to the end of `events`; returns whether an observer stopped the run.

    save   called every `every` seconds (less often if saving takes long), on Ctrl-C and on a stop
    """
    saved, pause = time.monotonic(), every
    with interrupts() as interrupted:
        for event in events:
            stopped = False in [observe(event) for observe in observers]
            now = time.monotonic()
            ends = stopped or interrupted.is_set()
            if save is not None and (ends or now - saved >= pause):
                save()
                saved = time.monotonic()
                pause = every and max(every, (saved - now) / SHARE)
            if interrupted.is_set():  # the step is complete, so the run can be continued
                raise KeyboardInterrupt
            if stopped:
                return True
    return False


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
                steps = finished_steps(folders[seed].checkpoints)
                groups.setdefault(steps[-1] if steps else 0, []).append(seed)
        for start, group in sorted(groups.items()):
            for batch in [[seed] for seed in group] if problem.is_observed else [group]:
                session = prepared if batch == first else None
                if session is None:
                    session = Session(problem.agent(batch), problem.probes, problem.stops)
                run = _FiniteRun(problem, session, [folders[seed] for seed in batch], start)
                run.run(checkpoint_seconds, progress, say)
    required = ("algo", "env", "seed", "rounds", "final_gap", "seconds")
    summaries = [(folders[seed].summary(*required), folders[seed].path) for seed in seeds]
    return [{**summary, "run_dir": str(path)} for summary, path in summaries]


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

    episodes = default_episodes(training.env) if eval_episodes is None else eval_episodes
    check_size("eval_episodes", episodes)
    folder = RunFolder(training.spec(), root)
    if folder.finished:
        say("the run is finished already; its results are shown")
    else:
        trainer = training.trainer(device)  # invalid settings fail before a folder is created
        env, config = trainer.env, training.config
        has_atoms = getattr(config, "distributional", True) and config.support is None
        if has_atoms and getattr(env, "guesses_range", False):
            low, high = env.value_range
            say(
                f"returns of {training.env} are assumed to be between {low:g} and {high:g};"
                " change that with --set support=LOW,HIGH"
            )
        if remark := warm_up_remark(training, training.steps):
            say(remark)
        with folder:
            if not folder.finished:  # another process may have finished it meanwhile
                run = _DeepRun(training, trainer, folder, episodes)
                try:
                    stopped = run.run(checkpoint_seconds, progress, say, observers)
                except ArithmeticError as error:  # NaN
                    newest = latest_checkpoint(folder.checkpoints)
                    good = (
                        f"{newest} is the last good checkpoint"
                        if newest
                        else "there is no checkpoint"
                    )
                    where = f"at step {trainer.n_steps} of {training.env}"
                    raise ArithmeticError(f"{error}, {where}; {good}") from error
                if stopped:
                    inputs = {"algo": training.algo, "env": training.env, "seed": training.seed}
                    return {**inputs, "steps": trainer.n_steps, "run_dir": str(folder.path)}
    required = ("algo", "env", "seed", "steps", "evaluation", "seconds")
    return {**folder.summary(*required), "run_dir": str(folder.path)}


def warm_up_remark(training: Training, steps: int) -> str | None:
    """A warning if a run is too short for a single update."""
    if steps > training.warm_up:
        return None
    return (
        f"{steps} steps do not exceed the warm-up of {training.warm_up} steps, so nothing is"
        f" learned; use at least {training.warm_up + 1} steps or a smaller first_update"
    )


class _FolderRun(ABC):
    """A run in one folder, or a batch of runs with one folder per seed."""

    def __init__(self, title: str, length: int, folders: Sequence[RunFolder]):
        self.title, self.length, self.folders = title, length, folders
        self.metrics = [JsonlListener(folder.metrics) for folder in folders]
        self.boards: list[TensorBoardListener] = []
        self.seconds = 0.0  # of training, over all attempts
        self.began = 0.0  # start of this attempt, later by earlier seconds and evaluations

    def run(
        self, every: float, progress: bool, say: Say, observers: Sequence[Observer] = ()
    ) -> bool:
        """Continue from the newest checkpoint to the end; returns whether an observer stopped."""
        start = self._resume()
        if start:
            say(f"{self.title} continues from step {start}")
        self.boards = [TensorBoardListener(f.tensorboard, start + 1) for f in self.folders]
        bars = [ProgressListener(self.length, self.title, start)] if progress else []
        with ExitStack() as closing:
            listeners: list[Any] = [*self.metrics, *self.boards, *bars]
            for listener in listeners:
                closing.callback(listener.close)
            self.began = time.monotonic() - self.seconds
            watching = [self._write, *(bar.on_event for bar in bars), *observers]
            stopped = follow(self._events(start), watching, self._save, every)
            if not stopped:
                self._save()
                for bar in bars:
                    bar.close()
                self._finish(say)
        return stopped

    @abstractmethod
    def _resume(self) -> int:
        """Load the newest checkpoint and drop the lines written after it; returns its step."""

    @abstractmethod
    def _events(self, start: int) -> Iterator[Any]: ...

    @abstractmethod
    def _write(self, event: Any) -> None:
        """Write an event to the log files."""

    @abstractmethod
    def _save(self) -> None:
        """Save a checkpoint unless there is one of the present step."""

    @abstractmethod
    def _finish(self, say: Say) -> None:
        """Write the summaries."""


class _FiniteRun(_FolderRun):
    """Seeds of a problem that run as one batch, each with its own folder.

    start  round of the newest checkpoint of all seeds
    """

    def __init__(
        self, problem: Problem, session: Session, folders: Sequence[RunFolder], start: int
    ):
        super().__init__(f"{problem.algo} on {problem.env}", problem.rounds, folders)
        self.session, self.saved = session, start

    def _resume(self) -> int:
        states: list[dict[str, Any]] = [{"metrics": JsonlListener.START} for _ in self.folders]
        if self.saved:
            paths = [folder.checkpoints / f"step_{self.saved}" for folder in self.folders]
            states = [load_checkpoint(path) for path in paths]
            self.session.load_states([state["session"] for state in states])
            self.seconds = max(state["seconds"] for state in states)
        for listener, state in zip(self.metrics, states, strict=True):
            listener.load_state_dict(state["metrics"])
        return self.saved

    def _events(self, start: int) -> Iterator[Any]:
        return self.session.rounds(self.length)

    def _write(self, event: Any) -> None:
        if not event.on_grid:
            return
        for at, (metrics, board) in enumerate(zip(self.metrics, self.boards, strict=True)):
            values = {name: float(column[at]) for name, column in event.figures.items()}
            seed = Event(event.step, values)  # checks them
            metrics.write(seed.step, seed.values)
            board.write(seed.step, seed.values)

    def _save(self) -> None:
        step = self.session.agent.n_rounds
        if step == self.saved:
            return
        self.saved, self.seconds = step, time.monotonic() - self.began
        for at, (folder, metrics) in enumerate(zip(self.folders, self.metrics, strict=True)):
            state = {"session": self.session.state_of(at), "metrics": metrics.state_dict()}
            save_checkpoint(folder.checkpoints, step, {**state, "seconds": self.seconds})
            prune_checkpoints(folder.checkpoints, KEPT)

    def _finish(self, say: Say) -> None:
        for at, folder in enumerate(self.folders):
            folder.finish({**self.session.summary(at), "seconds": round(self.seconds, 3)})


class _DeepRun(_FolderRun):
    """A training with its evaluations."""

    def __init__(
        self, training: Training, trainer: DeepTrainer, folder: RunFolder, eval_episodes: int
    ):
        from contrastive_ucb.data.replay import ReplayFiles
        from contrastive_ucb.evaluation.rollouts import evaluation_steps, n_evaluations

        super().__init__(f"{training.algo} on {training.env}", training.steps, [folder])
        self.training, self.trainer, self.folder = training, trainer, folder
        self.eval_episodes = eval_episodes
        self.points = evaluation_steps(training.steps, n_evaluations(training.env))
        self.files = ReplayFiles(folder.path / "replay")
        # Replay files of the checkpoints that are kept
        self.pieces: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.eval_log = JsonlListener(folder.path / "eval.jsonl")
        self.metrics.append(self.eval_log)  # closed and truncated with the metrics
        self.evaluations: list[dict[str, Any]] = []  # the lines of eval.jsonl
        self.saved = 0  # position of the newest checkpoint
        self.rate = Rate(0, 0.0)

    def _resume(self) -> int:
        state = resume(self.trainer, self.files, self.folder.checkpoints)
        if state is None:
            state = {"metrics": JsonlListener.START, "evaluations": JsonlListener.START}
        else:
            self.seconds, self.saved = state["seconds"], self.trainer.position
            self.pieces.append({"pieces": state["replay"]["pieces"]})
        for listener, name in zip(self.metrics, ("metrics", "evaluations"), strict=True):
            listener.load_state_dict(state[name])
        lines = self.eval_log.path.read_text(encoding="utf-8").splitlines()
        self.evaluations = [json.loads(line) for line in lines]
        for line in self.evaluations:
            if line["episodes"] != self.eval_episodes:
                raise UserError(
                    f"step {line['step']} was evaluated with {line['episodes']} episodes, not"
                    f" {self.eval_episodes}; resume the run with --eval-episodes {line['episodes']}"
                )
        return self.trainer.n_steps

    def _events(self, start: int) -> Iterator[Event]:
        """The events of the trainer; evaluations take place between them."""
        self.rate = Rate(start, time.monotonic())
        for point in self.points:
            yield from self.trainer.run(point)
            if point != self.training.steps:  # the final weights are saved before
                began = time.monotonic()
                self._evaluate(point)
                self.began += time.monotonic() - began  # `seconds` is training time only

    def _write(self, event: Event) -> None:
        speed = self.rate.at(event.step, time.monotonic())
        if event.values:
            self.metrics[0].write(event.step, event.values)
            self.boards[0].write(event.step, {**event.values, "charts/SPS": speed})

    def _save(self) -> None:
        trainer = self.trainer
        if trainer.position == self.saved:
            return
        trainer.agent.check_finite()  # checkpoints contain finite weights only
        self.seconds = time.monotonic() - self.began
        replay = self.files.save(trainer.replay)
        state = {
            "trainer": trainer.state_dict(),
            "replay": replay,
            "metrics": self.metrics[0].state_dict(),
            "evaluations": self.eval_log.state_dict(),
            "seconds": self.seconds,
        }
        save_checkpoint(self.folder.checkpoints, trainer.position, state)
        self.saved = trainer.position
        prune_checkpoints(self.folder.checkpoints, KEPT)
        self.pieces.append({"pieces": replay["pieces"]})
        self.files.prune(self.pieces)

    def _finish(self, say: Say) -> None:
        """Evaluate the final weights and write the summary."""
        from contrastive_ucb.envs.deepsea import DeepSeaGrid, solved_at
        from contrastive_ucb.evaluation.rollouts import summarize_evaluations

        say(f"playing {self.eval_episodes} episodes to evaluate the final weights")
        self._evaluate(self.training.steps)
        self.eval_log.state_dict()  # on disk before the run is marked as finished
        summary = summary_of(self.training, self.trainer)
        summary |= {"evaluation": summarize_evaluations(self.evaluations)}
        summary |= {"seconds": round(self.seconds, 3)}
        precision = getattr(self.training.config, "precision", "float32")
        if precision != "float32":
            summary["precision"] = precision
        if isinstance(self.trainer.env, DeepSeaGrid):
            summary["solved_at"] = solved_at(self.trainer.returns)
        self.folder.finish(summary)

    def _evaluate(self, point: int) -> None:
        """Evaluate the present weights at step `point`, unless eval.jsonl has the result already.

        Evaluations are numbered from the last to the first, so that the final one plays the same
        episodes as `cucb eval`.
        """
        from contrastive_ucb.evaluation.rollouts import digest, evaluate

        if any(line["step"] == point for line in self.evaluations):
            return
        scores = evaluate(
            self.trainer.agent,
            self.training.env,
            self.training.seed,
            self.eval_episodes,
            self.trainer.config.eval_epsilon,
            len(self.points) - 1 - self.points.index(point),
            self.trainer.config.atari,
        )
        result = {**digest(scores), "scores": scores.tolist()}
        self.evaluations.append({"step": point, **result})
        self.eval_log.write(point, result)


def resume(trainer: DeepTrainer, files: ReplayFiles, checkpoints: Path) -> dict[str, Any] | None:
    """Load the newest checkpoint into a new trainer; returns the whole state, None without one."""
    newest = latest_checkpoint(checkpoints)
    if newest is None:
        return None
    with checkpoint_errors(newest):
        state = load_checkpoint(newest)
        trainer.load_state_dict(state["trainer"])
        files.load(trainer.replay, state["replay"])
    return state


def summary_of(training: Training, trainer: DeepTrainer) -> dict[str, Any]:
    """The summary of a deep run so far, without evaluations."""
    latest = trainer.returns[-LAST:]
    return {
        "algo": training.algo,
        "env": training.env,
        "seed": training.seed,
        "steps": trainer.n_steps,
        "updates": trainer.agent.n_updates,
        "episodes": len(trainer.returns),
        "bonus": training.bonus,
        f"return_of_last_{LAST}": sum(latest) / len(latest) if latest else None,
    }


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
        elif name.startswith("max_"):
            total[name] = max(column)
        elif isinstance(value, (int, float)) and name != "seed":
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
