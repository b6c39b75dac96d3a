"""The figures of the facts from synthetic records."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from contrastive_ucb.facts.plan import Record, Run, read_plan
from contrastive_ucb.facts.rows import Row
from contrastive_ucb.report.plots import to_svg
from contrastive_ucb.report.theory_figures import CURVES, FIGURES, headline_figure, write_figures

PLAN = read_plan(quick=True)
ROW = Row(
    "F1", "zeta", "falls", "somewhere", "-1 or steeper", -0.98, -1.04, -0.93, "", "holds", True,
    12.0, "l.317", "a note", "zeta", "facts", -1.0,
)  # fmt: skip


def invented(run: Run) -> Record:
    """A record with every measure that a figure uses."""
    random = np.random.default_rng(0)
    rounds = np.array([1, 10, 100])
    lines = [line for drawing in CURVES.values() for line in drawing["lines"].values()]
    names = {name for at, names in lines if at == run.name for name in names.split(" / ")}
    curves = {name: random.uniform(0.1, 1, (2, 3)) for name in sorted(names)}
    totals = {name: random.uniform(1, 2, 2) for name in ("zeta", "solved_at")}
    if "control" in run.name:
        totals["solved_at"] = np.full(2, np.nan)
    return Record(run, rounds, curves, totals, 1.0)


def test_figures_are_drawn_from_records_and_are_the_same_twice(tmp_path: Path) -> None:
    records = {name: invented(run) for name, run in PLAN.runs.items()}
    written = write_figures(tmp_path, PLAN, records, [ROW])
    assert {path.stem for path in written} == set(FIGURES)
    again = write_figures(tmp_path / "again", PLAN, records, [ROW])
    for first, second in zip(written, again, strict=True):
        assert first.read_text() == second.read_text()
        assert "<svg" in first.read_text()
    assert written[0].read_text() != written[1].read_text()


def test_figures_of_other_facts_are_left_out(tmp_path: Path) -> None:
    plan = PLAN.choose(["F7"])
    records = {name: invented(run) for name, run in plan.runs.items()}
    written = write_figures(tmp_path, plan, records, [])
    assert [path.stem for path in written] == ["F7"]


def test_the_headline_shows_missed_targets_in_another_color() -> None:
    held = to_svg(headline_figure([ROW]))
    assert held != to_svg(headline_figure([replace(ROW, state="does not hold")]))
