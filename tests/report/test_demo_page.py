"""The demo page: everything in one file, the same runs the same bytes."""

import re

import pytest
from report.runs import write_demo, write_run

from contrastive_ucb.errors import UserError
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.report.demo_page import write_demo_page

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
    assert text.count("<svg") == 3
    assert text.count("<table>") == 2
    for part in ("Figure 1.", "Figure 2.", "Figure 3.", "Table 1.", "Table 2."):
        assert part in text
    assert "contrastive-ucb in 3 of 3; no-bonus in 0 of 3; uniform in 0 of 3" in text
    assert "cucb solve lock --out &#x27;a &amp; b&#x27;" in text
    assert re.search(r"contrastive-ucb [\d.]+, Python 3[\d.]+, numpy [\d.]+, torch ", text)
    names = {path.name for path in made.parent.iterdir()}
    assert names == {"demo.html", "regret.png", "model_error.png", "lock.png"}


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
