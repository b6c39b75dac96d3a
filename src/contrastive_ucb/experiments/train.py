"""Train a deep agent in one environment with one seed, in a run folder (`cucb train`).

The agent is evaluated at the steps given by `evaluation/rollouts.py`. Evaluation uses its own
environments and random streams, so it does not change training. A run that was killed and resumed
leaves the same bytes behind as an undisturbed one. In addition to the files of every run folder
there are

replay/      the entries of the replay memory, to which checkpoints refer
eval.jsonl   one line per evaluation: step, mean, median, episodes, scores
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.core.checkpoint import (
    CheckpointError,
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
    Listener,
    ProgressListener,
    Rate,
    TensorBoardListener,
)
from contrastive_ucb.core.runtime import interrupts
from contrastive_ucb.data.replay import ReplayFiles
from contrastive_ucb.envs.deepsea import DeepSeaGrid, solved_at
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.evaluation.rollouts import (
    default_episodes,
    digest,
    evaluate,
    evaluation_steps,
    n_evaluations,
    summarize_evaluations,
)
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.experiments.training import Training
from contrastive_ucb.training.trainer import DeepTrainer

__all__ = ["Training", "explained", "progress_values", "resume", "train"]

KEPT = 2  # checkpoints per run: if the newest is damaged, the one before it can be used
SHARE = 0.05  # fraction of the time that saving may take: large memories are saved less often
LAST = 100  # training episodes whose mean return is in the summary


def train(
    training: Training,
    root: Path,
    *,
    progress: bool = True,
    checkpoint_seconds: float = 60.0,
    eval_episodes: int | None = None,
    device: str = "cpu",
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train, or resume training, unless the run is finished; return its summary.

    eval_episodes  episodes per evaluation; by default 100 on Atari and 20 elsewhere
    """
    episodes = default_episodes(training.env) if eval_episodes is None else eval_episodes
    check_size("eval_episodes", episodes)
    folder = RunFolder(training.spec(), root)
    if folder.finished:
        say("the run is finished already; its results are shown")
        return _summary(folder)
    trainer = training.trainer(device)  # invalid settings fail before a folder is created
    if remark := _range_remark(training, trainer.env):
        say(remark)
    with folder:
        if not folder.finished:  # another process may have finished it before we had the lock
            with _Run(training, trainer, folder, checkpoint_seconds, episodes) as run:
                run.train(progress, say)
                run.finish(say)
    return _summary(folder)


def _range_remark(training: Training, env: FrameEnv) -> str | None:
    """A word about returns, where atoms must cover them and nobody has said how large they are."""
    config = training.config
    has_atoms = isinstance(config, SimpleConfig) or config.distributional
    needed = has_atoms and config.support is None
    if not (needed and isinstance(env, GymFrames) and env.guesses_range):
        return None
    low, high = env.value_range
    return (
        f"returns of {training.env} are taken to be {low:g} to {high:g}; "
        "--set support=LOW,HIGH says otherwise"
    )


