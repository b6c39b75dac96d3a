"""docs/theory.md and the README's facts come from results/theory/, and say what the files say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.measure import Record
from contrastive_ucb.facts.plan import Run, read_plan
from contrastive_ucb.facts.rows import Row, read_summary
from contrastive_ucb.report.readme_theory import HEADLINES, PICTURE, theory_text
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.report.theory_figures import DRAWINGS, write_figures
from contrastive_ucb.report.theory_headline import SHOWN, headline_figure, limit_of
from contrastive_ucb.report.theory_page import filled, main, pivoted, theory_page
from contrastive_ucb.report.theory_text import AFTER, BEFORE, FACTS, TABLES

ROOT = Path(__file__).parents[2]
RESULTS, NEURAL = ROOT / "results" / "theory", ROOT / "results" / "neural"
PLAN = read_plan(quick=True)
ROW = Row(
    "F1", "zeta", "falls", "somewhere", "-1 or steeper", -0.98, -1.04, -0.93, "", "holds", True,
    12.0, "l.317", "a note", "zeta", "facts",
)  # fmt: skip


def test_the_page_is_generated_from_the_results() -> None:
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert page == theory_page(RESULTS, NEURAL)
    assert "| rich-lock, H=6 | contrastive-ucb |" in page


def test_the_results_are_those_of_the_data_file() -> None:
    """Every row of the plan, with the mark that the plan has, from a whole run."""
    summary = read_summary(RESULTS)
    plan = read_plan()
    assert not summary["quick"]
    assert summary["seeds"] == 10
    rows = [*summary["facts"], *summary["ablations"], *summary["peers"]]
    assert [(row["fact"], row["part"], row["measure"]) for row in rows] == [
        (fact.fact, fact.part, fact.measure) for fact in plan.facts
    ]
    for row, fact in zip(rows, plan.facts, strict=True):
        assert row["mark"].startswith(fact.mark)
        assert row["required"] == fact.required
    assert {path.stem for path in (RESULTS / "figures").iterdir()} == {*DRAWINGS, "headline"}


def test_results_stay_small() -> None:
    sizes = [path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()]
    assert max(sizes) < 200_000
    assert sum(sizes) < 3_000_000


def test_main_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "theory").symlink_to(RESULTS)
    main(tmp_path)
    assert (tmp_path / "docs" / "theory.md").read_text() == theory_page(RESULTS, tmp_path / "none")


def test_every_fact_has_words_and_every_table_a_place() -> None:
    plan = read_plan()
    assert list(FACTS) == [f"F{n}" for n in range(1, 17)]
    named = [name for _, _, names in TABLES for name in names]
    assert set(named) == {fact.fact for fact in plan.facts if fact.group != "facts"}
    words = " ".join([BEFORE, AFTER, *(text for _, text in FACTS.values())])
    for fact, part, _ in re.findall(r"\{(F\d+)(?:\s([^{}|]+))?(\|\w+)?\}", words):
        assert any((f.fact, f.part) == (fact, " ".join(part.split())) for f in plan.facts), (
            f"{fact} {part}"
        )


def test_places_are_filled_with_what_was_measured() -> None:
    text = "{F1 zeta}, {F1\nzeta|note}, {F1 zeta|value}, {F1 zeta|state}; {not a place}"
    want = "-0.98 [-1.04, -0.93], a note, -0.98, holds; {not a place}"
    assert filled(text, [ROW]) == want
    with pytest.raises(UserError, match=re.escape("{F2 zeta}, which the results do not have")):
        filled("{F2 zeta}", [ROW])


def test_a_table_has_a_line_a_setting_and_a_column_a_measure() -> None:
    one = replace(ROW, part="a", measure="average_regret", value=0.5, low=0.25, high=0.75)
    two = replace(one, measure="solved", value=3.0, note="of 10 seeds, at round 5 in the median")
    other = replace(one, part="b")
    lines = pivoted([one, two, other]).splitlines()
    assert lines[0] == "| setting | average regret | solved |"
    assert lines[2] == ("| a | 0.5 [0.25, 0.75] | 3 of 10 seeds, at round 5 in the median |")
    assert lines[3].startswith("| b | 0.5 [0.25, 0.75] |")


def test_the_readme_shows_the_headline_facts_of_the_file() -> None:
    summary = json.loads((RESULTS / "facts.json").read_text())
    text = theory_text(summary)
    rows = {(row["fact"], row["part"]): Row(**row) for row in summary["facts"]}
    assert all(rows[name].measured in text for name in HEADLINES)
    assert (ROOT / PICTURE).is_file()
    assert f"]({PICTURE})" in text
    count = sum(row.state == "holds" for row in rows.values())
    assert f"{count} hold," in text
    changed = json.loads(json.dumps(summary))
    changed["facts"][0] |= {"value": -0.123, "low": None, "high": None}
    assert "-0.123" in theory_text(changed)


def invented(run: Run) -> Record:
    """A record that has whatever a figure asks for."""
    random = np.random.default_rng(0)
    rounds = np.array([1, 10, 100])
    names = {*run.curves, "potential", "potential_printed", "potential_corrected"}
    curves = {name: random.uniform(0.1, 1, (2, 3)) for name in sorted(names)}
    totals = {name: random.uniform(1, 2, 2) for name in ("zeta", "solved_at")}
    if "control" in run.name:
        totals["solved_at"] = np.full(2, np.nan)
    return Record(rounds, curves, totals, 1.0)


def test_figures_are_drawn_from_records_and_are_the_same_twice(tmp_path: Path) -> None:
    records = {name: invented(run) for name, run in PLAN.runs.items()}
    written = write_figures(tmp_path, PLAN, records, [ROW])
    assert {path.stem for path in written} == {*DRAWINGS, "headline"}
    again = write_figures(tmp_path / "again", PLAN, records, [ROW])
    for first, second in zip(written, again, strict=True):
        assert first.read_text() == second.read_text()
        assert "<svg" in first.read_text()
    assert written[0].read_text() != written[1].read_text()


def test_figures_of_facts_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    plan = PLAN.choose(["F7"])
    records = {name: invented(run) for name, run in plan.runs.items()}
    written = write_figures(tmp_path, plan, records, [])
    assert [path.stem for path in written] == ["F7"]


def test_marks_are_read_as_numbers() -> None:
    for mark, limit in (
        ("-1 or steeper, within the interval", -1),
        ("-1/2 or steeper", -0.5),
        ("at most that of the lemma, 1.92", 1.92),
        ("at most 6, and all seeds solve it", 6),
    ):
        assert limit_of(replace(ROW, mark=mark)) == limit


def test_the_headline_shows_what_missed_in_another_colour() -> None:
    assert ("F1", "zeta") in SHOWN
    held = to_svg(headline_figure([ROW]))
    missed = to_svg(headline_figure([replace(ROW, state="does not hold")]))
    assert held != missed


def test_the_words_that_judge_are_true_of_the_numbers() -> None:
    """What theory_text says of the outcome without a place for it."""
    summary = read_summary(RESULTS)
    rows = {(row["fact"], row["part"]): Row(**row) for row in summary["facts"]}
    for part in ("2x2", "3x3"):  # flatter than the mark, which both intervals contain
        gap = rows["F11", part]
        assert gap.value is not None
        assert gap.low is not None
        assert gap.low <= -0.5 < gap.value
    for part in ("form", "form, longer locks"):  # that it is a power law is not shown
        assert rows["F8", part].state == "does not hold"
    in_a = rows["F15", "A"]  # faster than the bound, by less than the interval is wide
    assert in_a.value is not None
    assert in_a.low is not None
    assert in_a.low <= limit_of(in_a) < in_a.value
    assert all(row.value == 0 for (fact, part), row in rows.items()
               if fact == "F6" and part in ("printed", "printed, far ahead"))  # fmt: skip
    others = {
        (row["fact"], row["part"], row["measure"]): row["value"] for row in summary["ablations"]
    }
    switches = "lock: schedule, covariance, negatives, clip"
    assert others[switches, "schedule=theory", "solved"] == 0
    assert others[switches, "covariance=averaged", "solved"] == 0
    assert others["lock: alpha", "3.0", "solved"] == 0  # as bad as none
    one_switch = {part: value for (fact, part, measure), value in others.items()
                  if fact == "schedule, covariance, negatives, clip"
                  and measure == "average_regret"}  # fmt: skip
    assert min(one_switch, key=one_switch.__getitem__) == "negatives=exact"
    assert max(one_switch, key=one_switch.__getitem__) == "covariance=averaged"
    ranks = [others["rank", str(rank), "average_regret"] for rank in (2, 3, 4)]
    assert ranks[0] > ranks[2] > ranks[1]  # too small costs more than too large
    for size in ("2x2", "3x3"):  # about half
        halved = others["equilibrium of line 15", f"midpoint-nash, game-{size}", "average_gap"]
        whole = others["equilibrium of line 15", f"contrastive-ulcb, game-{size}", "average_gap"]
        assert halved < 0.6 * whole
