"""`cucb play RUN`: play episodes with the agent of a run of `cucb train`, and record a video."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrastive_ucb.cli.options import emit, parse, run_and_rest, text_of
from contrastive_ucb.cli.train import use_threads
from contrastive_ucb.core.checks import check_size

if TYPE_CHECKING:
    from contrastive_ucb.evaluation.playback import Moment, Viewing
    from contrastive_ucb.runs.deep_agent import Trained

HELP = """usage: cucb play RUN [options]

Play the episodes of 'cucb eval' one by one with the newest weights of a run. The video shows the
environment and below it the bonus of each step. RUN is a run folder, or the --out of 'cucb train'
if it contains one run. MP4 needs pip install 'contrastive-ucb[video]'; otherwise it is a GIF.

`cucb play RUN --help` lists the options, for example
  cucb play runs/breakout --video breakout.mp4
"""


@dataclass(frozen=True)
class Play:
    """Play episodes with the newest weights of a run and record them with the bonus per step."""

    video: Path | None = None
    """The video, .mp4 or .gif; without it only the summary is printed."""
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
    threads: int | None = None
    """Threads of torch; by default 2 for large images (Atari), otherwise 1."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the networks; auto takes CUDA if it is available."""
    json: bool = False
    """Print the summary as one JSON object on stdout and everything else on stderr."""

    def __post_init__(self) -> None:
        for name, least in (("episodes", 1), ("seed", 0), ("max_steps", 1)):
            check_size(name, getattr(self, name), least)
        for name in ("scale", "threads"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        if self.epsilon is not None and not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], got {self.epsilon}")
        if not (isfinite(self.fps) and self.fps > 0):
            raise ValueError(f"fps must be positive and finite, got {self.fps}")


def run(arguments: Sequence[str]) -> None:
    given = run_and_rest(arguments, HELP)
    if given is None:
        return
    path, rest = given
    options = parse(Play, rest, f"cucb play {path}", Play())
    video = _video_path(options.video)

    from contrastive_ucb.core.runtime import choose_device
    from contrastive_ucb.evaluation.playback import Viewing
    from contrastive_ucb.runs.deep_agent import load_trained  # imports torch

    trained = load_trained(Path(path), choose_device(options.device))
    use_threads(options.threads, trained.frame_shape)
    viewing = Viewing(
        first=options.seed,
        episodes=options.episodes,
        epsilon=trained.config.eval_epsilon if options.epsilon is None else options.epsilon,
        max_steps=options.max_steps,
        draws=video is not None,
    )
    moments, frames = _play(trained, viewing, video, options)
    summary = {
        "algo": trained.algo,
        "env": trained.env,
        "seed": trained.seed,
        "step": trained.step,
        "first_episode": viewing.first,
        "epsilon": viewing.epsilon,
        **summarise(moments),
        "video": None if video is None else str(video),
        "frames": frames,
        "run_dir": str(trained.run_dir),
    }
    emit(summary, options.json, _text(summary))


def summarise(moments: Sequence[Moment]) -> dict[str, Any]:
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
    trained: Trained, viewing: Viewing, video: Path | None, options: Play
) -> tuple[list[Moment], int]:
    """The moments without their pictures, and the number of frames of the video."""
    from contrastive_ucb.evaluation.playback import watch
    from contrastive_ucb.report.video import film, write_video

    moments = watch(trained.agent, trained.env, trained.seed, viewing, trained.config.atari)
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
        print(f"no video encoder is installed; writing {path} ({advice})", file=sys.stderr)
    return path


def _text(summary: dict[str, Any]) -> str:
    """The summary as text, without empty entries."""
    shown: dict[str, Any] = {"score": ", ".join(f"{score:.6g}" for score in summary["scores"])}
    for name, value in summary.items():
        if isinstance(value, list):
            value = ", ".join(str(item) for item in value)
        if value is not None and not (name in ("left_early", "frames") and value == 0):
            shown[name] = value
    return text_of(shown)
