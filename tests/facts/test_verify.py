"""Runs become rows: records are what the run folders contain, and the rules decide the states."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts import verify as module
from contrastive_ucb.facts.measure import Record, load_record
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
from contrastive_ucb.facts.verify import Verified, verify
from contrastive_ucb.runs.loop import solve
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.session import Session

SIZES = {"n_states": 4, "n_actions": 2, "horizon": 2, "rank": 2}
TABLE = {
    "window": 30,
    "kind": "solve",
    "env": "lowrank",
    "settings": SIZES,
    "seeds": 2,
    "batch": True,
    "part": [
        {"name": "a", "algo": "contrastive-ucb", "rounds": 12, "settings": {"alpha": 0.3}},
        {"name": "same", "algo": "contrastive-ucb", "rounds": 12,
         "settings": {"alpha": 0.3, "tilt": 0.0}},
        {"name": "b", "algo": ["no-bonus", "uniform"], "rounds": 9},
    ],
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
PLAN: Plan = plan_of(TABLE)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verify")


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def verified(out: Path, said: list[str]) -> Verified:
    return verify(PLAN, out, workers=2, say=said.append)


def test_a_record_contains_the_metrics_and_totals_of_its_runs(tmp_path: Path) -> None:
    problem = Problem("lowrank", SIZES, "contrastive-ucb", {"alpha": 0.3}, rounds=40)
    solve(problem, [0, 1, 2], tmp_path, progress=False)
    record = load_record([problem.spec(seed).folder(tmp_path) for seed in range(3)], 1)
    session = Session(problem.agent([0, 1, 2]))
    played = {played.number: played.figures for played in session.rounds(40)}
    assert record.rounds[[0, -1]].tolist() == [1, 40]
    assert len(record.rounds) < 20
    for at, round_number in enumerate(record.rounds):
        for name in ("zeta", "average_regret"):
            expected = played[round_number][name]
            np.testing.assert_allclose(record.curve(name)[:, at], expected, rtol=1e-5)
    for seed in range(3):
        assert record.total("final_gap")[seed] == pytest.approx(session.summary(seed)["final_gap"])
    assert record.seconds > 0


def test_runs_that_stop_end_one_by_one(tmp_path: Path) -> None:
    sizes = {"horizon": 2, "n_actions": 2, "n_dead": 2}
    lock = Problem("lock", sizes, rounds=400, stops=True)
    for seed in range(2):
        solve(lock, [seed], tmp_path, progress=False)
    record = load_record([lock.spec(seed).folder(tmp_path) for seed in range(2)], 2)
    solved = record.total("solved_at")
    assert np.isfinite(solved).all()
    np.testing.assert_array_equal(record.total("rounds"), solved + 4)  # the fifth round in a row
    assert record.rounds[-1] == solved.max() + 4 < 400
    assert np.isfinite(record.curve("gap")[solved.argmax()]).all()
    whole = solve(replace(lock, stops=False), [0, 1], tmp_path, progress=False)
    assert [summary["solved_at"] for summary in whole] == solved.tolist()
    assert [summary["rounds"] for summary in whole] == [400, 400]


def test_ratios_of_curves_and_unknown_names() -> None:
    record = Record(np.array([1, 2]), {"a": np.ones((1, 2)), "b": np.full((1, 2), 4.0)}, {}, 0.0)
    np.testing.assert_array_equal(record.ratio("a / b"), [[0.25, 0.25]])
    np.testing.assert_array_equal(record.ratio("b"), [[4.0, 4.0]])
    with pytest.raises(UserError, match="no curve 'c'; it has a, b"):
        record.curve("c")
    with pytest.raises(UserError, match="no total 'a'"):
        record.total("a")


def test_states_follow_from_the_limits(verified: Verified) -> None:
    rows, records = verified
    states = [row.state for row in rows]
    assert states == ["holds", "does not hold", "not run", "reported", "reported"]
    assert [row.failed for row in rows] == [False, True, False, False, False]
    assert (rows[2].note, rows[2].setting, rows[2].value) == ("why not", "nowhere", None)
    assert [row.part for row in rows[3:]] == ["no-bonus", "uniform"]
    assert rows[3].value == pytest.approx(records["b/no-bonus"].total("zeta").mean(), rel=1e-5)
    assert rows[0].seconds == round(records["a"].seconds, 1)
    lenient = replace(PLAN.facts[1], required=False), replace(PLAN.facts[1], reported=True)
    rows = [module._row(fact, PLAN, records) for fact in lenient]
    assert [row.state for row in rows] == ["does not hold", "reported"]
    assert not any(row.failed for row in rows)


def test_equal_runs_are_made_once_and_finished_runs_are_kept(
    verified: Verified, out: Path, said: list[str]
) -> None:
    assert verified.rows[0].value == verified.rows[1].value
    assert sorted(line.split(":")[0] for line in said)[-1].startswith("[3/3]")
    files = {path: path.stat().st_mtime_ns for path in out.glob("runs/**/DONE")}
    assert len(files) == 3 * 2
    repeated: list[str] = []
    assert verify(PLAN, out, say=repeated.append).rows == verified.rows
    assert repeated == ["3 of 3 runs are already measured"]
    assert files == {path: path.stat().st_mtime_ns for path in out.glob("runs/**/DONE")}


def test_runs_of_other_code_are_not_reused(verified: Verified, out: Path, monkeypatch) -> None:
    before = set(out.glob("runs/*"))
    monkeypatch.setattr(module, "fingerprint", lambda: "0123456789abcdef")
    only = PLAN.choose(["F1"])
    rows = verify(only, out).rows
    assert [row.value for row in rows] == [verified.rows[0].value]
    assert {path.name for path in set(out.glob("runs/*")) - before} == {"0123456789abcdef"}


def test_the_fingerprint_covers_the_code_that_measures(tmp_path, monkeypatch) -> None:
    for name in ("agents/finite/learner.py", "facts/probes.py", "report/pages.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("VALUE = 1\n")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    first = module.fingerprint.__wrapped__()
    (tmp_path / "report" / "pages.py").write_text("VALUE = 2\n")
    assert module.fingerprint.__wrapped__() == first
    for name in ("agents/finite/learner.py", "facts/probes.py"):
        (tmp_path / name).write_text("VALUE = 2\n")
        assert module.fingerprint.__wrapped__() != first
        (tmp_path / name).write_text("VALUE = 1\n")
    monkeypatch.setattr(module, "versions", lambda: {"numpy": "99"})
    assert module.fingerprint.__wrapped__() != first


def test_a_failed_run_is_one_error_with_its_reason(tmp_path: Path) -> None:
    table = {**TABLE, "probes": ["contrastive_ucb.facts.probes:CCEGap"]}  # of games
    with pytest.raises(UserError, match=r"1 runs failed; .*; repeat the command"):
        verify(plan_of(table).choose(["F1"]), tmp_path)


def test_the_summary_is_written_and_read(verified: Verified, tmp_path: Path) -> None:
    rows = verified.rows
    summary = summary_of(PLAN, rows, "cucb verify")
    write_summary(tmp_path, summary, rows)
    stored = read_summary(tmp_path)
    assert stored == json.loads(json.dumps(summary))
    assert [Row(**row) for row in stored["facts"] + stored["ablations"]] == rows
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


def test_the_table_has_one_line_per_fact(verified: Verified) -> None:
    facts, others = text_of(verified.rows).split("\n\n")
    assert len(facts.splitlines()) == 4
    assert len(others.splitlines()) == 3
    assert "does not hold (required)" in facts
    assert csv_of(verified.rows).count("\n") == 6


def test_the_setting_describes_the_runs() -> None:
    runs = PLAN.runs
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
