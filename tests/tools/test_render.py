"""The generated pages equal what tools/render.py renders from results/."""

from pathlib import Path

import pytest

from contrastive_ucb.facts.plan import read_plan
from contrastive_ucb.facts.rows import Row, read_summary
from contrastive_ucb.report.theory_figures import FIGURES
from tools import render

from lemmas import NOT_YET  # isort: skip

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "theory"


def test_every_generated_page_is_up_to_date() -> None:
    pages = render.pages()
    stale = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
    assert stale == [], "run 'python tools/render.py'"
    names = {path.name for path in pages}
    assert {"README.md", "theory.md", "locks.md", "deepsea.md", "where-it-helps.md"} <= names


def test_numbers_come_from_the_files() -> None:
    facts = render.Facts(read_summary(RESULTS))
    row = next(row for row in facts.rows if row.part == "zeta")
    assert facts.m("F1 zeta") == row.measured
    with pytest.raises(KeyError, match="F99"):
        facts.m("F99")
    record = render.read_records("mdp")["mdp/lock-exact-contrastive-ucb"]
    assert "| lock, exact negatives |" in render.results.solved_table([record])
    other = {**record, "inputs": {**record["inputs"], "negatives": "sampled"}}
    assert "lock, sampled negatives" in render.results.solved_table([other])


def test_parts_of_pages_are_replaced() -> None:
    text = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n"
    assert render.between(text, "x", "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="once"):
        render.between(text, "y", "new")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 170


def test_the_results_are_those_of_the_data_file() -> None:
    """Rows of the plan in its order, with its marks, from a whole run.

    Newer rows of the plan are on the page of numbered statements as not measured yet.
    """
    summary = read_summary(RESULTS)
    plan = read_plan()
    assert not summary["quick"]
    assert summary["seeds"] == 10
    rows = [*summary["facts"], *summary["ablations"], *summary["peers"]]
    names = [(row["fact"], row["part"], row["measure"]) for row in rows]
    planned = {(fact.fact, fact.part, fact.measure): fact for fact in plan.facts}
    assert names == [name for name in planned if name in set(names)]
    page = (ROOT / "docs" / "results" / "lemmas.md").read_text(encoding="utf-8")
    for missing in planned.keys() - set(names):
        lines = [line for line in page.splitlines() if f"| {planned[missing].name}: " in line]
        assert lines
        assert all(line.endswith(f"| {NOT_YET} |") for line in lines)
    for row, fact in zip(rows, [planned[name] for name in names], strict=True):
        assert row["mark"].startswith(fact.mark)
        assert row["required"] == fact.required
    assert {path.stem for path in (RESULTS / "figures").iterdir()} == set(FIGURES)


def test_results_stay_small() -> None:
    sizes = [path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()]
    assert max(sizes) < 200_000
    assert sum(sizes) < 3_000_000


def test_fixed_statements_of_the_page_agree_with_the_numbers() -> None:
    """Statements of docs/results/theory.md that are not generated."""
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
    assert in_a.limit is not None
    assert in_a.low <= in_a.limit < in_a.value
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
