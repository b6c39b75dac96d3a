"""The pages in a real browser: all is seen, nothing is cut off, tables sort, nobody phones home."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from report.browser import CONTRASTS, FLAGS, LAYOUT, find_chromium, opened
from report.pages import PAGES, make_page

from contrastive_ucb.report.pages import Illustration, Section, render
from contrastive_ucb.report.plots import MIN_CONTRAST
from contrastive_ucb.report.tables import NOTHING
from contrastive_ucb.report.tables import table as make_table

CHROMIUM = find_chromium()
if CHROMIUM is None:
    pytest.skip(
        "there is no chromium on the path; install it or set CUCB_CHROMIUM", allow_module_level=True
    )
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

PHONE, DESK = 400, 1400
COLUMN = "rows => rows.map(row => row.cells[{}].textContent.trim())"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


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
def test_a_page_is_whole_on_a_phone_by_day_and_on_a_desk_by_night(
    name: str, browser: Any, made: Callable[[str], Path]
) -> None:
    """Figures are seen, nothing is cut off, all can be read, nothing is loaded, no complaint."""
    file = made(name)
    for width, scheme in ((PHONE, "light"), (DESK, "dark")):
        with opened(browser, file, width, scheme) as seen:
            assert seen.page.evaluate(LAYOUT) == [], width
            drawings = seen.page.locator("svg").count()
            assert drawings == file.read_text(encoding="utf-8").count("<svg") > 0
            contrasts = seen.page.evaluate(CONTRASTS)
        assert {"h1", "p", "td", "th", "figcaption", "code"} <= contrasts.keys()
        assert sum("-text_" in kind for kind in contrasts) > 5 * drawings
        assert {k: c for k, c in contrasts.items() if c < MIN_CONTRAST} == {}, scheme
        assert seen.requests == [file.as_uri()]
        assert seen.complaints == []


def test_what_is_wrong_is_found(browser: Any, tmp_path: Path) -> None:
    """The checks above would notice; and the policy refuses what does not belong to the page."""
    svg = (
        '<svg viewBox="0 0 100 50"><path d="M0 0H100V50H0Z" fill="#fff"/>'
        '<g id="a-text_1"><path d="M70 5H110V20H70Z" fill="#aaa"/></g>'
        '<g id="a-text_2"><path d="M90 8H99V20H90Z" fill="#000"/></g></svg>'
    )
    made = make_table(["name", "value"], [["a", "1"], ["b", "2"]], "caption")
    section = Section("A", ("b",), (Illustration(svg, "caption", "alt"),), tables=(made,))
    text = render("T", [section])
    bad = (
        "<p style='color: #999'>pale</p><p style='width: 30rem'>wide</p>"
        "<p style='width: 2rem; overflow: hidden'>concealed</p>"
        "<img src='https://elsewhere.invalid/a.png' alt=''><script>document.title = 'mine'</script>"
    )
    file = tmp_path / "a.html"
    file.write_text(text.replace("</main>", f"{bad}</main>"), encoding="utf-8")
    with opened(browser, file, PHONE) as seen:
        problems = "\n".join(seen.page.evaluate(LAYOUT))
        contrasts = seen.page.evaluate(CONTRASTS)
        assert seen.page.title() == "T"
    for what in ("scrolls sideways", "outside: P", "hides: P", "text 0 leaves", "texts 0 and 1"):
        assert what in problems
    assert 2 < contrasts["p"] < MIN_CONTRAST
    assert 2 < contrasts["alt a-text_1"] < MIN_CONTRAST
    assert contrasts["alt a-text_2"] == 21
    assert seen.requests == [file.as_uri(), "https://elsewhere.invalid/a.png"]
    assert ["Content Security Policy" in words for words in seen.complaints] == [True, True]


def column_of(table: Any, at: int) -> list[str]:
    found: list[str] = table.locator("tbody tr").evaluate_all(COLUMN.format(at))
    return found


def number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def test_the_table_of_games_sorts_numbers_as_numbers(
    browser: Any, made: Callable[[str], Path]
) -> None:
    with opened(browser, made("table"), DESK) as seen:
        table = seen.page.locator("table.games")
        before = column_of(table, 0)
        last = table.locator("thead th[scope=col]").count() - 1
        for at in (1, last):  # CURL, published everywhere; spr, run here on some games
            head = table.locator("thead th[scope=col]").nth(at)
            known = sorted(number(cell) for cell in column_of(table, at) if cell != NOTHING)
            missing = [NOTHING] * (len(before) - len(known))
            assert (at == last) == bool(missing)
            for name, values in (("descending", known[::-1]), ("ascending", known)):
                head.locator("button").click()
                cells = column_of(table, at)
                assert [number(cell) for cell in cells[: len(known)]] == values
                assert cells[len(known) :] == missing
                assert head.get_attribute("aria-sort") == name
        assert table.locator("[aria-sort]").count() == 1
        assert table.locator("tfoot").inner_text().startswith("Average")
        table.locator("thead button").first.click()
        assert column_of(table, 0) == sorted(before, key=str.lower)
    assert seen.complaints == []


def test_what_is_missing_stays_last(browser: Any, tmp_path: Path) -> None:
    """Whichever way round; and words among numbers come after these."""
    rows = (
        ("a", "pear", "one run"),
        ("b", NOTHING, "1,000"),
        ("c", "Fig", "9"),
        ("d", "", "-2e-3"),
    )
    made = make_table(["name", "kind", "value"], [*rows, ("e", "fig 10", NOTHING)])
    file = tmp_path / "a.html"
    file.write_text(render("T", [Section("A", tables=(made,))]))
    with opened(browser, file, PHONE) as seen:
        shown = seen.page.locator("table")
        orders = []
        for name in ("kind", "kind", "value", "value"):
            shown.get_by_role("button", name=name).click()
            orders.append("".join(column_of(shown, 0)))
    assert orders == ["ceabd", "aecbd", "bcdae", "dcbae"]


def test_a_drawing_has_no_seam_at_night(browser: Any, made: Callable[[str], Path]) -> None:
    """The ground around a drawing has the color that its own white becomes."""
    with opened(browser, made("figure-mean"), DESK, "dark") as seen:
        box, svg = seen.page.locator(".drawing"), seen.page.locator("svg")
        inside, outside = svg.bounding_box(), box.bounding_box()
        picture = Image.open(io.BytesIO(box.screenshot())).convert("RGB")
    middle = picture.height // 2
    edge = round(inside["x"] - outside["x"])
    assert edge > 20
    night = picture.getpixel((edge - 10, middle))
    assert night == picture.getpixel((edge + 2, 12))
    assert max(night) < 50
