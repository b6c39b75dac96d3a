"""Run folders become two tidy tables; damaged runs are listed and stop nothing."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from report.runs import edit, fact, write_deep_run, write_facts, write_run
from runs.sweep_runs import jobs_of, solve_table

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.load import load, read_facts
from contrastive_ucb.runs.grid import Grid


def test_runs_and_curves(tmp_path: Path) -> None:
    path = write_run(tmp_path, "uniform", "lock", 3, level=2.0, solved_at=None)
    deep = write_deep_run(tmp_path, "spr", "DeepSea-8", 0, score=0.5, settings={"n_step": 3})
    loaded = load(tmp_path)
    runs = loaded.runs.set_index("run")
    assert list(runs["status"]) == ["finished", "finished"]
    row = runs.loc[str(path)]
    assert (row["suite"], row["agent"], row["task"], row["seed"]) == ("solve", "uniform", "lock", 3)
    assert row["average_regret"] == 0.25
    assert row["config"] == {"rounds": 64}
    assert row["hash"] == path.parent.name.rpartition("-")[2]
    assert "numpy" in row["versions"]
    assert runs.loc[str(deep), "evaluation.mean"] == 0.5
    assert runs.loc[str(deep), "inputs"]["settings"] == {"n_step": 3}
    curves = loaded.curves[loaded.curves["run"] == str(path)]
    assert list(loaded.curves.columns) == ["run", "step", "tag", "value"]
    gaps = curves[curves["tag"] == "gap"]
    assert list(gaps["step"]) == [1, 2, 4, 8, 16, 32, 64]
    assert list(gaps["value"]) == [2.0 / step for step in gaps["step"]]
    assert loaded.problems == []


def test_runs_are_found_at_any_depth(tmp_path: Path) -> None:
    """`cucb train --out runs/sea` followed by `cucb report runs` once omitted the run."""
    write_run(tmp_path / "sea" / "deeper", "uniform", "lock", 0)
    write_run(tmp_path / "other", "uniform", "lock", 1)
    write_run(tmp_path, "uniform", "lock", 2)
    (tmp_path / ".draft").mkdir()
    write_run(tmp_path / ".draft", "uniform", "lock", 4)
    runs = load(tmp_path).runs
    assert sorted(runs["seed"]) == [0, 1, 2]
    assert runs["identity"].nunique() == 1
    assert len(load(tmp_path / "sea" / "deeper" / "solve").runs) == 1


def test_a_copy_of_a_run_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "uniform", "lock", 0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    loaded = load(tmp_path)
    assert sorted(loaded.runs["status"]) == ["damaged", "finished"]
    assert "is a copy of" in loaded.problems[0]


def test_unfinished_runs_contribute_no_numbers(tmp_path: Path) -> None:
    path = write_run(tmp_path, "uniform", "lock", 0, finished=False)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 128, "ga')  # a running process writes this line
    (path.parent / "seed_1").mkdir()  # stopped before anything was written
    (path.parent / "seed_1" / ".lock").touch()
    loaded = load(tmp_path)
    assert list(loaded.runs["status"]) == ["unfinished"]
    assert loaded.curves.empty


def text(name: str, content: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_text(content) and None


def summary(**changes: object) -> Callable[[Path], None]:
    return lambda path: edit(path / "DONE", lambda content: content.update(changes))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (text("metrics.jsonl", "no json\n"), r"metrics.jsonl line 1 .*not valid JSON.*repair"),
        (text("metrics.jsonl", '{"step": 1.5}\n'), "whole 'step'"),
        (text("metrics.jsonl", '{"step": 1, "gap": NaN}\n'), "gap is nan, not a finite number"),
        (text("metrics.jsonl", '{"step": 2}\n{"step": 1}\n'), "line 2 .*step 1 after 2"),
        (text("metrics.jsonl", '{"step": 1}\n{"st'), "line 2 .*not valid JSON"),
        (lambda path: (path / "metrics.jsonl").unlink(), "metrics.jsonl cannot be read"),
        (lambda path: (path / "metrics.jsonl").write_bytes(b"\xff"), "cannot be read as UTF-8"),
        (text("DONE", "[]"), "DONE is damaged .*no JSON object.*remove"),
        (summary(average_regret="big"), "average_regret is 'big', not a finite number"),
        (summary(average_regret=None), "has no score .*average_regret.*remove"),
        (text("spec.json", "{}"), "spec.json is damaged .*'suite'.*remove"),
        (text("spec.json", "[]"), "no JSON object"),
        (lambda path: edit(path / "spec.json", lambda c: c.update(seed="0")), "seed .*'0'"),
        (lambda path: edit(path / "spec.json", lambda c: c.update(agent="b")), "move the folder"),
    ],
)
def test_a_damaged_run_is_listed(damage: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    write_run(tmp_path, "uniform", "lock", 0)
    damage(write_run(tmp_path, "uniform", "lock", 1))
    loaded = load(tmp_path)
    assert sorted(loaded.runs["status"]) == ["damaged", "finished"]
    [problem] = loaded.problems
    assert str(tmp_path) in problem
    assert re.search(says, problem), problem


def test_a_run_that_failed_before_it_began_is_planned(tmp_path: Path) -> None:
    jobs = jobs_of(solve_table())
    Grid("g", tuple(jobs)).remember(tmp_path)
    folder = jobs[0].folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "FAILED").write_text(json.dumps({"error": "killed by SIGKILL", "log": "log.txt"}))
    loaded = load(tmp_path)
    assert "failed before it began (killed by SIGKILL)" in loaded.problems[0]
    planned = loaded.runs[loaded.runs["status"] == "planned"]
    assert sorted(planned["seed"]) == [0, 1]


def test_plans_of_sweeps_below_the_folder(tmp_path: Path) -> None:
    jobs = jobs_of(solve_table())
    Grid("g", tuple(jobs)).remember(tmp_path / "g")
    runs = load(tmp_path).runs
    assert list(runs["status"]) == ["planned", "planned"]
    assert set(runs["run"]) == {str(job.folder(tmp_path / "g")) for job in jobs}
    assert runs["words"].iloc[0] == tuple(jobs[0].words())
    (tmp_path / "g" / "sweeps" / "x.json").write_text('{"groups": [{}]}')
    with pytest.raises(UserError, match=r"x\.json is damaged .*remove it"):
        load(tmp_path)


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there are no runs under .*--out"):
        load(tmp_path)
    assert load(tmp_path, may_be_empty=True).runs.empty
    with pytest.raises(UserError, match=r"no run folder .*nowhere"):
        load(tmp_path / "nowhere")


def test_facts_are_read(tmp_path: Path) -> None:
    assert read_facts(tmp_path) is None
    write_facts(tmp_path / "facts.json")
    found = read_facts(tmp_path)
    assert found is not None
    assert [row.state for row in found["facts"]] == [
        "holds",
        "does not hold",
        "not run",
        "reported",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not valid JSON"),
        ({"facts": 3}, "is damaged"),
        ({"facts": [3]}, "is damaged"),
        ({"facts": [{**fact(), "value": "big"}]}, "is damaged"),
        ({"facts": [{k: v for k, v in fact().items() if k != "mark"}]}, "'mark'"),
    ],
)
def test_damaged_facts_name_the_problem(content: object, says: str, tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=f"{says}.*cucb verify --out {tmp_path}"):
        read_facts(tmp_path)
