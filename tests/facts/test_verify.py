"""Stored measurements are reused, and the rows do not depend on how they were obtained."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts import verify as module
from contrastive_ucb.facts.measure import measure_json
from contrastive_ucb.facts.plan import Plan, plan_of
from contrastive_ucb.facts.rows import (
    Row,
    csv_of,
    number,
    read_summary,
    setting_of,
    summary_of,
    text_of,
    write_summary,
)
from contrastive_ucb.facts.verify import verify

TABLE = {
    "window": 30,
    "seeds": 2,
    "tasks": {"small": {"env": "lowrank", "n_states": 4, "n_actions": 2, "horizon": 2, "rank": 2}},
    "runs": {
        "a": {"task": "small", "rounds": 12, "curves": ["zeta"], "settings": {"alpha": 0.3}},
        "same": {
            "task": "small",
            "rounds": 12,
            "curves": ["zeta"],
            "settings": {"alpha": 0.3, "tilt": 0.0},
        },
        "b": {
            "task": "small",
            "rounds": 9,
            "curves": ["zeta"],
            "over": {"algo": ["no-bonus", "uniform"]},
        },
    },
    "facts": [
        {"fact": "F1", "claim": "falls", "rule": "slope", "measure": "zeta", "runs": ["a"],
         "mark": "at most 5", "limit": 5.0, "required": True, "paper": "l.1"},
        {"fact": "F2", "part": "x", "claim": "falls fast", "rule": "slope", "measure": "zeta",
         "runs": ["same"], "mark": "at most -50", "limit": -50.0, "required": True, "paper": "l.2"},
        {"fact": "F3", "claim": "later", "rule": "elsewhere", "runs": [], "mark": "some",
         "note": "why not", "setting": "nowhere"},
    ],
    "ablations": [
        {"fact": "model", "claim": "who", "rule": "mean", "each": ["zeta"], "runs": ["b"]},
    ],
}  # fmt: skip


def small_plan() -> Plan:
    return plan_of(TABLE, quick=False)


def without_seconds(rows: list[Row]) -> list[dict]:
    return [{k: v for k, v in row.to_json().items() if k != "seconds"} for row in rows]


def test_states_follow_from_the_limits() -> None:
    rows, records = verify(small_plan())
    states = [row.state for row in rows]
    assert states == ["holds", "does not hold", "not run", "reported", "reported"]
    assert [row.failed for row in rows] == [False, True, False, False, False]
    assert rows[2].note == "why not"
    assert rows[2].setting == "nowhere"
    assert rows[2].value is None
    assert [row.part for row in rows[3:]] == ["no-bonus", "uniform"]
    assert rows[3].value == pytest.approx(records["b/no-bonus"].total("zeta").mean(), rel=1e-5)
    assert rows[0].seconds == round(records["a"].seconds, 1)


def test_only_required_facts_fail() -> None:
    plan = small_plan()
    missed = replace(plan.facts[1], required=False)
    shown = replace(plan.facts[1], reported=True)
    rows, _ = verify(replace(plan, facts=(missed, shown)))
    assert [row.state for row in rows] == ["does not hold", "reported"]
    assert not any(row.failed for row in rows)


def test_runs_with_equal_settings_are_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    monkeypatch.setattr(
        module, "measure_json", lambda run: played.append(run.name) or measure_json(run)
    )
    messages: list[str] = []
    rows, _ = verify(small_plan(), say=messages.append)
    assert played == ["a", "b/no-bonus", "b/uniform"]
    assert rows[0].value == rows[1].value
    assert len(messages) == 3
    assert messages[-1].startswith("[3/3] b/uniform")


def test_a_killed_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = verify(small_plan(), tmp_path / "whole")
    played: list[str] = []

    def dies_at_the_second(run):
        if played:
            raise KeyboardInterrupt
        played.append(run.name)
        return measure_json(run)

    monkeypatch.setattr(module, "measure_json", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        verify(small_plan(), tmp_path / "cut")
    assert len(list((tmp_path / "cut" / "runs").iterdir())) == 1
    again = []
    monkeypatch.setattr(
        module, "measure_json", lambda run: again.append(run.name) or measure_json(run)
    )
    resumed = verify(small_plan(), tmp_path / "cut")
    assert again == ["b/no-bonus", "b/uniform"]
    assert without_seconds(resumed.rows) == without_seconds(whole.rows)
    monkeypatch.setattr(module, "measure_json", lambda run: pytest.fail("all is there"))
    third = verify(small_plan(), tmp_path / "cut")
    assert third.rows == resumed.rows  # the seconds too


def test_measurements_of_other_code_are_not_reused(tmp_path: Path, monkeypatch) -> None:
    verify(small_plan(), tmp_path)
    monkeypatch.setattr(module, "fingerprint", lambda: "other code")
    played = []
    monkeypatch.setattr(
        module, "measure_json", lambda run: played.append(run.name) or measure_json(run)
    )
    verify(small_plan(), tmp_path)
    assert len(played) == 3


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    verify(small_plan(), tmp_path)
    path = sorted((tmp_path / "runs").iterdir())[0]
    whole = json.loads(path.read_text())
    short = {**whole, "rounds": whole["rounds"][:-1]}
    for content in ('{"rounds": [1', json.dumps({**whole, "curves": []}), json.dumps(short)):
        path.write_text(content)
        with pytest.raises(UserError, match=f"{path.name} is damaged.*delete it"):
            verify(small_plan(), tmp_path)


def test_measurements_of_other_libraries_are_not_reused(tmp_path: Path, monkeypatch) -> None:
    verify(small_plan(), tmp_path)
    monkeypatch.setattr(module, "versions", lambda: {"numpy": "99"})
    played = []
    monkeypatch.setattr(
        module, "measure_json", lambda run: played.append(run.name) or measure_json(run)
    )
    verify(small_plan(), tmp_path)
    assert len(played) == 3


def test_processes_give_the_same_rows(tmp_path: Path) -> None:
    alone, together = verify(small_plan()), verify(small_plan(), tmp_path, workers=2)
    assert without_seconds(alone.rows) == without_seconds(together.rows)
    assert len(list((tmp_path / "runs").iterdir())) == 3
    assert not [path for path in (tmp_path / "runs").iterdir() if path.name.startswith(".")]


def gone(pid: int | None) -> bool:
    """Whether the process has ended, waited for or not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def test_an_error_in_a_worker_is_raised_and_ends_all_workers(monkeypatch) -> None:
    import multiprocessing

    plan = small_plan()
    broken = dict(plan.runs)
    broken["a"] = type(broken["a"])(
        **{**vars(broken["a"]), "curves": ("no such curve",), "name": "a"}
    )
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyError, match="no such curve"):
        module.measured(list(broken.values()), None, workers=2)
    deadline = time.monotonic() + 20
    for worker in set(multiprocessing.active_children()) - before:
        while not gone(worker.pid):  # whether the pool or we hear of its end first is a race
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_summary_is_written_and_read(tmp_path: Path) -> None:
    plan = small_plan()
    rows, _ = verify(plan)
    summary = summary_of(plan, rows, "cucb verify")
    write_summary(tmp_path, summary, rows)
    stored = read_summary(tmp_path)
    assert stored == json.loads(json.dumps(summary))
    first = stored["facts"][0]
    words = {"fact", "part", "claim", "setting", "mark", "unit", "state", "paper"}
    assert words | {"value", "low", "high", "required", "seconds"} <= first.keys()
    assert (first["fact"], first["state"], first["required"]) == ("F1", "holds", True)
    assert [len(stored[name]) for name in ("facts", "ablations", "peers")] == [3, 2, 0]
    assert stored["failed"] == ["F2 x"]
    assert {"command", "versions", "date", "seeds"} <= stored.keys()
    lines = (tmp_path / "facts.csv").read_text().splitlines()
    assert len(lines) == 1 + len(rows)
    assert lines[0].startswith("fact,part,claim")
    with pytest.raises(UserError, match="cannot be read"):
        read_summary(tmp_path / "nowhere")
    (tmp_path / "facts.json").write_text("{}")
    with pytest.raises(UserError, match="is damaged"):
        read_summary(tmp_path)


def test_the_table_has_one_line_per_fact() -> None:
    rows, _ = verify(small_plan())
    text = text_of(rows)
    facts, others = text.split("\n\n")
    assert len(facts.splitlines()) == 4
    assert len(others.splitlines()) == 3
    assert "does not hold (required)" in facts
    assert csv_of(rows).count("\n") == 6


def test_the_setting_describes_the_runs() -> None:
    runs = small_plan().runs
    assert setting_of([runs["a"]]) == (
        "lowrank S=4 A=2 d=2 H=2, contrastive-ucb alpha=0.3, K=12, 2 seeds"
    )
    sweep = setting_of([runs["b/no-bonus"], runs["b/uniform"]])
    assert sweep.endswith("no-bonus, K=9, 2 seeds, no-bonus | uniform")
    assert setting_of([]) == "an example without a run"


@pytest.mark.parametrize(
    ("value", "text"),
    [(10.0, "10"), (-0.98765, "-0.988"), (16_512_345.0, "1.65e7"), (2.1e-4, "2.10e-4"), (0.0, "0")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
