"""The pages in a real browser: all is seen, nothing is cut off, tables sort, nobody phones home."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report.browser import LAYOUT, opened
from report.pages import PAGES, make_page

from contrastive_ucb.report.pages import render
from contrastive_ucb.report.tables import NOTHING
from contrastive_ucb.report.tables import table as make_table

PHONE, DESK = 400, 1400
COLUMN = "rows => rows.map(row => row.cells[{}].textContent.trim())"


def small_page(frame: Any) -> str:
    """A page with one table."""
    part = {"heading": "A", "text": "b", "frame": frame, "table": "caption", "unfinished": []}
    texts = {"title": "T", "background": [], "notes": []}
    sections = [{**part, "figures": []}]
    return render("demo", content=texts, sections=sections, agents=[], commands=[])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a name, made when it is first asked for."""
    folder, done = tmp_path_factory.mktemp("pages"), dict[str, Path]()

    def get(name: str) -> Path:
        if name not in done:
            done[name] = make_page(name, folder)
        return done[name]

    return get


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_a_phone_and_on_a_desk(
    name: str, browser: Any, made: Callable[[str], Path]
) -> None:
    """Figures are seen, nothing is cut off, nothing is loaded, no complaint."""
    file = made(name)
    for width, scheme in ((PHONE, "light"), (DESK, "dark")):
        with opened(browser, file, width, scheme) as seen:
            assert seen.page.evaluate(LAYOUT) == [], width
            drawings = seen.page.locator("svg").count()
            assert drawings == file.read_text(encoding="utf-8").count("<svg") > 0
        assert seen.requests == [file.as_uri()]
        assert seen.complaints == []


def column_of(table: Any, at: int) -> list[str]:
    found: list[str] = table.locator("tbody tr").evaluate_all(COLUMN.format(at))
    return found


def test_tables_sort_and_what_is_missing_stays_last(browser: Any, tmp_path: Path) -> None:
    """Whichever way round; and words among numbers come after these."""
    rows = (
        ("a", "pear", "one run"),
        ("b", NOTHING, "1,000"),
        ("c", "Fig", "9"),
        ("d", "", "-2e-3"),
    )
    made = make_table(["name", "kind", "value"], [*rows, ("e", "fig 10", NOTHING)])
    file = tmp_path / "a.html"
    file.write_text(small_page(made))
    with opened(browser, file, PHONE) as seen:
        shown = seen.page.locator("table")
        orders = []
        for name in ("kind", "kind", "value", "value"):
            button = shown.get_by_role("button", name=name)
            button.click()
            orders.append("".join(column_of(shown, 0)))
        assert shown.locator("[aria-sort]").count() == 1
    assert orders == ["ceabd", "aecbd", "bcdae", "dcbae"]
