"""The table of numbered statements covers the paper and shows what facts.json says."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from contrastive_ucb.facts.rows import Row
from tools import render  # noqa: F401  (makes the modules of tools importable)

from lemmas import NEVER, NOT_YET, Lemmas, Statement, read_statements  # isort: skip

LISTED = Path(__file__).parents[1] / "docs" / "paper_statements.csv"
ROW = Row("F1", "zeta", mark="-1 or steeper", value=-1.25, low=-1.5, high=-1.0, state="holds")


def test_every_numbered_statement_of_the_paper_is_in_the_table() -> None:
    with LISTED.open(encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    statements = read_statements()
    assert [(row["label"], int(row["line"])) for row in listed] == [
        (statement.label, statement.line) for statement in statements
    ]
    for row, statement in zip(listed, statements, strict=True):
        assert statement.name.lower().startswith(row["kind"])
        assert not (statement.claims and statement.reason), statement.label
    table = Lemmas({}).table
    assert all(statement.name in table for statement in statements)


def cells(lemmas: Lemmas, start: str) -> list[str]:
    lines = [line.strip("| ").split(" | ") for line in lemmas.table.splitlines()]
    (found,) = [line for line in lines if any(cell.startswith(start) for cell in line)]
    return found


def test_a_claim_shows_its_criterion_value_and_state() -> None:
    lemmas = Lemmas({"F1 zeta": ROW})
    assert cells(lemmas, "F1 zeta:")[-3:] == ["-1 or steeper", "-1.25 [-1.5, -1]", "holds"]
    assert cells(lemmas, "F1 xi:")[-1] == NOT_YET
    assert "1 have measured claims" in lemmas.overview
    missed = Lemmas({"F1 zeta": replace(ROW, state="does not hold")})
    assert cells(missed, "F1 zeta:")[-1] == "does not hold"
    not_run = Lemmas({"F1 zeta": replace(ROW, value=None, state="not run")})
    assert cells(not_run, "F1 zeta:")[-1] == NOT_YET


def test_statements_without_claims_say_why() -> None:
    lemmas = Lemmas({})
    for statement in lemmas.statements:
        if not statement.claims:
            state = cells(lemmas, statement.name + " (")[-1]
            assert state.startswith(NEVER if statement.reason else NOT_YET)
            assert statement.reason in state


def test_a_group_stands_for_its_rows_with_a_target_and_unknown_claims_are_errors() -> None:
    plan = Lemmas({}).plan
    parts = [fact.part for fact in Statement("x", "X", 1, "", ("F2",)).facts(plan)]
    assert parts == ["contrastive-ucb"]  # the others are comparisons
    reported = Statement("x", "X", 1, "", ("F2 uniform",)).facts(plan)
    assert [fact.part for fact in reported] == ["uniform"]
    with pytest.raises(KeyError, match="x names 'F99'"):
        Statement("x", "X", 1, "", ("F99",)).facts(plan)
