"""Pages: complete, self-contained, escaped, and made of what the runs measured."""

import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from report.pages import PAGES, Outline, make_page
from report.runs import write_deep_run, write_demo, write_facts, write_run

from contrastive_ucb.cli import main
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.demo import content, write_demo_page
from contrastive_ucb.report.pages import render
from contrastive_ucb.report.tables import table
from contrastive_ucb.runs.grid import experiment

MIN_CONTRAST = 4.5  # of small text: WCAG 2, level AA
EVIL = "<script>alert('x & \"y\"')</script>"


def report(runs: Path, out: Path, *more: str) -> str:
    assert main(["report", str(runs), "--out", str(out), *more]) == 0
    return out.read_text(encoding="utf-8")


def test_all_text_is_escaped_and_inline_code_and_bold_are_elements() -> None:
    """Backticks once appeared literally."""
    part = {"heading": EVIL, "text": "use `a<b` and **c**", "table": EVIL, "unfinished": [EVIL]}
    part |= {"frame": table([EVIL, "`x`"], [[EVIL, "**1**"]]), "figures": []}
    figure = {"svg": "<svg></svg>", "title": EVIL, "caption": EVIL, "number": 1, "linear": True}
    texts = {"title": EVIL, "background": [EVIL], "notes": [EVIL]}
    sections = [part | {"figures": [figure]}]
    text = render("demo", content=texts, sections=sections, agents=[EVIL], commands=[EVIL])
    outline = Outline(text)
    assert outline.seen.count("script") == 1
    assert ("aria-label", f"{EVIL} of each agent.") in outline.attributes
    assert outline.text.count(EVIL) == 12
    assert "use <code>a&lt;b</code> and <strong>c</strong>" in text
    assert "<code>x</code>" in text
    assert "<strong>1</strong>" in text


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_complete_and_load_nothing(name: str, tmp_path: Path) -> None:
    text = make_page(name, tmp_path).read_text(encoding="utf-8")
    outline = Outline(text)
    assert not {"link", "img", "iframe"} & set(outline.seen)
    for key, value in outline.attributes:
        if key in ("href", "src", "xlink:href"):
            assert value is not None
            assert value.startswith("#") or value == f"{name}.csv"
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    n_figures = outline.attributes.count(("class", "drawing"))
    assert text.count("<svg") == n_figures > 0
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    visible = re.sub(r"<(style|script|svg).*?</\1>", "", text, flags=re.DOTALL)
    assert "`" not in visible
    assert "nan" not in Outline(visible).text.lower().split()


@pytest.mark.parametrize("ending", ["html", "md", "tex"])
def test_the_same_runs_give_the_same_bytes(ending: str, tmp_path: Path) -> None:
    make_page("report", tmp_path)
    runs, out = tmp_path / "report-runs", tmp_path / f"a.{ending}"
    text = report(runs, out)
    assert text == report(runs, out)
    for part in ("Atari 100K: scores", "MDPs: aggregates", "Theory: facts", "Missing runs"):
        assert part in text
    assert "12,345" in text
    if ending == "tex":
        outside = [line for line in text.splitlines() if line and not line.startswith("%")]
        assert all("&" in line or line.startswith("\\") for line in outside)


def test_missing_and_damaged_runs_are_listed_with_commands(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_deep_run(runs / "a", "spr", "DeepSea-8", 0)
    write_deep_run(runs / "a", "spr", "DeepSea-8", 1, finished=False)
    damaged = write_deep_run(runs / "a", "spr", "DeepSea-8", 2)
    (damaged / "DONE").write_text("[]")
    text = report(runs, tmp_path / "a.md")
    words = "cucb train DeepSea-8 --algo spr --steps 100000 --threads 1 --eval-episodes 100"
    assert f"{words} --seed 1 --seeds 2 --out {runs / 'a'}" in text
    assert "| DeepSea-8 | spr | 1, 2 |" in text
    assert f"{damaged}/DONE is damaged" in text


def test_one_run_is_enough_and_nothing_missing_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "uniform", "lock", 0)
    text = report(tmp_path / "runs", tmp_path / "a.html")
    assert "No run is missing." in text
    assert "one run" in text
    assert "Few runs" in text


def test_facts_are_shown_from_the_folder_or_a_file(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "uniform", "lock", 0)
    write_facts(tmp_path / "facts.json")
    assert "Theory" not in report(tmp_path / "runs", tmp_path / "a.md")
    text = report(tmp_path / "runs", tmp_path / "a.md", "--facts", str(tmp_path / "facts.json"))
    assert "-1.05 [-1.12, -0.98]" in text
    assert "1.23e6 rounds" in text
    assert "of which these do not hold: F2" in text
    assert "cucb verify --out results/theory" in text
    alone = tmp_path / "alone"
    alone.mkdir()
    write_facts(alone / "facts.json")
    assert "Theory" in report(alone, tmp_path / "b.html")


def test_the_demo_page_starts_with_the_lock_figure(tmp_path: Path) -> None:
    write_demo(tmp_path / "runs")
    out = write_demo_page(tmp_path / "runs", tmp_path / "out" / "index.html")
    text = out.read_text(encoding="utf-8")
    before = text[text.index("<h1>") : text.index("<svg")]
    assert "<p>" not in before
    assert "The lock" in before
    assert "contrastive-ucb 3 of 3; no-bonus 0 of 3; uniform 0 of 3" in text
    names = {one["name"] for part in content()["section"] for one in part["figures"]}
    assert {path.stem for path in out.parent.glob("*.png")} == names
    outline = Outline(text)
    assert '<th scope="row">random policy</th>' in text
    assert outline.text.count("Figure ") == outline.attributes.count(("class", "drawing"))


def test_the_demo_page_shows_only_the_runs_of_the_grid(tmp_path: Path) -> None:
    write_demo(tmp_path)
    with pytest.raises(UserError, match=r"no run of lock is finished .*cucb demo"):
        write_demo_page(tmp_path, tmp_path / "a.html", experiment("demo"))


def test_unfinished_runs_of_the_demo_are_named(tmp_path: Path) -> None:
    write_demo(tmp_path)
    write_run(tmp_path, "uniform", "lock", 7, finished=False)
    text = write_demo_page(tmp_path, tmp_path / "a.html").read_text()
    assert "Unfinished and left out: uniform seed 7." in text


def luminance(color: str) -> float:
    parts = np.array(to_rgb(color))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_has_enough_contrast_by_day_and_by_night(scheme: int) -> None:
    css = files("contrastive_ucb.report").joinpath("templates/style.css").read_text()
    colors = [dict(re.findall(r"--(\w+): (#\w+)", rule)) for rule in css.split(":root")[1:]][scheme]
    for text in ("ink", "soft", "accent"):
        for ground in ("paper", "card"):
            dark, light = sorted(luminance(colors[name]) for name in (text, ground))
            assert (light + 0.05) / (dark + 0.05) >= MIN_CONTRAST, (text, ground)
