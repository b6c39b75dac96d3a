"""Videos of episodes: the game and, below it, the bonus of every step so far.

    +------------------------+
    |  picture of the game   |   enlarged by whole pixels
    +------------------------+
    | episode 0  step  score |
    | bonus 0.0123           |
    | strip chart            |   all steps of the episode so far, the current one marked
    +------------------------+

For agents without a bonus the chart shows the largest Q instead. MP4 needs the extra `video`; GIF
does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageDraw, ImageFont

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import draft
from contrastive_ucb.envs.frames import Picture
from contrastive_ucb.evaluation.playback import Moment

LEAST_SIDE = 320  # pixels: minimum width of a video and height of an enlarged picture
CHART_HEIGHT = 84
MARGIN, LINE = 8, 20  # pixels around the text and from line to line
FEWEST_STEPS = 16  # minimum length of the time axis of a chart
FLATNESS = 20  # the value axis covers at least 1 / FLATNESS of the largest entry
SHARPNESS = 2  # charts are drawn larger and shrunk, because Pillow does not antialias lines
BACKGROUND, FAINT, INK, CURVE = (22, 24, 29), (98, 104, 115), (236, 236, 236), (240, 165, 30)


def film(moments: Iterable[Moment], scale: int | None = None) -> Iterator[Picture]:
    """The frames of the video, one per moment, all of the same size.

    scale  video pixels per pixel of the game; by default at least LEAST_SIDE in total
    """
    series: list[float] = []
    caption = ""
    for moment in moments:
        if moment.picture is None:
            raise ValueError("a moment has no picture; watch with draws=True")
        if moment.step == 0:
            series = []
        name = "bonus" if moment.bonus is not None else "value"
        figure = moment.value if moment.bonus is None else moment.bonus
        if figure is not None:  # the last moment has none and keeps the caption before it
            series.append(figure)
            caption = f"{name} {figure:.4g}   action {moment.action}"
        where = f"episode {moment.episode}   step {moment.step}   score {moment.score:.6g}"
        factor = scale or ceil(LEAST_SIDE / len(moment.picture))
        yield compose(moment.picture, factor, [where, caption], series)


def compose(picture: Picture, scale: int, lines: Sequence[str], series: Sequence[float]) -> Picture:
    """One frame (height, width, 3) with even sides, which H.264 requires.

    picture  (h, w, 3), enlarged `scale` times
    lines    text below it, the last line in the color of the curve
    series   values of the chart
    """
    game = np.asarray(picture, dtype=np.uint8).repeat(scale, 0).repeat(scale, 1)
    height, width = game.shape[:2]
    full_width = max(width, LEAST_SIDE) + width % 2 * (width >= LEAST_SIDE)
    chart_top = height + MARGIN + LINE * len(lines)
    full_height = chart_top + CHART_HEIGHT + MARGIN
    frame = Image.new("RGB", (full_width, full_height + full_height % 2), BACKGROUND)
    frame.paste(Image.fromarray(game), ((full_width - width) // 2, 0))
    pen = ImageDraw.Draw(frame)
    for at, line in enumerate(lines):
        color = CURVE if at == len(lines) - 1 else INK
        pen.text((MARGIN, height + MARGIN + LINE * at), line, color, font=_font(15))
    chart = strip_chart(series, full_width - 2 * MARGIN, CHART_HEIGHT)
    frame.paste(Image.fromarray(chart), (MARGIN, chart_top))
    return np.asarray(frame)


def strip_chart(series: Sequence[float], width: int, height: int) -> Picture:
    """The series as a curve (height, width, 3) with a mark on its last point.

    Both axes end at round numbers, so that they rarely change while the series grows.
    """
    low, high = value_range(series)
    span = max(FEWEST_STEPS, 2 ** ceil(np.log2(max(len(series), 1)))) - 1
    big = Image.new("RGB", (width * SHARPNESS, height * SHARPNESS), BACKGROUND)
    pen = ImageDraw.Draw(big)
    labels = [f"{high:g}", f"{low:g}"]
    left = SHARPNESS * (MARGIN + ceil(max(_font(12).getlength(label) for label in labels)))
    top, bottom = SHARPNESS * 8, SHARPNESS * (height - 8)
    for y, label in zip((top, bottom), labels, strict=True):
        pen.line([(left, y), (big.width, y)], FAINT, SHARPNESS)
        pen.text((left - 4 * SHARPNESS, y), label, INK, _font(12 * SHARPNESS), anchor="rm")
    x = left + np.arange(len(series)) * (big.width - left - 5 * SHARPNESS) / span
    points = list(zip(x.tolist(), np.interp(series, [low, high], [bottom, top]), strict=True))
    if points:
        pen.line([(points[-1][0], top), (points[-1][0], bottom)], FAINT, SHARPNESS)
        pen.line(points, CURVE, 2 * SHARPNESS)
        pen.circle(points[-1], 4 * SHARPNESS, INK)
    return np.asarray(big.resize((width, height), Image.Resampling.BOX))


def value_range(series: Sequence[float]) -> tuple[float, float]:
    """The ends of the value axis: round numbers around the series.

    They are at least 1/20 of the largest entry apart, so that small changes look small.
    """
    if not any(series):
        return 0.0, 1.0
    least, most = min(series), max(series)
    most = max(most, least + max(abs(least), abs(most)) / FLATNESS)
    ticks = MaxNLocator(2, steps=[1, 2, 5, 10]).tick_values(least, most)
    return float(ticks[0]), float(ticks[-1])


def has_encoder() -> bool:
    """Whether MP4 files can be written."""
    try:
        import imageio.v2  # noqa: F401
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):  # RuntimeError: no ffmpeg executable
        return False
    return True


def video_path(asked: Path) -> Path:
    """The path of the video: as requested, or with the suffix .gif if MP4 cannot be written."""
    ending = asked.suffix.lower()
    if ending not in (".mp4", ".gif"):
        raise UserError(f"a video ends in .mp4 or .gif, got {asked}; name it {asked.name}.mp4")
    return asked if ending == ".gif" or has_encoder() else asked.with_suffix(".gif")


def write_video(path: Path, frames: Iterable[Picture], frames_per_second: float) -> int:
    """Write the frames to an .mp4 or .gif file atomically; returns their number."""
    count = 0

    def counted() -> Iterator[Picture]:
        nonlocal count
        for frame in frames:
            yield frame
            count += 1

    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.suffix.lower()  # the encoder uses it
    write = _write_gif if ending == ".gif" else _write_mp4
    with draft(path, ending) as new:
        write(new, counted(), frames_per_second)
    return count


def _write_mp4(path: Path, frames: Iterator[Picture], frames_per_second: float) -> None:
    import imageio.v2

    # yuv420p is supported by every player
    look: dict[str, Any] = {"codec": "libx264", "quality": 8, "pixelformat": "yuv420p"}
    look |= {"fps": frames_per_second, "macro_block_size": 2, "ffmpeg_log_level": "error"}
    open_writer: Any = imageio.v2.get_writer
    with open_writer(path, format="FFMPEG", mode="I", **look) as writer:
        for frame in frames:
            writer.append_data(frame)


def _write_gif(path: Path, frames: Iterator[Picture], frames_per_second: float) -> None:
    first = Image.fromarray(next(frames))
    others = (Image.fromarray(frame) for frame in frames)
    duration = 10 * max(2, round(100 / frames_per_second))  # ms; viewers slow down faster GIFs
    look: dict[str, Any] = {"save_all": True, "append_images": others, "loop": 0}
    first.save(path, format="GIF", duration=duration, **look)


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
