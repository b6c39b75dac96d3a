"""`cucb reproduce` and `cucb report`: files by their ending, one-line errors, the same bytes."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_errors import check_error
from report.score_runs import write_atari, write_deep_run
from report.test_html import Outline

from contrastive_ucb.cli import main
from contrastive_ucb.commands.reproduce import ENDINGS, WHAT
from contrastive_ucb.envs.atari_names import ATARI_100K

NOTHING = "Nothing was run here"


def reproduce(what: str, out: Path, *more: str) -> bytes:
    assert main(["reproduce", what, "--out", str(out), *more]) == 0
    return out.read_bytes()


@pytest.mark.parametrize("what", WHAT)
def test_pages_of_published_numbers_are_whole_and_fair(what: str, tmp_path: Path) -> None:
    text = reproduce(what, tmp_path / "a.html").decode()
    outline = Outline(text)
    said = " ".join(outline.text.split())
    assert NOTHING in said
    assert "run here</th>" not in text
    assert "SPR-UCB, whose mean is 0.694, with 100 runs of SPR, whose mean is 0.616" in said
    assert "The first 10 of these 100 runs alone give 0.701" in said
    assert "Freeway, Krull, Frostbite, RoadRunner" in said
    for name, value in outline.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value.startswith("#")
    assert ("script" in outline.seen) == (what == "table")
    assert f"cucb reproduce {what}" in said


@pytest.mark.parametrize(("what", "ending"), [(w, e) for w in WHAT for e in ENDINGS[w]])
def test_the_same_command_writes_the_same_bytes(what: str, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"a{ending}"
    content = reproduce(what, out)
    assert content == reproduce(what, out)
    if ending == ".svg":
        assert ElementTree.fromstring(content).tag.endswith("svg")
    elif ending == ".png":
        assert content.startswith(b"\x89PNG")
    else:
        assert "SPR-UCB" in content.decode()
        assert "0.701" in content.decode()


@pytest.mark.parametrize("what", WHAT)
def test_runs_stand_beside_the_published_numbers(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    write_atari(runs, {"spr": 0.4, "spr-ucb": 0.6}, ATARI_100K, seeds=2, returns=())
    more = ["--runs", str(runs), "--json"]
    text = reproduce(what, tmp_path / "a.html", *more).decode()
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["run_here"] == {"spr-ucb": 52, "spr": 52}
    assert summary["missing"] == 0
    assert NOTHING not in text
    assert "spr-ucb, run here: 2 runs a game on 26 of 26 games, 52 runs in all" in text
    assert "Performance profiles" in text
    assert "Probability of improvement" in text
    assert "No run is missing." in text
    assert "On the games that were run here" not in text
    if what == "table":
        assert text.count("<strong>") > 27 * 2
        assert "run here</th>" in text
    else:
        assert "0.650 [" in text  # the mean of .6 and .7
    Outline(text)


def test_some_games_only_are_no_average_of_all(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_atari(runs, {"spr": 0.4}, ["Pong", "Alien"], seeds=2)
    write_deep_run(runs, "spr", "Pong", 2, finished=False)
    text = reproduce("figure-mean", tmp_path / "a.html", "--runs", str(runs)).decode()
    assert "On the games that were run here" in text
    assert "spr (2 of 26 games)" in text
    words = "--algo spr --steps 100000 --eval-episodes 100 --seed"
    assert f"cucb train Boxing {words} 0 --seeds 3 --out {runs}" in text
    assert f"cucb train Pong {words} 2 --out {runs}" in text
    assert "Runs that are not finished: 73." in text  # 24 games with 3 seeds, and one of Pong
    table = text.split("The figure</h2>")[1].split("</table>")[0]
    assert "run here</td>" not in table


def test_runs_of_other_lengths_say_so(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_deep_run(runs, "spr", "Pong", 0, config={"steps": 2000})
    text = reproduce("table", tmp_path / "a.md", "--runs", str(runs)).decode()
    assert "spr (2,000 steps) (run here), 1 run |" in text


def test_runs_of_other_tasks_change_nothing(tmp_path: Path) -> None:
    write_deep_run(tmp_path / "runs", "spr", "DeepSea-8", 0)
    runs = ["--runs", str(tmp_path / "runs")]
    for ending in ("md", "tex"):
        out = tmp_path / f"a.{ending}"
        assert reproduce("table", out, *runs) == reproduce("table", out)


def test_the_default_file_has_the_name_of_what_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table"]) == 0
    assert (tmp_path / "table.html").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce", "tabel"], "did you mean 'table'"),
        (["reproduce", "zzz"], "choose from table, figure-mean, figure-aggregates"),
        (["reproduce", "table", "--out", "a.png"], r"must end in one of \.html \.md \.tex"),
        (["reproduce", "figure-mean", "--out", "a.pdf"], "must end in one of"),
        (["reproduce", "table", "--out", "a"], "must end in one of"),
        (["reproduce", "table", "--out", "nowhere/a.html"], "no folder nowhere"),
        (["reproduce", "table", "--runs", "nowhere", "--out", "a.md"], "no run folder nowhere"),
        (["reproduce", "table", "--wrong"], "--wrong"),
        (["report", "nowhere"], "no run folder nowhere"),
        (["report", "--out", "a.html"], "name a folder of runs before --out"),
        (["report", ".", "--out", "a.pdf"], r"must end in one of \.html"),
        (["report", ".", "--out", "nowhere/a.html"], "no folder nowhere"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    check_error(arguments, says, capsys)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", [["report"], ["reproduce", "table", "--runs"]])
def test_empty_and_damaged_folders_are_one_line(
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    runs.mkdir()
    check_error([*command, "runs"], "there are no runs under runs", capsys)
    path = write_deep_run(runs, "spr", "Pong", 0)
    (path / "metrics.jsonl").write_text("no json\n")
    check_error([*command, "runs"], "damaged", capsys)
    (path / "spec.json").write_text("{}")
    check_error([*command, "runs"], "damaged", capsys)
    assert [*tmp_path.glob("*.html")] == []


def test_report_writes_a_page_and_a_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, out = tmp_path / "runs", tmp_path / "page.html"
    write_atari(runs, {"spr": 0.4, "spr-ucb": 0.6}, ["Pong", "Alien"])
    assert main(["report", str(runs), "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary == {
        "page": str(out),
        "scores": str(tmp_path / "page.csv"),
        "finished": 12,
        "missing": 0,
    }
    text = out.read_text()
    assert f"cucb report {runs} --out {out} --json" in Outline(text).text
    assert '<a href="page.csv">' in text


@pytest.mark.parametrize("command", ["report", "reproduce"])
def test_help_explains(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: cucb {command}" in capsys.readouterr().out
