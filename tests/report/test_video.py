"""The video: what its frames show, and files that decode to them."""

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import imageio.v2
import numpy as np
import pytest
from PIL import Image

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.frames import Picture
from contrastive_ucb.evaluation.playback import Moment
from contrastive_ucb.report.video import (
    INK,
    compose,
    film,
    has_encoder,
    strip_chart,
    video_path,
    write_video,
)


def picture(height: int = 10, width: int = 14, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)


def moments(count: int = 5, bonus: bool = True) -> Iterator[Moment]:
    for step in range(count):
        own = 0.1 * (step + 1) if bonus else None
        yield Moment(0, step, step / 2, picture(), step % 2, -0.5 - step, own)
    yield Moment(0, count, count / 2, picture(seed=1), is_over=True)


def near(image: Picture, color: tuple[int, int, int]) -> np.ndarray:
    """Where the picture has this color   (height, width)"""
    return np.abs(image.astype(int) - color).max(-1) < 12


@pytest.mark.parametrize(("height", "width"), [(210, 160), (7, 333)])
@pytest.mark.parametrize("scale", [1, 3])
def test_the_game_is_enlarged_by_whole_pixels_above_the_chart(
    height: int, width: int, scale: int
) -> None:
    game = picture(height, width)
    frame = compose(game, scale, ["one", "two"], [0.1, 0.2])
    assert (frame.shape[0] % 2, frame.shape[1] % 2, frame.dtype) == (0, 0, np.uint8)
    assert frame.shape[1] >= 320
    assert frame.shape[0] > height * scale + 100
    left = (frame.shape[1] - width * scale) // 2
    shown = frame[: height * scale, left : left + width * scale]
    np.testing.assert_array_equal(shown[scale // 2 :: scale, scale // 2 :: scale], game)
    np.testing.assert_array_equal(shown, np.kron(game, np.ones((scale, scale, 1), np.uint8)))


def test_the_mark_is_where_the_series_ends() -> None:
    places = []
    for series in ([0.0, 1.0], [1.0, 0.0], [0.0, 1.0, 0.0, 1.0]):
        rows, columns = np.nonzero(near(strip_chart(series, 300, 80)[:, 20:], INK))
        places.append((rows.mean(), columns.mean()))
    (high, early), (low, also_early), (again_high, late) = places
    assert high == pytest.approx(again_high, abs=1)
    assert low - high == pytest.approx(80 - 16, abs=1)
    assert early == pytest.approx(also_early, abs=1)
    assert late > early + 20


def test_every_moment_is_a_frame_that_differs_from_the_one_before() -> None:
    frames = list(film(moments()))
    assert len(frames) == 6
    assert {frame.shape for frame in frames} == {frames[0].shape}
    assert all((one != other).any() for one, other in pairwise(frames))
    assert frames[0].shape[1] == 14 * 32
    assert len({frame.shape for frame in film(moments(), 2)} | {frames[0].shape}) == 2


def test_a_series_begins_anew_with_each_episode() -> None:
    alone, twice = list(film(moments())), list(film([*moments(), *moments()]))
    np.testing.assert_array_equal(twice, alone + alone)


def test_without_a_bonus_the_value_is_drawn() -> None:
    value = list(film(moments(bonus=False)))
    as_bonus = [one._replace(bonus=one.value) for one in moments(bonus=False)]
    strip = slice(370, None)  # below the text, which names it
    np.testing.assert_array_equal(value[3][strip], list(film(as_bonus))[3][strip])
    assert (value[3][strip] != list(film(moments()))[3][strip]).any()


def test_an_mp4_decodes_to_its_frames(tmp_path: Path) -> None:
    frames = list(film(moments(9)))
    path = tmp_path / "new" / "out.mp4"
    assert write_video(path, iter(frames), 15) == len(frames) == 10
    with imageio.v2.get_reader(path) as reader:
        assert reader.get_meta_data()["fps"] == 15
        found = list(reader.iter_data())
    assert len(found) == 10
    for frame, wanted in zip(found, frames, strict=True):
        assert frame.shape == wanted.shape
        assert np.abs(frame.astype(float) - wanted).mean() < 12  # it is compressed
    assert [one.name for one in path.parent.iterdir()] == ["out.mp4"]


@pytest.mark.parametrize(("fps", "duration"), [(15, 70), (10, 100), (1000, 20)])
def test_a_gif_decodes_to_its_frames(fps: float, duration: int, tmp_path: Path) -> None:
    frames = list(film(moments(9)))
    path = tmp_path / "out.GIF"
    assert write_video(path, iter(frames), fps) == 10
    with Image.open(path) as gif:
        assert (gif.format, gif.n_frames, gif.size) == ("GIF", 10, frames[0].shape[1::-1])
        assert gif.info["duration"] == duration
        for at, wanted in enumerate(frames):
            gif.seek(at)
            assert np.abs(np.asarray(gif.convert("RGB"), dtype=float) - wanted).mean() < 12


@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_a_video_that_fails_half_way_leaves_what_was_there(ending: str, tmp_path: Path) -> None:
    def broken() -> Iterator[Picture]:
        yield from list(film(moments()))[:3]
        raise ArithmeticError("the game broke")

    path = tmp_path / f"out.{ending}"
    path.write_text("old")
    with pytest.raises(ArithmeticError, match="the game broke"):
        write_video(path, broken(), 15)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_ending_decides_and_a_gif_stands_in_where_there_is_no_encoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert has_encoder()
    assert video_path(Path("a/b.mp4")) == Path("a/b.mp4")
    assert video_path(Path("a/b.gif")) == Path("a/b.gif")
    for wrong in ("b.avi", "b"):
        with pytest.raises(UserError, match=rf"ends in .mp4 or .gif, got {wrong}"):
            video_path(Path(wrong))
    for package in ("imageio.v2", "imageio_ffmpeg"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            assert not has_encoder()
            assert video_path(Path("a/b.MP4")) == Path("a/b.gif")
            assert video_path(Path("a/c.gif")) == Path("a/c.gif")
