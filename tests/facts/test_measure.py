"""A record contains the figures of the session at recorded rounds, and survives a round trip."""

from dataclasses import replace

import numpy as np
import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts import verify
from contrastive_ucb.facts.measure import Record, measure
from contrastive_ucb.facts.plan import Run
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.session import Session

SIZES = {"n_states": 4, "n_actions": 2, "rank": 2, "horizon": 3}
PROBLEM = Problem("lowrank", SIZES, "contrastive-ucb", {"alpha": 0.3}, rounds=40)
RUN = Run("a", "task", "", PROBLEM, 3, curves=("zeta", "average_regret", "optimism"))
RUN = replace(RUN, probes=("optimism",))


def test_curves_and_totals_are_those_of_the_session() -> None:
    record = measure(RUN)
    session = Session(PROBLEM.agent([0, 1, 2]))
    played = {played.number: played.figures for played in session.rounds(40)}
    assert record.rounds[[0, -1]].tolist() == [1, 40]
    assert len(record.rounds) < 20
    for at, number in enumerate(record.rounds):
        for name in ("zeta", "average_regret"):
            np.testing.assert_array_equal(record.curve(name)[:, at], played[number][name])
    for seed in range(3):
        summary = session.summary(seed)
        for name in ("average_regret", "optimistic_fraction", "final_gap"):
            assert record.total(name)[seed] == summary[name]
    assert record.seconds > 0


def test_the_worst_value_is_over_all_rounds() -> None:
    record = measure(RUN)
    session = Session(PROBLEM.agent([0, 1, 2]))
    best = np.full(3, -np.inf)
    for played in session.rounds(40):
        best = np.maximum(best, played.figures["optimistic_value"] - session.tracker.optimal)
    np.testing.assert_array_equal(record.total("worst_optimism"), best)
    assert (record.total("worst_optimism") >= record.curve("optimism").max(-1)).all()


def test_a_run_that_may_stop_ends_when_all_seeds_have_solved_it() -> None:
    lock = Problem("lock", {"horizon": 2, "n_actions": 2, "n_dead": 2}, rounds=400)
    run = Run("lock", "lock", "", lock, 2, curves=("gap",), stops=True)
    record = measure(run)
    solved = record.total("solved_at")
    assert np.isfinite(solved).all()
    assert record.rounds[-1] == solved.max() + 4 < 400  # the fifth round in a row
    whole = measure(replace(run, stops=False))
    assert whole.rounds[-1] == 400
    np.testing.assert_array_equal(whole.total("solved_at"), solved)


def test_never_solved_is_nan_before_and_after_storing() -> None:
    lock = Problem("lock", {"horizon": 6, "n_actions": 5, "n_dead": 20}, "uniform", rounds=3)
    record = measure(Run("lock", "lock", "", lock, 2, curves=("gap",), stops=True))
    assert np.isnan(record.total("solved_at")).all()
    content = record.to_json()
    assert content["totals"]["solved_at"] == [None, None]
    assert np.isnan(Record.from_json(content).total("solved_at")).all()


def test_storing_rounds_only_once() -> None:
    record = measure(RUN)
    once = Record.from_json(record.to_json())
    assert once.to_json() == record.to_json()
    for name, values in record.curves.items():
        np.testing.assert_allclose(once.curves[name], values, rtol=1e-5)


def test_ratios_of_curves_and_unknown_names() -> None:
    record = Record(np.array([1, 2]), {"a": np.ones((1, 2)), "b": np.full((1, 2), 4.0)}, {}, 0.0)
    np.testing.assert_array_equal(record.ratio("a / b"), [[0.25, 0.25]])
    np.testing.assert_array_equal(record.ratio("b"), [[4.0, 4.0]])
    with pytest.raises(UserError, match="no curve 'c'; it has a, b"):
        record.curve("c")
    with pytest.raises(UserError, match="no total 'a'"):
        record.total("a")


def test_runs_are_reproducible_and_seeds_differ() -> None:
    first, again = measure(RUN), measure(RUN)
    np.testing.assert_array_equal(first.curve("zeta"), again.curve("zeta"))
    assert not np.allclose(first.curve("zeta")[0], first.curve("zeta")[1])


def test_the_key_depends_on_settings_and_code_but_not_on_the_name() -> None:
    key = RUN.key("code")
    assert replace(RUN, name="b", label="x").key("code") == key
    for changed in (
        replace(RUN, seeds=4),
        replace(RUN, probes=()),
        replace(RUN, curves=("zeta",)),
        replace(RUN, stops=True),
        replace(RUN, problem=replace(PROBLEM, rounds=41)),
        replace(RUN, problem=replace(PROBLEM, agent_settings={"alpha": 0.4})),
    ):
        assert changed.key("code") != key
    assert RUN.key("other code") != key
    assert replace(RUN, curves=RUN.curves[::-1]).key("code") == key


def test_the_fingerprint_covers_the_code_that_measures(tmp_path, monkeypatch) -> None:
    for name in ("agents/finite/learner.py", "facts/probes.py", "report/pages.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("VALUE = 1\n")
    monkeypatch.setattr(verify, "PACKAGE", tmp_path)
    first = verify.fingerprint.__wrapped__()
    (tmp_path / "report" / "pages.py").write_text("VALUE = 2\n")
    assert verify.fingerprint.__wrapped__() == first
    for name in ("agents/finite/learner.py", "facts/probes.py"):
        (tmp_path / name).write_text("VALUE = 2\n")
        assert verify.fingerprint.__wrapped__() != first
        (tmp_path / name).write_text("VALUE = 1\n")


def test_every_measuring_folder_exists() -> None:
    absent = {name for name in verify.MEASURING if not (verify.PACKAGE / name).is_dir()}
    assert absent <= {"experiments", "runs", "training"}
