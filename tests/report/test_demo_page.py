"""The demo page: everything in one file, the same runs the same bytes."""

import re

import pytest
from report.runs import write_demo, write_game_run, write_run, write_sea_run

from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.report.demo_page import write_demo_page
from contrastive_ucb.report.demo_text import INTRO, PEERS

COMMANDS = ["make demo", "cucb solve lock --out 'a & b'"]


@pytest.fixture
def root(tmp_path):
    write_demo(tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A page that the tests only look at."""
    folder = tmp_path_factory.mktemp("made")
    write_demo(folder / "runs")
    return write_demo_page(folder / "runs", folder / "new" / "demo.html", COMMANDS)


def test_the_page_has_its_parts(made):
    text = made.read_text(encoding="utf-8")
    assert text.count("<svg") == 8
    assert text.count("<table>") == 5
    parts = [*(f"Figure {n}." for n in range(1, 9)), *(f"Table {n}." for n in range(1, 6))]
    places = [text.index(part) for part in parts]
    assert places[:8] == sorted(places[:8])
    assert places[8:] == sorted(places[8:])
    assert "contrastive-ucb in 3 of 3; no-bonus in 0 of 3; uniform in 0 of 3" in text
    assert "cucb solve lock --out &#x27;a &amp; b&#x27;" in text
    assert re.search(r"contrastive-ucb [\d.]+, Python 3[\d.]+, numpy [\d.]+, torch ", text)
    names = {path.name for path in made.parent.iterdir()}
    pictures = ["regret", "model_error", "lock", "gap", "certificate", "equilibrium", "vault"]
    assert names == {"demo.html", *(f"{name}.png" for name in [*pictures, "deep_sea"])}


def test_games_stand_apart_from_the_mdps_of_the_same_kind(made):
    """`lowrank-game` begins with `lowrank`; the two once would have shared a table."""
    text = made.read_text(encoding="utf-8")
    lowrank, lock, game, vault, _ = re.findall(r"<tbody>(.*?)</tbody>", text, flags=re.DOTALL)
    assert "contrastive-ulcb" not in lowrank + lock
    assert "contrastive-ulcb" in game
    assert "contrastive-ulcb in 2 of 2; uniform in 0 of 2" in text
    assert re.search(r"contrastive-ulcb</th>.*<td>2 of 2</td><td>30.5</td>", vault)
    assert '<th scope="row">uniform</th><td>2</td><td>64</td>' in game


def test_every_picture_is_told_in_words(made):
    text = made.read_text(encoding="utf-8")
    told = re.findall(r'role="img" aria-label="([^"]+)"', text)
    assert len(told) == 8
    assert len(set(told)) == 8
    thirds = "Learnt: the row player 0.33, 0.33, 0.33, the column player 0.50, 0.50, value"
    assert any(thirds in alt for alt in told)


def test_the_words_that_games_need_are_explained(made):
    text = made.read_text(encoding="utf-8")
    words = ("zero-sum", "Nash equilibrium", "exploitability", "certificate", "coarse correlated")
    for word in words:
        assert word in " ".join(INTRO)
        assert word in text


def test_the_deep_sea_is_told_from_its_runs(made):
    text = made.read_text(encoding="utf-8")
    assert "The deep sea: the same bonus in a deep agent" in text
    assert "Seeds that did: spr-ucb in 2 of 2; spr in 0 of 2." in text
    assert "<li>spr-ucb: a deep agent" in text
    assert text.index("<li>spr-ucb: ") < text.index("<li>spr: ")


@pytest.mark.parametrize("name", [*PRESETS, *GAME_PRESETS, "spr-ucb", "spr"])
def test_everybody_who_can_take_part_is_introduced(name):
    assert PEERS[name].endswith(".")


def test_nothing_comes_from_elsewhere(made):
    text = made.read_text(encoding="utf-8")
    references = re.findall(r'(?:src|href|action)\s*=\s*"([^"]*)"', text)
    assert references
    assert all(reference.startswith("#") for reference in references)
    assert all(inner.startswith("#") for inner in re.findall(r"url\(([^)]*)\)", text))
    # The names of SVG's namespaces look like addresses, but nobody goes there.
    outside = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.search(r"https?://|<script|@import", outside)


def test_no_id_is_used_twice(made):
    text = made.read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_same_runs_give_the_same_bytes(root, tmp_path):
    first = write_demo_page(root, tmp_path / "a" / "demo.html", COMMANDS)
    second = write_demo_page(root, tmp_path / "b" / "demo.html", COMMANDS)
    write_demo_page(root, second, COMMANDS)
    for path in first.parent.iterdir():
        assert path.read_bytes() == (second.parent / path.name).read_bytes()


def test_unfinished_runs_are_shown_as_such(root, tmp_path):
    write_run(root, "uniform", "lock", 3, finished=False)
    text = write_demo_page(root, tmp_path / "demo.html", COMMANDS).read_text(encoding="utf-8")
    assert "Not finished, and left out: uniform seed 3." in text
    assert "3 of 4 (missing: 3)" in text
    write_game_run(root, "uniform", "lock-game", 5, finished=False)
    write_sea_run(root, "spr", 6, finished=False)
    text = write_demo_page(root, tmp_path / "demo.html", COMMANDS).read_text(encoding="utf-8")
    assert "left out: uniform seed 5." in text
    assert "left out: spr seed 6." in text


def test_only_the_given_folders_are_shown(root, tmp_path):
    other = RunSpec("demo", "contrastive-ucb", "lock", 0, {"rounds": 64})
    kept = {path for path in root.glob("demo/*/*") if path.parent.name != "uniform"}
    assert other.folder(root).parent in kept
    out = write_demo_page(root, tmp_path / "demo.html", COMMANDS, kept)
    assert "uniform in 0" not in out.read_text(encoding="utf-8")


def test_without_runs_there_is_no_page(tmp_path):
    write_run(tmp_path, "uniform", "lowrank", 0)
    write_run(tmp_path, "uniform", "lock", 0, finished=False)
    with pytest.raises(UserError, match=r"no run of lock-\* is finished"):
        write_demo_page(tmp_path, tmp_path / "out" / "demo.html", COMMANDS)
    assert not (tmp_path / "out").exists()


def test_without_contrastive_ulcb_there_is_no_certificate_to_show(root, tmp_path):
    kept = {path for path in root.glob("demo/*/*") if path.parent.name != "contrastive-ulcb"}
    with pytest.raises(UserError, match="no run of contrastive-ulcb on the random game"):
        write_demo_page(root, tmp_path / "out" / "demo.html", COMMANDS, kept)


def test_without_a_dive_there_is_no_page(root, tmp_path):
    kept = {path for path in root.glob("demo/*/*") if not path.name.startswith("DeepSea-8")}
    with pytest.raises(UserError, match=r"no run of DeepSea-8-\* is finished"):
        write_demo_page(root, tmp_path / "out" / "demo.html", COMMANDS, kept)
    assert not (tmp_path / "out").exists()
