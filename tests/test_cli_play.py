"""`cucb play`: what it prints and writes, and how it fails."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v2
import pytest
import torch
from cli_errors import check_error
from PIL import Image
from runs.training_runs import BREAKOUT, run, training

from contrastive_ucb.cli import main


@pytest.fixture(scope="module")
def sea(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("sea"))


@pytest.fixture(scope="module")
def breakout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("breakout"), env=BREAKOUT)


def trained(root: Path, **task: Any) -> Path:
    torch.set_num_threads(1)
    run(training(**task), root)
    return root


def played(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert main(["play", *(str(word) for word in words), "--json"]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return summary


def test_a_video_of_the_sea(sea: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "out.mp4"
    summary = played(capsys, sea, "--video", path, "--fps", 10, "--scale", 3)
    assert (summary["algo"], summary["env"], summary["seed"]) == ("spr-ucb", "DeepSea-5", 0)
    assert (summary["step"], summary["steps"], summary["left_early"]) == (30, [5], 0)
    assert (summary["video"], summary["frames"]) == (str(path), 6)
    assert 0 < summary["first_bonus"] < 2
    assert 0 < summary["last_bonus"] < 2
    with imageio.v2.get_reader(path) as reader:
        assert reader.get_meta_data()["fps"] == 10
        shapes = [frame.shape for frame in reader]
    assert len(shapes) == 6
    assert shapes[0][0] > 5 * 16 * 3
    assert shapes[0][1:] == (320, 3)
    assert played(capsys, sea) == {**summary, "video": None, "frames": 0}


def test_scores_are_those_of_eval_and_a_seed_is_a_later_episode(
    breakout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(breakout), "--episodes", "6", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])["scores"]
    all_six = played(capsys, breakout, "--episodes", 6)
    assert all_six["scores"] == scores
    last_two = played(capsys, breakout, "--episodes", 2, "--seed", 4)
    assert (last_two["scores"], last_two["first_episode"]) == (scores[4:], 4)
    assert last_two["steps"] == all_six["steps"][4:]
    assert played(capsys, breakout, "--episodes", 6) == all_six
    cut = played(capsys, breakout, "--episodes", 2, "--max-steps", 3)
    assert (cut["steps"], cut["left_early"]) == ([3, 3], 2)
    wild = played(capsys, breakout, "--episodes", 6, "--epsilon", 1)
    assert wild["epsilon"] == 1
    assert wild["mean_bonus"] != all_six["mean_bonus"]


def test_without_a_bonus_there_is_none_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trained(tmp_path / "runs", algo="spr")
    summary = played(capsys, root, "--video", tmp_path / "out.gif")
    assert [summary[f"{name}_bonus"] for name in ("mean", "first", "last")] == [None] * 3
    assert summary["frames"] == 6
    assert main(["play", str(root)]) == 0
    said = capsys.readouterr().out
    assert "mean bonus" not in said
    assert "  video" not in said
    assert re.search(r"score +-?[\d.]+\n", said)


def test_without_an_encoder_it_is_a_gif(
    sea: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert main(["play", str(sea), "--video", str(tmp_path / "out.mp4"), "--json"]) == 0
    said = capsys.readouterr()
    assert "out.gif" in said.err
    assert "pip install 'contrastive-ucb[video]'" in said.err
    summary = json.loads(said.out.splitlines()[-1])
    assert summary["video"] == str(tmp_path / "out.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["out.gif"]
    with Image.open(tmp_path / "out.gif") as gif:
        assert gif.n_frames == summary["frames"] == 6


def test_what_cannot_be_drawn_is_played_without_a_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where pygame is not installed, whether or not it is here."""
    from gymnasium.envs.classic_control import CartPoleEnv

    def render(self: Any) -> None:
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed, run `pip install`")

    monkeypatch.setattr(CartPoleEnv, "render", render)
    root = trained(tmp_path / "runs", env="CartPole-v1")
    assert main(["play", str(root), "--video", str(tmp_path / "out.mp4")]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("cucb: CartPole-v1 cannot be rendered: pygame is not installed")
    assert said.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert played(capsys, root)["steps"][0] > 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--json"], "Missing from cucb play: RUN"),
        (["nowhere"], "no folder nowhere"),
        (["nowhere", "--video", "out.avi"], "ends in .mp4 or .gif, got out.avi"),
        (["nowhere", "--video", "out"], "name it out.mp4"),
        (["src", "--episodes", "0"], "episodes must be at least 1"),
        (["src", "--scale", "0"], "scale must be at least 1"),
        (["src", "--epsilon", "2"], r"epsilon must be in \[0, 1\], got 2"),
        (["src", "--fps", "inf"], "fps must be positive and finite"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    check_error(["play", *arguments], says, capsys)


@pytest.mark.parametrize("command", ["play", "eval"])
def test_a_device_that_is_not_there_is_an_error(
    command: str, sea: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    check_error([command, str(sea), "--device", "cuda"], "torch finds no CUDA", capsys)
    assert main([command, str(sea), "--device", "cpu", "--episodes", "1"]) == 0
