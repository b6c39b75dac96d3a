"""`cucb verify`: quick facts hold, a second run gives the same rows, and errors are one line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_errors import check_error

from contrastive_ucb.cli import main, status


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return summary


def without_seconds(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows without what depends on the machine."""
    rows = [*summary["facts"], *summary["ablations"], *summary["peers"]]
    return [
        {key: value for key, value in row.items() if key != "seconds"}
        for row in rows
        if row["measure"] != "seconds"
    ]


@pytest.mark.slow
def test_the_quick_set_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All facts with --quick."""
    out = tmp_path / "quick"
    assert main(["verify", "--quick", "--json", "--out", str(out)]) == 0
    first = last_json(capsys)
    assert first["failed"] == []
    assert first["quick"]
    assert {row["fact"] for row in first["facts"]} == {f"F{n}" for n in range(1, 20)}
    states = {(row["fact"], row["part"]): row["state"] for row in first["facts"]}
    assert states["F16", ""] == "not run"
    assert states["F5", "lambda = .1, as printed"] == "does not hold"
    for fact in ("F3", "F4", "F6", "F7", "F12", "F13"):
        found = {s for (name, _), s in states.items() if name == fact}
        assert "holds" in found
        assert "does not hold" not in found
    assert len(list((out / "figures").glob("*.svg"))) == 16
    assert (out / "facts.csv").is_file()
    # A second command reuses the measurements; one without --out measures the same again.
    assert main(["verify", "--quick", "--json", "--out", str(out)]) == 0
    assert without_seconds(last_json(capsys)) == without_seconds(first)
    assert main(["verify", "F12", "F14", "--quick", "--json"]) == 0
    some = without_seconds(last_json(capsys))
    assert some == [row for row in without_seconds(first) if row["fact"] in ("F12", "F14")]


def test_a_required_fact_that_fails_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contrastive_ucb.facts import rules

    monkeypatch.setattr(rules, "ROUNDING", -2.0)  # so that every worst case is above its limit
    out = str(tmp_path)
    assert main(["verify", "F13", "--quick", "--json", "--seeds", "2", "--out", out]) == 2
    printed = capsys.readouterr()
    assert "2 required facts do not hold, the first is F13 2x2" in printed.err.splitlines()[-1]
    assert json.loads(printed.out.splitlines()[-1])["failed"] == ["F13 2x2", "F13 3x3"]
    assert "does not hold (required)" in printed.err
    assert json.loads((tmp_path / "facts.json").read_text())["failed"] == ["F13 2x2", "F13 3x3"]
    assert (tmp_path / "figures" / "F13.svg").is_file()


def test_a_failed_run_is_one_line(tmp_path: Path, capsys, monkeypatch) -> None:
    def failing(jobs: Any, root: Path, *_: object) -> dict[Path, str]:
        return {jobs[0].folder(root): "the worker ended with SIGKILL"}

    monkeypatch.setattr(status, "run_local", failing)
    says = r"1 run failed; facts/.*/seed_0: the worker ended with SIGKILL; repeat the command"
    arguments = ["verify", "F15", "--quick", "--json", "--out", str(tmp_path)]
    assert main(arguments) == 2
    assert re.search(says, capsys.readouterr().err.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["F77"], "no fact is called 'F77'; did you mean 'F7'"),
        (["F1", "ablation"], "did you mean 'ablations'"),
        (["--seeds", "1"], "seeds must be at least 2, got 1"),
        (["--workers", "0"], "workers must be at least 1"),
        (["--quik"], "quik"),
        (["F5", "--out", "/dev/null/x"], "cannot write to .*; pass --out FOLDER"),
    ],
)
def test_errors_are_one_line(arguments, says, capsys) -> None:
    check_error(["verify", *arguments], says, capsys)


def test_rows_of_another_command_are_not_overwritten(tmp_path: Path, capsys) -> None:
    out = str(tmp_path / "out")
    asked = ["--quick", "F5", "F16", "--seeds", "2", "--out", out, "--workers", "1"]
    assert main(["verify", *asked]) == 0
    stored = (tmp_path / "out" / "facts.json").read_bytes()
    capsys.readouterr()
    for other in (["F5", "--quick", "--seeds", "2"], ["F5", "F16", "--quick", "--seeds", "3"]):
        check_error(["verify", *other, "--out", out], "choose another folder for --out", capsys)
    assert (tmp_path / "out" / "facts.json").read_bytes() == stored
