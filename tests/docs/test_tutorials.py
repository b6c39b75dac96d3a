"""The tutorials run, their results are as described, and the animation is up to date."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import jupytext
import pytest

from tools import animation

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
SCRIPTS = sorted(TUTORIALS.glob("*.py"))
NAMES = ("1-lock", "2-game", "3-observations", "4-deep", "5-bonus")


@cache
def printed(name: str) -> str:
    """What a tutorial prints as a script."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "MKL", "OMP")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore:FigureCanvasAgg", f"docs/tutorials/{name}.py"],
        cwd=ROOT,
        env={**os.environ, **threads, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    found = re.findall(pattern, text)
    assert found, f"{pattern} is not in:\n{text}"
    return [float(value) for value in found]


def test_there_are_five_tutorials_in_the_index() -> None:
    assert tuple(path.stem for path in SCRIPTS) == NAMES
    index = (TUTORIALS / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((.*?)\)", index) == [path.name for path in SCRIPTS]


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_a_tutorial_is_a_notebook_of_the_public_interface(path: Path) -> None:
    notebook = jupytext.read(path)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == kinds[-1] == "markdown"
    assert "## What to try next" in notebook.cells[-1].source
    assert notebook.cells[0].source.startswith("# ")
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert set(re.findall(r".*contrastive_ucb.*", code)) == {"import contrastive_ucb as cu"}
    assert not re.search(r"\bagent\.(trainer|model|tables|totals)\b", code)


@pytest.mark.slow
def test_the_lock_is_solved_by_hand_and_only_with_features_and_bonus() -> None:
    text = printed("1-lock")
    assert numbers(r"suboptimality of the last policy: (.*)", text) == [0.0]
    solved = dict(re.findall(r"(\S+) +solved in round \[(.*)\]", text))
    assert "None" not in solved["contrastive-ucb"]
    for control in ("ucbvi", "no-bonus", "uniform"):
        assert set(solved[control].split(", ")) == {"None"}


@pytest.mark.slow
def test_the_game_is_learned_within_its_certificate() -> None:
    text = printed("2-game")
    (gap,) = numbers(r"(?m)^exploitability (\S+)", text)
    (certificate,) = numbers(r"certificate +(\S+)", text)
    assert gap < 0.1
    assert gap <= certificate < 1
    solved = dict(re.findall(r"(\S+) +solved in round \[(.*)\]", text))
    assert "None" not in solved["contrastive-ulcb"]
    assert set(solved["no-bonus"].split(", ")) == {"None"}


@pytest.mark.slow
def test_the_lock_with_observations_is_solved_only_with_the_bonus() -> None:
    text = printed("3-observations")
    assert numbers(r"contrastive-ucb .* gap (\S+)", text)[0] < 0.05
    assert numbers(r"no-bonus .* gap (\S+)", text)[0] > 0.9
    assert numbers(r"mean return of 20 episodes: (\S+)", text)[0] > 0.9


@pytest.mark.slow
def test_the_deep_agent_finds_the_treasure_only_with_the_bonus() -> None:
    with_bonus, without = numbers(r"treasure in (\d+) of 150", printed("4-deep"))
    assert with_bonus > 20
    assert without == 0


@pytest.mark.slow
def test_other_agents_find_the_treasure_only_with_the_bonus() -> None:
    text = printed("5-bonus")
    with_bonus, without = numbers(r"treasure in (\d+) of 150", text)
    assert with_bonus > 20
    assert without == 0
    with_bonus, without = numbers(r"greedy return (\S+)", text)
    assert with_bonus > 0.5 > without


def test_a_short_run_repeats_the_start_of_the_animation() -> None:
    data = animation.data_of(animation.PAGE.read_text(encoding="utf-8"))
    fresh = animation.data_of(animation.page(animation.record(rounds=31)))
    count = len(fresh["rounds"])
    assert data["rounds"][:count] == fresh["rounds"] == list(range(1, 32, 3))
    for name in ("optimal", "correct"):
        assert data[name] == fresh[name]
    for agent, again in zip(data["agents"], fresh["agents"], strict=True):
        assert agent["algo"] == again["algo"]
        assert agent["frames"][:count] == again["frames"]


def test_the_animation_shows_that_only_the_bonus_opens_the_lock() -> None:
    data = animation.data_of(animation.PAGE.read_text(encoding="utf-8"))
    with_bonus, without = (agent["frames"] for agent in data["agents"])
    assert len(with_bonus) == len(without) == len(data["rounds"])
    assert with_bonus[0]["value"] < 0.1
    assert with_bonus[-1]["value"] == data["optimal"]
    assert with_bonus[-1]["policy"] == data["correct"]
    assert without[-1]["value"] < 0.1
    good_pairs = slice(0, -1)
    assert sum(with_bonus[-1]["visits"][-1][good_pairs]) > 50
    assert sum(without[-1]["visits"][-1][good_pairs]) == 0
    assert not any(bonus for frame in without for step in frame["bonus"] for bonus in step)


def test_the_page_of_the_animation_is_that_of_the_template() -> None:
    text = animation.PAGE.read_text(encoding="utf-8")
    assert text == animation.page(animation.data_of(text))
    assert len(text) < 120_000
    assert not re.search(r"\bsrc=|@import|\beval\(|innerHTML|\son\w+=", text)
