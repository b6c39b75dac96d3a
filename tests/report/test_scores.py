"""Scores, names, aggregates, curves and missing runs of loaded run folders."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report.runs import STEPS, write_atari, write_deep_run, write_game_run, write_run
from runs.sweep_runs import jobs_of, train_table

from contrastive_ucb.report.load import Loaded, load
from contrastive_ucb.report.scores import (
    BINS,
    RETURN,
    aggregate,
    comparable,
    curve_of,
    improvements,
    load_scores,
    mean_interval,
    missing_runs,
    on_shared_tasks,
    scores_by_agent,
)
from contrastive_ucb.runs.grid import grid_of
from contrastive_ucb.runs.store import RunFolder
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.bootstrap import interval


def names(loaded: Loaded) -> set[tuple[str, str]]:
    return set(zip(loaded.runs["task_name"], loaded.runs["agent_name"], strict=True))


def gaps(loaded: Loaded) -> dict[tuple[str, str], tuple[int, ...]]:
    rows = missing_runs(loaded.runs).itertuples()
    return {(row.task_name, row.agent_name): row.seeds for row in rows}


def test_each_kind_has_its_own_number(tmp_path: Path) -> None:
    write_atari(tmp_path, {"spr": 0.4}, ["Pong"], seeds=1)
    write_deep_run(tmp_path, "spr", "DeepSea-8", 0, score=0.5)
    write_run(tmp_path, "uniform", "lock", 0, level=2.0)
    write_run(tmp_path, "uniform", "gym", 0, level=2.0, optimal_value=None)
    write_game_run(tmp_path, "uniform", "lock-game", 0, level=2.0)
    scores = load_scores(tmp_path).runs.set_index("kind")["score"]
    assert scores.to_dict() == {
        "atari": pytest.approx(0.4),
        "deep": 0.5,
        "mdp": 1 - 0.25 / 2,  # fraction of V* = 2
        "regret": 0.25,
        "game": 0.25,
    }


@pytest.mark.parametrize("best", [0.0, None, -1.0])
def test_one_run_without_an_optimal_value_makes_the_task_raw(
    best: float | None, tmp_path: Path
) -> None:
    for agent in ("contrastive-ucb", "uniform"):
        for task in ("gym", "lock"):
            value = best if (task, agent) == ("gym", "uniform") else 2.0
            write_run(tmp_path, agent, task, 0, optimal_value=value)
    scores = load_scores(tmp_path).runs
    assert {task: set(own["kind"]) for task, own in scores.groupby("task_name")} == {
        "gym": {"regret"},
        "lock": {"mdp"},
    }


def test_names_have_the_settings_that_differ(tmp_path: Path) -> None:
    write_deep_run(tmp_path, "spr", "DeepSea-8", 0)
    write_deep_run(tmp_path, "spr", "DeepSea-8", 0, config={"agent": {"n_step": 3}})
    write_deep_run(tmp_path, "spr", "DeepSea-8", 0, config={"steps": 7})
    many = dict.fromkeys("abcd", 1)
    write_deep_run(tmp_path, "der", "DeepSea-8", 0)
    write_deep_run(tmp_path, "der", "DeepSea-8", 0, config={"agent": many})
    found = names(load_scores(tmp_path))
    assert ("DeepSea-8 (steps=7)", "spr (n_step=none)") in found
    assert ("DeepSea-8 (steps=100000)", "spr (n_step=3)") in found
    assert sum(agent.startswith("der #") for _, agent in found) == 2


def test_agents_and_tasks_are_in_their_order(tmp_path: Path) -> None:
    for agent in ("zzz", "uniform", "contrastive-ucb"):
        for task in ("lock-10", "lock-8"):
            write_run(tmp_path, agent, task, 0)
    scores = load_scores(tmp_path).runs
    assert list(scores["task"].drop_duplicates()) == ["lock-8", "lock-10"]
    assert list(scores["agent"].drop_duplicates()) == ["contrastive-ucb", "uniform", "zzz"]
    assert [one.name for one in scores_by_agent(scores)] == list(scores["agent"][:3])


def test_seeds_of_other_agents_are_missing(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path, "uniform", "lock", seed)
    write_run(tmp_path, "no-bonus", "lock", 0)
    write_run(tmp_path, "no-bonus", "lock", 4, finished=False)
    assert gaps(load_scores(tmp_path)) == {
        ("lock", "no-bonus"): (1, 2, 4),
        ("lock", "uniform"): (4,),
    }


def test_commands_come_from_the_stored_inputs(tmp_path: Path) -> None:
    own = {"settings": {"bonus.preset": "reference"}, "config": {"steps": 50}}
    for seed in (0, 1, 3):
        write_deep_run(tmp_path / "a", "spr-ucb", "DeepSea-8", seed, finished=False, **own)
    [commands] = missing_runs(load_scores(tmp_path).runs)["commands"]
    words = (
        "cucb train DeepSea-8 --algo spr-ucb --set bonus.preset=reference --steps 50 --threads 1"
    )
    assert commands == (
        f"{words} --seed 0 --seeds 2 --out {tmp_path / 'a'}",
        f"{words} --seed 3 --out {tmp_path / 'a'}",
    )
    write_run(tmp_path / "old", "uniform", "lock", 0, finished=False)  # without inputs
    assert missing_runs(load_scores(tmp_path / "old").runs)["commands"].tolist() == [()]


def test_a_sweep_lists_its_names_and_its_missing_runs(tmp_path: Path) -> None:
    table = train_table(100, seeds=3)
    table = {**table, "algo": [], "variants": {"mine": {"algo": "spr"}}}
    grid_of(table, "g").remember(tmp_path)
    jobs = jobs_of(table)
    with RunFolder(jobs[0].spec(), tmp_path) as run:
        run.metrics.touch()
        run.finish({"evaluation": {"mean": 1.0, "episodes": 20}})
    report = load_scores(tmp_path)
    assert gaps(report) == {("DeepSea-4", "mine"): (1, 2)}
    [[command]] = missing_runs(report.runs)["commands"]
    assert shlex.split(command)[:3] == ["cucb", "train", "DeepSea-4"]
    assert command.endswith(f"--seed 1 --seeds 2 --out {tmp_path}")


def test_a_curve_has_the_steps_that_all_seeds_have(tmp_path: Path) -> None:
    runs = [str(write_run(tmp_path, "uniform", "lock", s, level=1.0 + s)) for s in range(2)]
    curves = load(tmp_path).curves
    steps, values = curve_of(curves, runs, "zeta")
    assert list(steps) == [step for step in STEPS if step != 2]
    np.testing.assert_allclose(values, [[1 / k for k in steps], [2 / k for k in steps]])
    other = curves[~((curves["run"] == runs[1]) & (curves["step"] == 64))]
    assert curve_of(other, runs, "zeta")[0][-1] == 32
    assert curve_of(curves, runs, "nothing")[0].size == 0
    twice = pd.concat([curves, curves[curves["step"] == 64].assign(value=9.0)])
    assert (curve_of(twice, runs, "zeta")[1][:, -1] == 9.0).all()  # the last value counts


def test_returns_are_averaged_in_intervals() -> None:
    """Episodes end at different steps in each run."""
    rows = [("a", 1, 4.0), ("a", 2, 6.0), ("a", 100, 1.0), ("b", 80, 2.0), ("b", 100, 3.0)]
    curves = pd.DataFrame(rows, columns=["run", "step", "value"]).assign(tag=RETURN)
    steps, values = curve_of(curves, ["a", "b"], RETURN)
    assert (steps[0], steps[-1], len(steps)) == (80, 100, BINS - 31)
    assert values[:, 0].tolist() == [5.0, 2.0]  # the value of the interval before
    assert values[:, -1].tolist() == [1.0, 3.0]


def test_shared_and_comparable_tasks() -> None:
    def scores(name: str, *tasks: str) -> Scores:
        return Scores(name, tasks, tuple(np.ones(2) for _ in tasks))

    a, b, c = scores("a", "x", "y", "z"), scores("b", "z", "y"), scores("c", "x")
    assert [one.tasks for one in on_shared_tasks([a, b])] == [("y", "z")] * 2
    assert on_shared_tasks([b, c]) == []
    assert [one.name for one in comparable([a, b, c])] == ["a"]


def test_aggregates_are_the_statistics_with_intervals() -> None:
    runs = tuple(np.random.default_rng(0).normal(size=(4, 5)))
    scores = Scores("a", tuple("wxyz"), runs)
    found = aggregate([scores]).set_index("statistic")
    assert list(found.index) == ["median", "iqm", "mean", "optimality_gap"]
    assert found.loc["mean", "value"] == pytest.approx(np.mean(runs))
    expected = interval(lambda x: x.mean((-2, -1)), scores, 10_000)
    assert found.loc["mean", "low"] == pytest.approx(float(expected.low))
    assert "optimality_gap" not in set(aggregate([scores], goal=None)["statistic"])


def test_no_interval_for_fewer_than_three_runs() -> None:
    """Two equal runs once had an interval of width zero."""
    few, many = (Scores(f"{n}", ("x",), (np.ones(n),)) for n in (2, 3))
    assert aggregate([few])["low"].isna().all()
    assert aggregate([many])["low"].notna().all()
    assert improvements([few, many])["low"].isna().all()


def test_improvement_follows_the_sign_and_many_methods_are_compared_with_the_first() -> None:
    better, worse = (Scores(n, ("x",), (np.full(3, v),)) for n, v in (("a", 1.0), ("b", 0.0)))
    assert improvements([better, worse])["value"].tolist() == [1.0]
    assert improvements([better, worse], sign=-1)["value"].tolist() == [0.0]
    many = [Scores(str(n), ("x",), (np.arange(3.0) + n,)) for n in range(6)]
    assert set(improvements(many)["x"]) == {"0"}


def test_the_interval_of_the_mean_equals_a_plain_bootstrap() -> None:
    values = np.random.default_rng(1).normal(size=(5, 3))
    mean, low, high = mean_interval(values)
    drawn = np.random.default_rng(2).integers(5, size=(20_000, 5))
    expected = np.quantile(values[drawn].mean(1), [0.025, 0.975], axis=0)
    np.testing.assert_allclose(mean, values.mean(0))
    np.testing.assert_allclose([low, high], expected, atol=0.1)
