"""`cucb play RUN`: play episodes with the agent of a run of `cucb train`, and record a video."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from contrastive_ucb.cli.options import Device, Json, Threads, emit, parse, say, text_of

if TYPE_CHECKING:
    from contrastive_ucb.evaluation.playback import Moment, Viewing
    from contrastive_ucb.runs.deep_agent import DeepAgent


@dataclass(frozen=True)
class Play:
    """Play the episodes of 'cucb eval' one by one with the newest weights of a run. The video shows
    the environment and below it the bonus of each step.

    example:
      cucb play runs/breakout --video breakout.mp4
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or the --out of 'cucb train' if it contains one run."""
    video: Path | None = None
    """The video, .mp4 or .gif; without it only the summary is printed. MP4 needs pip install
    'contrastive-ucb[video]'; otherwise it is a GIF."""
    episodes: int = 1
    """Number of episodes."""
    seed: int = 0
    """Index of the first episode: 0 is the first episode of 'cucb eval', 1 the second, ..."""
    epsilon: float | None = None
    """Fraction of uniform actions; by default that of 'cucb eval'."""
    max_steps: int = 2000
    """Most steps per episode."""
    fps: float = 15.0
    """Steps per second in the video; Atari runs at 15."""
    scale: int | None = None
    """Video pixels per pixel of the game; by default the picture is at least 320 pixels high."""
    threads: Threads = None
    device: Device = "auto"
    json: Json = False

    def __post_init__(self) -> None:
        if not (isfinite(self.fps) and self.fps > 0):
            raise ValueError(f"fps must be positive and finite, got {self.fps}")


def run(arguments: Sequence[str]) -> None:
    options = parse(Play, arguments, "cucb play")
    video = _video_path(options.video)

    from contrastive_ucb.core.runtime import threads
    from contrastive_ucb.evaluation.playback import Viewing
    from contrastive_ucb.runs.deep_agent import load_weights  # imports torch

    agent = load_weights(options.run, options.device, options.threads)
    default = agent.trainer.config.eval_epsilon
    viewing = Viewing(
        first=options.seed,
        episodes=options.episodes,
        epsilon=default if options.epsilon is None else options.epsilon,
        max_steps=options.max_steps,
        draws=video is not None,
    )
    with threads(agent.threads):
        moments, frames = _play(agent, viewing, video, options)
    summary = {
        "algo": agent.training.algo,
        "env": agent.env,
        "seed": agent.training.seed,
        "step": agent.n_steps,
        "first_episode": viewing.first,
        "epsilon": viewing.epsilon,
        **summarize(moments),
        "video": None if video is None else str(video),
        "frames": frames,
        "run_dir": str(agent.run_dir),
    }
    # Without empty entries, and with the scores in the first line
    shown = {"score": ", ".join(f"{score:.6g}" for score in summary["scores"]), **summary}
    for name in [name for name, value in shown.items() if value is None]:
        del shown[name]
    for name in ("left_early", "frames"):
        if not shown[name]:
            del shown[name]
    emit(summary, options.json, text_of(shown))


def summarize(moments: Sequence[Moment]) -> dict[str, Any]:
    """Scores and steps of the episodes, and the mean, first and last bonus."""
    last = [moment for moment in moments if moment.action is None]
    bonuses = [moment.bonus for moment in moments if moment.bonus is not None]
    return {
        "scores": [moment.score for moment in last],
        "steps": [moment.step for moment in last],
        "left_early": sum(not moment.is_over for moment in last),
        "mean_bonus": sum(bonuses) / len(bonuses) if bonuses else None,
        "first_bonus": bonuses[0] if bonuses else None,
        "last_bonus": bonuses[-1] if bonuses else None,
    }


def _play(
    agent: DeepAgent, viewing: Viewing, video: Path | None, options: Play
) -> tuple[list[Moment], int]:
    """The moments without their pictures, and the number of frames of the video."""
    from contrastive_ucb.evaluation.playback import watch
    from contrastive_ucb.report.video import film, write_video

    learner: Any = agent.trainer.agent
    rules = agent.trainer.config.atari
    moments = watch(learner, agent.env, agent.training.seed, viewing, rules)
    if video is None:
        return list(moments), 0
    played: list[Moment] = []

    def noted() -> Iterator[Moment]:
        for moment in moments:
            played.append(moment._replace(picture=None))
            yield moment

    frames = write_video(video, film(noted(), options.scale), options.fps)
    return played, frames


def _video_path(asked: Path | None) -> Path | None:
    if asked is None:
        return None
    from contrastive_ucb.report.video import video_path

    path = video_path(asked)
    if path != asked:
        advice = "pip install 'contrastive-ucb[video]' for MP4"
        say(f"no video encoder is installed; writing {path} ({advice})")
    return path
