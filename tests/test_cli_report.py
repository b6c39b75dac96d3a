"""`cucb reproduce` and `cucb report`: files by their ending, one-line errors, the same bytes."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_errors import check_error
from report.pages import Outline
from report.runs import edit, raw_score, write_atari, write_deep_run
from runs.sweep_runs import jobs_of, train_table

from contrastive_ucb.cli import main
from contrastive_ucb.cli.reproduce import ENDINGS
from contrastive_ucb.core import files
from contrastive_ucb.envs.atari import ATARI_100K
from contrastive_ucb.runs.grid import experiment, grid_of
from contrastive_ucb.runs.store import RunFolder
from contrastive_ucb.runs.training import Training

NOTHING = "Nothing was run here"


def set_settings(run: Path, settings: dict[str, object]) -> None:
    edit(run / "spec.json", lambda spec: spec["inputs"].update(settings=settings))


def reproduce(what: str, out: Path, *more: str) -> bytes:
    assert main(["reproduce", what, "--out", str(out), *more]) == 0
    return out.read_bytes()


@pytest.mark.parametrize(
    ("what", "ending"), [(what, ending) for what, endings in ENDINGS.items() for ending in endings]
)
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


@pytest.mark.parametrize("what", ENDINGS)
def test_runs_stand_beside_the_published_numbers(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    write_atari(runs, {"spr": 0.4, "spr-ucb": 0.6}, ATARI_100K, returns=())
    more = ["--runs", str(runs), "--json"]
    text = reproduce(what, tmp_path / "a.html", *more).decode()
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["run_here"] == {"SPR-UCB (paper)": 78, "spr": 78}
    assert summary["missing"] == 0
    assert NOTHING not in text
    assert "spr, run here: 3 runs per game on 26 of 26 games, 78 runs in total" in text
    assert "(100 episodes)" in text
    assert "Performance profiles" in text
    assert "Probability of improvement" in text
    assert "No run is missing." in text
    assert "On the games that were run here" not in text
    if what == "table":
        assert text.count("<strong>") > 27 * 2
        assert "spr (run here), 3 runs</th>" in text
    else:
        assert "0.700 [" in text  # the mean of .6, .7 and .8
    Outline(text)


def test_scores_of_spr_ucb_say_which_bonus_they_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs of `cucb train`, which have no label, and of `atari26`, which have one."""
    runs = tmp_path / "runs"
    chosen = {"paper": (0.6, {}), "reference": (0.8, {"bonus.preset": "reference"})}
    for level, settings in chosen.values():
        for seed in range(3):
            spec = Training("Pong", "spr-ucb", settings, seed=seed).spec()
            own = {"score": raw_score("Pong", level + seed / 10), "config": dict(spec.config)}
            path = write_deep_run(runs, "spr-ucb", "Pong", seed, **own)
            set_settings(path, settings)
    more = ["--runs", str(runs), "--json"]
    names = {f"SPR-UCB ({bonus})" for bonus in chosen}
    for is_planned in (False, True):
        if is_planned:
            experiment("atari26").remember(runs)
        text = reproduce("table", tmp_path / "a.md", *more).decode()
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert summary["run_here"] == dict.fromkeys(names, 3)
        head, *rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
        pong = dict(zip(head, next(row for row in rows if row[0] == "Pong"), strict=True))
        for bonus, (level, _) in chosen.items():
            cell = pong[f"SPR-UCB ({bonus}) (run here), 3 runs"]
            assert float(cell.strip("*").split("*")[0].split()[0]) == pytest.approx(level + 0.1)
        assert "SPR-UCB (released code), 10 runs" in pong
        assert "compare these numbers with SPR-UCB (reference)" in text


def test_agents_are_named_by_the_settings_of_their_bonus(tmp_path: Path) -> None:
    """Runs of SPR with the settings of the released code once had no name of their own."""
    released = {"bonus.preset": "reference", "bonus.scale": 0.0}
    expected = {
        "SPR-UCB (paper)": ("spr-ucb", {}),
        "SPR-UCB (paper) (n_step=3)": ("spr-ucb", {"n_step": 3}),
        "SPR-UCB (reference) (bonus.scale=2.0)": ("spr-ucb", {**released, "bonus.scale": 2.0}),
        "SPR (released code)": ("spr", released),
        "SPR (released code) (n_step=3)": ("spr", {**released, "n_step": 3}),
    }
    for agent, settings in expected.values():
        config = dict(Training("Pong", agent, settings).spec().config)
        path = write_deep_run(tmp_path / "runs", agent, "Pong", 0, config=config)
        set_settings(path, settings)
    text = reproduce("table", tmp_path / "a.md", "--runs", str(tmp_path / "runs")).decode()
    for name in expected:
        assert f"{name} (run here), 1 run |" in text