class _Run:
    """A trainer and the folder to which its events, evaluations and checkpoints are written."""

    def __init__(
        self,
        training: Training,
        trainer: DeepTrainer,
        folder: RunFolder,
        every: float,
        eval_episodes: int,
    ):
        self.training, self.trainer, self.folder = training, trainer, folder
        self.every = every  # seconds between checkpoints
        self.eval_episodes = eval_episodes
        self.points = evaluation_steps(training.steps, n_evaluations(training.env))
        self.files = ReplayFiles(folder.path / "replay")
        self.rests_on: deque[dict[str, Any]] = deque(maxlen=KEPT)  # replay of each checkpoint kept
        self.metrics = JsonlListener(folder.metrics)
        self.eval_log = JsonlListener(folder.path / "eval.jsonl")
        self.evaluations: list[dict[str, Any]] = []  # the lines of eval.jsonl
        self.seconds = 0.0  # of training, over all invocations
        self.saved = 0  # position of the newest checkpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.metrics.close()
        self.eval_log.close()

    def train(self, progress: bool, say: Callable[[str], None]) -> None:
        """Continue from the newest checkpoint to the last step, then save.

        The final weights are evaluated by `finish`, after they have been saved.
        """
        training, start = self.training, self._resume()
        if start:
            say(f"the run goes on from step {start}")
        board = TensorBoardListener(self.folder.tensorboard, start + 1)
        name = f"{training.algo} on {training.env}"
        bar = ProgressListener(training.steps, name, start=start) if progress else None
        began = saved = time.monotonic()
        before, pause, rate = self.seconds, self.every, Rate(start, began)
        shown: dict[str, float] = {}
        with ExitStack() as closing:
            listeners: list[Listener] = [self.metrics, board]
            for listener in listeners + ([bar] if bar else []):
                closing.callback(listener.close)
            interrupted = closing.enter_context(interrupts())
            closing.enter_context(self._nan_named())
            for point in self.points:
                for event in self.trainer.run(point):
                    now = time.monotonic()
                    speed = rate.at(event.step, now)
                    if event.values:
                        self.metrics.on_event(event)
                        board.on_event(Event(event.step, event.values | {"charts/SPS": speed}))
                    if bar is not None:
                        shown |= progress_values(event)
                        bar.on_event(Event(event.step, shown))
                    self.seconds = before + now - began
                    if interrupted.is_set() or now - saved >= pause:
                        self._save()
                        saved = time.monotonic()
                        pause = self.every and max(self.every, (saved - now) / SHARE)
                    if interrupted.is_set():
                        raise KeyboardInterrupt
                if point != training.steps:
                    now = time.monotonic()
                    self._evaluate(point)
                    began += time.monotonic() - now  # `seconds` counts training only
            self._save()

    def finish(self, say: Callable[[str], None]) -> None:
        """Evaluate the final weights and mark the run as finished."""
        training, trainer = self.training, self.trainer
        say(f"playing {self.eval_episodes} episodes to evaluate the final weights")
        self._evaluate(training.steps)
        self.eval_log.sync()
        latest = trainer.returns[-LAST:]
        summary = {
            "algo": training.algo,
            "env": training.env,
            "seed": training.seed,
            "steps": trainer.n_steps,
            "updates": trainer.agent.n_updates,
            "episodes": len(trainer.returns),
            "bonus": training.bonus,
            "evaluation": summarize_evaluations(self.evaluations),
            f"return_of_last_{LAST}": sum(latest) / len(latest) if latest else None,
            "seconds": round(self.seconds, 3),
        }
        config = training.config
        if isinstance(config, RainbowConfig) and config.precision != "float32":
            summary["precision"] = config.precision
        if isinstance(trainer.env, DeepSeaGrid):
            summary["solved_at"] = solved_at(trainer.returns)
        self.folder.finish(summary)

    def _evaluate(self, point: int) -> None:
        """Evaluate the present weights at step `point`, unless eval.jsonl has the result already.

        Evaluations are numbered from the last to the first, so that the final one plays the same
        episodes as `cucb eval`.
        """
        if any(line["step"] == point for line in self.evaluations):
            return
        index = len(self.points) - 1 - self.points.index(point)
        scores = evaluate(
            self.trainer.agent,
            self.training.env,
            self.training.seed,
            self.eval_episodes,
            self.trainer.config.eval_epsilon,
            index,
            self.trainer.config.atari,
        )
        line = {"step": point, **digest(scores), "scores": scores.tolist()}
        self.evaluations.append(line)
        self.eval_log.write(line)

    @contextmanager
    def _nan_named(self) -> Iterator[None]:
        """A NaN is an error that says where it was, and which checkpoint is left."""
        try:
            yield
        except ArithmeticError as error:
            newest = latest_checkpoint(self.folder.checkpoints)
            good = f"{newest} is the last good checkpoint" if newest else "there is no checkpoint"
            at = self.trainer.n_steps
            raise ArithmeticError(
                f"{error}, at step {at} of {self.training.env}; {good}"
            ) from error

    def _resume(self) -> int:
        """Load the newest checkpoint and drop the lines written after it; return its step, or 0."""
        state = resume(self.trainer, self.files, self.folder.checkpoints)
        if state is None:
            self.metrics.load_state_dict(JsonlListener.START)
            self.eval_log.load_state_dict(JsonlListener.START)
            return 0
        if "evaluations" not in state:
            raise CheckpointError(
                f"{self.folder.path} was begun with a version that evaluated only at the end;"
                " remove the run folder to start again"
            )
        self.metrics.load_state_dict(state["metrics"])
        self.eval_log.load_state_dict(state["evaluations"])
        self.evaluations = _read_evaluations(self.eval_log.path, self.eval_episodes)
        self.seconds, self.saved = state["seconds"], self.trainer.position
        for step in finished_steps(self.folder.checkpoints):
            path = self.folder.checkpoints / f"step_{step}"
            with suppress(CheckpointError):  # a damaged checkpoint is not resumed from
                self.rests_on.append({"pieces": load_checkpoint(path)["replay"]["pieces"]})
        return self.trainer.n_steps

    def _save(self) -> None:
        """Save a checkpoint, unless there is one of the present position."""
        if self.trainer.position == self.saved:
            return
        self.trainer.agent.check_finite()  # checkpoints contain finite weights only
        replay = self.files.save(self.trainer.replay)
        state = {
            "trainer": self.trainer.state_dict(),
            "replay": replay,
            "metrics": self.metrics.state_dict(),
            "evaluations": self.eval_log.state_dict(),
            "seconds": self.seconds,
        }
        save_checkpoint(self.folder.checkpoints, self.trainer.position, state)
        self.saved = self.trainer.position
        prune_checkpoints(self.folder.checkpoints, KEPT)
        self.rests_on.append({"pieces": replay["pieces"]})
        self.files.prune(self.rests_on)


