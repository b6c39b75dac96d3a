"""One bad run is listed as such, and the others are reported."""

import csv
import io
import json
from pathlib import Path

import pytest
from experiments.sweep_runs import jobs_of, solve_table
from report.runs import write_run
from report.score_runs import write_deep_run

from contrastive_ucb.experiments.grid import Grid
from contrastive_ucb.report.missing import Found, read_entries, read_folder
from contrastive_ucb.report.run_files import report_files
from contrastive_ucb.report.scores import KINDS, scores_by_agent


def reported(root: Path) -> tuple[Found, str, list[dict[str, str]]]:
    out = root.parent / "report.html"
    found, files = report_files(root, out, "cucb report runs")
    rows = list(csv.DictReader(io.StringIO(files[out.with_suffix(".csv")])))
    return found, files[out], rows


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("metrics.jsonl", "no json\n", "metrics.jsonl line 1 is damaged"),
        ("spec.json", "{", "spec.json is damaged"),
        ("spec.json", None, "spec.json cannot be read"),
        ("DONE", "{", "DONE is damaged"),
        ("DONE", '{"evaluation": {"mean": NaN}}', "evaluation.mean is nan"),
        ("DONE", '{"evaluation": {}}', "DONE has no evaluation.mean"),
        ("DONE", '{"average_gap": 1.0}', "DONE has no evaluation.mean"),
        ("DONE", "{}", "DONE has no evaluation.mean"),
    ],
)
def test_a_damaged_run_is_listed_and_the_rest_is_reported(
    name: str, content: str | None, says: str, tmp_path: Path
) -> None:
    for seed in range(3):
        path = write_deep_run(tmp_path / "runs", "spr", "DeepSea-8", seed)
    (path / name).unlink()
    if content is not None:
        (path / name).write_text(content)
    found, text, rows = reported(tmp_path / "runs")
    [damage] = found.damaged
    assert damage.path == path
    assert says in damage.problem
    assert f"remove {path} " not in damage.problem  # which would cost more than is damaged
    assert f"remove {path};" not in damage.problem
    assert says in text.split("Missing runs</h2>")[1]
    assert "2 finished runs of 1 agent on 1 task" in text
    [bad] = [row for row in rows if row["status"] == "damaged"]
    assert (bad["suite"], bad["agent"], bad["task"], bad["seed"]) == (
        "train",
        "spr",
        "DeepSea-8",
        "2",
    )
    assert path.parent.name.endswith(bad["hash"])
    assert [row["status"] for row in rows].count("finished") == 2


def test_a_folder_of_damage_alone_has_a_page(tmp_path: Path) -> None:
    path = write_deep_run(tmp_path / "runs", "spr", "Pong", 0)
    (path / "spec.json").write_text("[]")
    _, text, rows = reported(tmp_path / "runs")
    assert "damaged: 1" in text
    assert [row["status"] for row in rows] == ["damaged"]
    path = write_deep_run(tmp_path / "odd", "spr", "Pong", 0, evaluation={})
    found, text, _ = reported(tmp_path / "odd")
    assert "DONE has no score (none of evaluation.mean" in text
    assert [len(gap.seeds) for gap in found.missing] == [1]


def test_a_run_that_failed_before_it_began_is_missing(tmp_path: Path) -> None:
    jobs = jobs_of(solve_table())
    Grid("g", tuple(jobs)).remember(tmp_path)
    write_run(tmp_path, "uniform", "lock", 0, suite="solve")
    folder = jobs[0].folder(tmp_path)
    folder.mkdir(parents=True)
    note = {"error": "the worker ended with SIGKILL", "log": "log.txt"}
    (folder / "FAILED").write_text(json.dumps(note))
    found = read_folder(tmp_path)
    [damage] = found.damaged
    assert "failed before it began (the worker ended with SIGKILL)" in damage.problem
    assert "remove" not in damage.problem
    [gap] = found.missing
    assert gap.seeds == (0, 1)


@pytest.mark.parametrize("best", [0.0, None, -1.0])
def test_runs_without_a_value_to_compare_with_are_reported_raw(
    best: float | None, tmp_path: Path
) -> None:
    """As of `cucb solve gym`, where nobody knows V*."""
    for agent, level in (("contrastive-ucb", 1.0), ("uniform", 2.0)):
        for task in ("gym", "lock"):
            value = best if task == "gym" and agent == "uniform" else 2.0
            write_run(tmp_path / "runs", agent, task, 0, level=level, optimal_value=value)
    entries = read_entries(tmp_path / "runs")
    raw, parts = (scores_by_agent(entries, KINDS[kind]) for kind in ("regret", "mdp"))
    # One run without V* is enough: two scales on one task cannot be compared.
    assert [(one.tasks, one.runs[0].tolist()) for one in raw] == [
        (("gym",), [0.125]),
        (("gym",), [0.25]),
    ]
    assert [one.tasks for one in parts] == [("lock",), ("lock",)]
    _, text, rows = reported(tmp_path / "runs")
    assert "MDPs whose V* is 0 or not known: scores" in text
    assert {row["measure"] for row in rows if row["task"] == "gym"} == {"average regret"}
