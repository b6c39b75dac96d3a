"""The facts of the theory: read as they were written, refused when damaged."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report.pages import fact, write_facts
from report.score_runs import write_deep_run
from report.test_html import Outline

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.facts import (
    Fact,
    counted,
    facts_section,
    facts_table,
    read_facts,
    required_text,
)
from contrastive_ucb.report.run_files import report_files
from contrastive_ucb.report.tables import NOTHING

HEADING = "Theory: facts and their marks"


def report_of(root: Path, name: str = "report.html") -> str:
    out = root.parent / name
    return report_files(root, out, "cucb report runs")[1][out]


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_facts(tmp_path / "facts.json")
    found = read_facts(tmp_path)
    assert found is not None
    assert found.facts[0] == Fact(**fact())
    assert [one.fact for one in found.facts] == ["F1", "F2", "F3", "F4"]
    assert found.versions == "contrastive-ucb 0.1.0, numpy 2.4.6"
    assert (found.command, found.date) == ("cucb verify --out results/theory", "2026-01-02")


def test_no_file_no_section(tmp_path: Path) -> None:
    assert read_facts(tmp_path) is None
    write_deep_run(tmp_path / "runs", "spr", "Pong", 0)
    assert "Theory" not in report_of(tmp_path / "runs")


def test_facts_do_not_depend_on_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in results/theory of the working folder once stood on pages of any other runs."""
    published, runs = tmp_path / "results" / "theory", tmp_path / "runs"
    published.mkdir(parents=True)
    runs.mkdir()
    write_facts(published / "facts.json", facts=[fact(fact="F9")])
    monkeypatch.chdir(tmp_path)
    assert read_facts(runs) is None
    write_facts(runs / "facts.json", facts=[fact(fact="F8")])
    found = read_facts(runs)
    assert found is not None
    assert [one.fact for one in found.facts] == ["F8"]
    given = read_facts(runs, published / "facts.json")
    assert given is not None
    assert [one.fact for one in given.facts] == ["F9"]
    assert given.file == published / "facts.json"


def test_the_table_has_the_numbers_and_their_marks(tmp_path: Path) -> None:
    write_facts(tmp_path / "facts.json")
    found = read_facts(tmp_path)
    assert found is not None
    table = facts_table(found.facts)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["measured"] for row in rows] == [
        "-1.05 [-1.125, -0.98]",
        "1,234,567 rounds",
        NOTHING,
        "-1.05 [-1.125, -0.98] of the bound",
    ]
    states = ["✓ holds (required)", "✗ does not hold (required)", "not run", "reported"]
    assert [row["state"] for row in rows] == states
    assert rows[0]["mark"] == "-1 or steeper, within the interval"
    assert {row["paper"] for row in rows} == {"l.317"}
    assert rows[0]["seconds"] == "12.5"


def facts_of(*states: str, required: bool = True) -> list[Fact]:
    return [Fact(**fact(state=state, required=required, claim="it falls")) for state in states]


def test_the_words_count_what_holds() -> None:
    assert counted(facts_of("holds")) == "1 fact: 1 holds."
    mixed = facts_of("not run", "holds", "does not hold", "holds", "reported")
    told = "2 hold; 1 does not hold; 1 is reported, without a mark; 1 was not run"
    assert counted(mixed) == f"5 facts: {told}."
    assert counted([]) == "0 facts: none."
    assert required_text(facts_of("holds", "holds")) == "Required are 2, and all of these hold."
    assert required_text(facts_of("not run", required=False)) == "None of them is required."
    lacking = required_text(facts_of("holds", "not run", "does not hold"))
    assert "F1 (it falls): not run; F1 (it falls): does not hold." in lacking
    assert "not all" in lacking


def test_the_page_shows_the_facts_and_how_to_measure_them_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_deep_run(runs, "spr", "Pong", 0)
    write_facts(runs / "facts.json")
    text = report_of(runs)
    section = text.split(f"<h2>{HEADING}</h2>")[1].split("</section>")[0]
    said = re.sub("<[^>]+>", " ", section)
    assert "4 facts: 1 holds; 1 does not hold;" in said
    assert "cucb verify --out results/theory" in said
    assert f"From {runs / 'facts.json'}, measured on 2026-01-02 with contrastive-ucb 0.1.0" in said
    assert section.count("<tr>") == 1 + 4
    assert text == report_of(runs)


def test_a_folder_of_facts_alone_has_a_page(tmp_path: Path) -> None:
    theory = tmp_path / "theory"
    theory.mkdir()
    with pytest.raises(UserError, match="there are no runs"):
        report_of(theory)
    write_facts(theory / "facts.json")
    text = report_of(theory)
    assert HEADING in text
    assert "Which runs these are" not in text
    Outline(text)


def test_what_is_not_known_about_the_origin_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(json.dumps({"facts": [fact()]}))
    found = read_facts(tmp_path)
    assert found is not None
    section = facts_section(found)
    assert section.commands == ()
    assert section.table_caption.endswith("facts.json, measured.")
    (tmp_path / "facts.json").write_text(json.dumps({"facts": [], "versions": "numpy 2"}))
    found = read_facts(tmp_path)
    assert found is not None
    assert facts_section(found).table_caption.endswith("with numpy 2.")


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in fact().items() if key != name}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not valid JSON"),
        ("[]", "no JSON object with a list 'facts'"),
        ('{"facts": {}}', "no JSON object with a list 'facts'"),
        ({"facts": [7]}, "fact 1 is no JSON object"),
        ({"facts": [fact(), without("mark")]}, "fact 2 has no 'mark'"),
        ({"facts": [without("low")]}, "fact 1 has no 'low'"),
        ({"facts": [fact(state="perhaps")]}, "fact 1 has the state 'perhaps'"),
        ({"facts": [fact(claim=3)]}, "fact 1 has the claim 3"),
        ({"facts": [fact(value="1")]}, "fact 1 has the value '1'"),
        ({"facts": [fact(value=float("nan"))]}, "fact 1 has the value nan"),
        ({"facts": [fact(high=True)]}, "fact 1 has the high True"),
        ({"facts": [fact(required=1)]}, "fact 1 has the required 1"),
        ({"facts": [fact(seconds=None)]}, "fact 1 has the seconds None"),
    ],
)
def test_damaged_facts_are_one_line_with_a_way_out(content: Any, says: str, tmp_path: Path) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(UserError) as caught:
        read_facts(tmp_path)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert message.endswith(f"run 'cucb verify --out {tmp_path}' again or remove the file")


def test_text_of_another_kind_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8 text"):
        read_facts(tmp_path)


def test_a_fact_of_several_parts_names_them_and_other_words_are_left_alone(tmp_path: Path) -> None:
    facts = [fact(part="xi", note="of the last round"), fact(part="")]
    write_facts(tmp_path / "facts.json", facts=facts)
    found = read_facts(tmp_path)
    assert found is not None
    assert found.facts == (Fact(**fact(fact="F1 xi")), Fact(**fact()))
