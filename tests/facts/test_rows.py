"""Runs become rows: records are what the run folders contain, and the rules decide the states."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrastive_ucb.cli.verify import text_of
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts import plan as module
from contrastive_ucb.facts.plan import Plan, Record, Run, load_record, load_records, plan_of
from contrastive_ucb.facts.rows import Row, number, read_summary, summary_of, write_summary
from contrastive_ucb.facts.rules import row_of, setting_of
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.loop import solve
from contrastive_ucb.runs.pool import run_local
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
        {"fact": "F1", "claim": "falls", "rule": "slope at most", "measure": "zeta", "runs": ["a"],
         "mark": "at most 5", "limit": 5.0, "required": True, "paper": "l.1"},
        {"fact": "F2", "part": "x", "claim": "falls fast", "rule": "slope at most",
         "measure": "zeta", "runs": ["same"], "mark": "at most -50", "limit": -50.0,
         "required": True, "paper": "l.2"},
        {"fact": "F3", "claim": "later", "mark": "some", "note": "why not", "setting": "nowhere"},
    ],
    "ablations": [
        {"fact": "model", "claim": "who", "rule": "mean", "each": ["zeta"], "runs": ["b"]},
    ],
}  # fmt: skip
PLAN: Plan = plan_of(TABLE)


Verified = tuple[list[Row], dict[str, Record]]


def verify(plan: Plan, root: Path) -> Verified:
    assert run_local(plan.jobs, root, 2) == {}
    records = load_records(plan.runs, root)
    return [row_of(fact, records) for fact in plan.facts], records


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verify")


@pytest.fixture(scope="module")
def verified(root: Path) -> Verified:
    return verify(PLAN, root)


def test_a_record_contains_the_metrics_and_totals_of_its_runs(tmp_path: Path) -> None:
    problem = Problem("lowrank", settings={**SIZES, "alpha": 0.3}, rounds=40)
    solve(problem, [0, 1, 2], tmp_path, progress=False)
    record = load_record(Run("a", "", (Job(problem, 0, n_seeds=3),)), tmp_path)
    session = Session(problem.agent([0, 1, 2]))
    played = {played.step: played.figures for played in session.rounds(40)}
    assert record.rounds[[0, -1]].tolist() == [1, 40]
    assert len(record.rounds) < 20
    for at, round_number in enumerate(record.rounds):
        for name in ("zeta", "average_regret"):
            expected = played[round_number][name]
            np.testing.assert_allclose(record.curve(name)[:, at], expected, rtol=1e-5)
    for seed in range(3):
        assert record.total("final_gap")[seed] == pytest.approx(session.summary(seed)["final_gap"])
    assert record.seconds > 0
    with pytest.raises(UserError, match=r"no curve 'c'; it has .*zeta"):
        record.curve("c")


def test_runs_that_stop_end_one_by_one(tmp_path: Path) -> None:
    sizes = {"horizon": 2, "n_actions": 2, "n_dead": 2}
    lock = Problem("lock", settings=sizes, rounds=400, stops=True)
    for seed in range(2):
        solve(lock, [seed], tmp_path, progress=False)
    record = load_record(Run("a", "", (Job(lock, 0), Job(lock, 1))), tmp_path)
    solved = record.total("solved_at")
    assert np.isfinite(solved).all()
    np.testing.assert_array_equal(record.total("rounds"), solved + 4)  # the fifth round in a row
    assert record.rounds[-1] == solved.max() + 4 < 400
    assert np.isfinite(record.curve("gap")[solved.argmax()]).all()
    whole = solve(replace(lock, stops=False), [0, 1], tmp_path, progress=False)
    assert [summary["solved_at"] for summary in whole] == solved.tolist()
    assert [summary["rounds"] for summary in whole] == [400, 400]


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
    rows = [row_of(fact, records) for fact in lenient]
    assert [row.state for row in rows] == ["does not hold", "reported"]
    assert not any(row.failed for row in rows)


def test_equal_runs_are_made_once_and_finished_runs_are_kept(
    verified: Verified, root: Path
) -> None:
    rows, _ = verified
    assert rows[0].value == rows[1].value
    files = {path: path.stat().st_mtime_ns for path in root.rglob("DONE")}
    assert len(files) == 3 * 2
    assert verify(PLAN, root)[0] == rows
    assert files == {path: path.stat().st_mtime_ns for path in root.rglob("DONE")}


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


def test_the_summary_is_written_and_read(verified: Verified, tmp_path: Path) -> None:
    rows, records = verified
    summary = summary_of(PLAN, rows, records, "cucb verify")
    write_summary(tmp_path, summary)
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
    text = (tmp_path / "facts.json").read_text()
    for damaged in ("{", text.replace('"seeds": 2', '"seeds": 3')):
        (tmp_path / "facts.json").write_text(damaged)
        with pytest.raises(UserError, match=r"is damaged .*; repeat 'cucb verify"):
            read_summary(tmp_path)


def test_the_table_has_one_line_per_fact(verified: Verified) -> None:
    facts, others = text_of(verified[0]).split("\n\n")
    assert len(facts.splitlines()) == 4
    assert len(others.splitlines()) == 3
    assert "does not hold (required)" in facts


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