def resume(trainer: DeepTrainer, files: ReplayFiles, checkpoints: Path) -> dict[str, Any] | None:
    """Bring a new trainer to the newest checkpoint and return all of that; None: there is none."""
    newest = latest_checkpoint(checkpoints)
    if newest is None:
        return None
    with explained(newest):
        state = load_checkpoint(newest)
        trainer.load_state_dict(state["trainer"])
        files.load(trainer.replay, state["replay"])
        if missing := {"metrics", "seconds"} - state.keys():
            raise KeyError(min(missing))
    return state


def _read_evaluations(path: Path, episodes: int) -> list[dict[str, Any]]:
    """The lines of eval.jsonl; an error if they were made with another number of episodes."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["episodes"] != episodes:
            raise UserError(
                f"step {line['step']} was evaluated with {line['episodes']} episodes, not"
                f" {episodes}; resume the run with --eval-episodes {line['episodes']}"
            )
    return lines


def progress_values(event: Event) -> dict[str, float]:
    """What a progress bar shows of an event."""
    shown = {
        "return": "charts/episodic_return",
        "bonus": "bonus/mean",
        "epoch": "charts/epoch",
    }
    return {name: event.values[tag] for name, tag in shown.items() if tag in event.values}


@contextmanager
def explained(
    checkpoint: Path, way_out: str = "remove the run folder to start again"
) -> Iterator[None]:
    """A checkpoint that does not fit, such as one of another version, is an error of one line."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CheckpointError(
            f"{checkpoint} does not fit this version ({what}); {way_out}"
        ) from error


def _summary(folder: RunFolder) -> dict[str, Any]:
    summary = folder.summary()
    if missing := {"algo", "env", "seed", "steps", "evaluation", "seconds"} - summary.keys():
        raise UserError(
            f"{folder.path / 'DONE'} has no {min(missing)!r}; remove it and repeat the command"
        )
    return {**summary, "run_dir": str(folder.path)}
