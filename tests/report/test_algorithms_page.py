"""The table of agents, and that the page in docs/ is as the presets are."""

from pathlib import Path

import pytest

from contrastive_ucb.agents.deep.presets import ALGORITHMS, DEEP_PRESETS, configure
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.agent_table import (
    differences,
    markdown_table,
    rows,
    settings_of,
    shown,
    text_table,
)
from contrastive_ucb.report.algorithms_page import main, with_tables

PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"


def test_the_page_is_what_the_presets_make_of_it(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert with_tables(text) == text
    (tmp_path / "docs").mkdir()
    for name in ("agents", "settings"):
        begin = f"<!-- {name}:begin -->\n"
        start, end = text.index(begin) + len(begin), text.index(f"<!-- {name}:end -->")
        text = text[:start] + text[end:]
    (tmp_path / "docs" / "algorithms.md").write_text(text)
    main(tmp_path)
    assert (tmp_path / "docs" / "algorithms.md").read_text() == PAGE.read_text()
    with pytest.raises(UserError, match="needs the markers"):
        with_tables("no markers")


def test_the_table_has_what_differs_and_nothing_else() -> None:
    everything = settings_of()
    table = differences(everything)
    assert list(table) == [name for name in ALGORITHMS if name in DEEP_PRESETS]
    for name in next(iter(everything.values())):
        values = [everything[algo][name] for algo in everything]
        assert (name in table["spr"]) == any(value != values[0] for value in values)
    assert table["der"]["noisy"] == DEEP_PRESETS["der"].noisy
    small = settings_of((4, 10, 10))
    assert small["otr"]["hidden"] == configure("otr", {}, (4, 10, 10)).hidden


def test_tables_as_text_and_as_markdown() -> None:
    cells = rows({"a": {"x": 1.5, "long": True}, "bb": {"x": 20, "long": (1.0, 0.25)}})
    assert cells == [["setting", "a", "bb"], ["x", "1.5", "20"], ["long", "yes", "1,0.25"]]
    assert text_table(cells).splitlines() == [
        "setting    a      bb",
        "x        1.5      20",
        "long     yes  1,0.25",
    ]
    assert text_table([["a", "b"], ["cc", "d"]], numbers=False) == "a   b\ncc  d"
    assert markdown_table([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert shown(False) == "no"
