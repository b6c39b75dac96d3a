"""`cucb play RUN`: play episodes with the agent of a run of `cucb train`, and record a video."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import tyro

from contrastive_ucb.cli.options import (
    AllowImport,
    Device,
    Json,
    Threads,
    emit,
    parse,
    say,
    text_of,
)


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
    allow_import: AllowImport = False
    json: Json = False

    def __post_init__(self) -> None:
        if not (isfinite(self.fps) and self.fps > 0):
            raise ValueError(f"fps must be positive and finite, got {self.fps}")


def run(arguments: Sequence[str]) -> None:
    options = parse(Play, arguments, "cucb play")

    from contrastive_ucb.core.runtime import threads
    from contrastive_ucb.evaluation.playback import Moment, Viewing, watch
    from contrastive_ucb.report.video import film, video_path, write_video

    video = None if options.video is None else video_path(options.video)
    if video != options.video:
        advice = "pip install 'contrastive-ucb[video]' for MP4"
        say(f"no video encoder is installed; writing {video} ({advice})")

    from contrastive_ucb.runs.deep_agent import load_weights  # imports torch

    agent = load_weights(options.run, options.device, options.threads, options.allow_import)
    config = agent.trainer.config
    viewing = Viewing(
        first=options.seed,
        episodes=options.episodes,
        epsilon=config.eval_epsilon if options.epsilon is None else options.epsilon,
        max_steps=options.max_steps,
        draws=video is not None,
    )
    played: list[Moment] = []  # without pictures

    def moments() -> Iterator[Moment]:
        learner: Any = agent.trainer.agent
        for moment in watch(learner, agent.env, agent.training.seed, viewing, config.atari):
            played.append(moment._replace(picture=None))
            yield moment

    with threads(agent.threads):
        if video is None:
            list(moments())
        else:
            write_video(video, film(moments(), options.scale), options.fps)
    last = [moment for moment in played if moment.action is None]
    bonuses = [moment.bonus for moment in played if moment.bonus is not None]
    summary = {
        "algo": agent.training.algo,
        "env": agent.env,
        "seed": agent.training.seed,
        "step": agent.n_steps,
        "first_episode": viewing.first,
        "epsilon": viewing.epsilon,
        "scores": [moment.score for moment in last],
        "steps": [moment.step for moment in last],
        "left_early": sum(not moment.is_over for moment in last),
        "mean_bonus": sum(bonuses) / len(bonuses) if bonuses else None,
        "first_bonus": bonuses[0] if bonuses else None,
        "last_bonus": bonuses[-1] if bonuses else None,
        "video": None if video is None else str(video),
        "frames": 0 if video is None else len(played),
        "run_dir": str(agent.run_dir),
    }
    # Without empty entries, and with the scores in the first line
    shown = {"score": ", ".join(f"{moment.score:.6g}" for moment in last), **summary}
    hidden = {name for name, value in shown.items() if value is None}
    hidden |= {name for name in ("left_early", "frames") if not shown[name]}
    shown = {name: value for name, value in shown.items() if name not in hidden}
    emit(summary, options.json, text_of(shown))