def test_some_games_only_are_no_average_of_all(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_atari(runs, {"spr": 0.4}, ["Pong", "Alien"], seeds=2)
    write_deep_run(runs, "spr", "Pong", 2, finished=False)
    text = reproduce("figure-mean", tmp_path / "a.html", "--runs", str(runs)).decode()
    assert "On the games that were run here" in text
    words = "--algo spr --steps 100000 --threads 1 --seed"  # 100 episodes are the default
    assert f"cucb train Boxing {words} 0 --seeds 3 --out {runs}" in text
    assert f"cucb train Pong {words} 2 --out {runs}" in text
    assert "Unfinished runs: 73." in text  # 24 games with 3 seeds, and one of Pong
    table = text.split("Figure</h2>")[1].split("</table>")[0]
    assert "run here</td>" not in table


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce", "tabel"], "invalid choice 'tabel' .*'table', 'figure-mean'"),
        (["reproduce", "table", "--out", "a.png"], r"must end in one of \.html \.md \.tex"),
        (["reproduce", "figure-mean", "--out", "a.pdf"], "must end in one of"),
        (["reproduce", "table", "--out", "a"], "must end in one of"),
        (["reproduce", "table", "--out", "nowhere/a.html"], "no folder nowhere"),
        (["reproduce", "table", "--runs", "nowhere", "--out", "a.md"], "no run folder nowhere"),
        (["reproduce", "table", "--wrong"], "--wrong"),
        (["report", "nowhere"], "no run folder nowhere"),
        (["report", "--out", "a.html"], "Missing from cucb report: FOLDER"),
        (["report", ".", "--out", "a.pdf"], r"must end in one of \.html"),
        (["report", ".", "--out", "nowhere/a.html"], "no folder nowhere"),
        (["report", ".", "--facts", "no.json"], "no file no.json; 'cucb verify --out FOLDER'"),
        (["report", ".", "--out", "/proc/a.html"], "cannot write /proc/a.html .*; name a file"),
        (["reproduce", "table", "--out", "/proc/a.md"], "cannot write /proc/a.md .*; name a file"),
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
def test_an_empty_folder_is_one_line_and_a_damaged_run_is_left_out(
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    runs.mkdir()
    check_error([*command, "runs"], "there are no runs under runs", capsys)
    assert [*tmp_path.glob("*.html")] == []
    for seed in range(2):
        path = write_deep_run(runs, "spr", "Pong", seed)
    for name, content in (("metrics.jsonl", "no json\n"), ("spec.json", "{}")):
        (path / name).write_text(content)
        assert main([*command, "runs", "--json"]) == 0
        said = capsys.readouterr()
        line, *_ = said.err.splitlines()
        assert f"left out: runs/{(path / name).relative_to(runs)}" in line
        assert "damaged" in line
        assert json.loads(said.out.splitlines()[-1])["damaged"] == 1


def test_a_full_disk_is_one_line_with_a_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_deep_run(tmp_path / "runs", "spr", "DeepSea-8", 0)
    monkeypatch.setattr(files, "write_atomically", full)
    for words in (["report", str(tmp_path / "runs")], ["reproduce", "table"]):
        out = str(tmp_path / "a.md")
        check_error([*words, "--out", out], "No space left on device.*; free some", capsys)


def test_runs_of_another_length_are_missing_once(tmp_path: Path) -> None:
    """Their gaps were counted twice, under two names."""
    runs = tmp_path / "runs"
    for seed in range(2):
        write_deep_run(runs, "spr", "Pong", seed, config={"steps": 2000}, finished=seed == 0)
    text = reproduce("table", tmp_path / "a.md", "--runs", str(runs)).decode()
    assert "Unfinished runs: 51." in text  # 25 games with 2 seeds, and one of Pong
    assert "| Pong | spr (2,000 steps) | 1 |" in text
    assert "spr (2,000 steps) (run here), 1 run |" in text
    assert text.count("cucb train Pong") == 1


def test_a_run_with_two_names_is_missing_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sweep calls the agent spr, another one has the same agent elsewhere as "mine"."""
    ours = train_table(100_000, env="Pong", settings={})
    theirs = {**ours, "env": "Alien", "algo": [], "variants": {"mine": {"algo": "spr"}}}
    for table in (ours, theirs):
        grid_of(table, "g").remember(tmp_path)
    [job] = jobs_of(ours)
    with RunFolder(job.spec(), tmp_path) as run:
        run.metrics.touch()
        run.finish({"evaluation": {"mean": 1.0, "episodes": 20}})
    reproduce("table", tmp_path / "a.md", "--runs", str(tmp_path), "--json")
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["missing"] == 25  # all games but Pong


@pytest.mark.parametrize("ending", ["md", "tex"])
def test_numbers_name_the_runs_that_they_come_from(ending: str, tmp_path: Path) -> None:
    """The figure of all games once named the runs of agents that it does not show."""
    runs = ["--runs", str(tmp_path / "runs")]
    write_atari(tmp_path / "runs", {"spr": 0.4}, ["Pong"], returns=())
    text = reproduce("figure-mean", tmp_path / f"a.{ending}", *runs).decode()
    assert "spr, run here" not in text
    assert "Left out, because not all 26 games were run: spr." in text
    assert "IQMs" not in text
    assert "Missing runs" in text
    assert "cucb train Alien --algo spr" in text
    table = reproduce("table", tmp_path / f"a.{ending}", *runs).decode()
    assert "spr, run here: 3 runs per game on 1 of 26 games" in table
    assert "IQMs" in reproduce("figure-aggregates", tmp_path / f"a.{ending}").decode()


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
        "damaged": 0,
    }
    text = out.read_text()
    assert f"cucb report {runs} --out {out} --json" in Outline(text).text
    assert '<a href="page.csv">' in text
