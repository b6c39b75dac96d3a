"""The built site: no warnings, nothing from the network, and what a reader sees in a browser."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from report.browser import opened

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WIDTHS = (400, 800, 1400)
PAGES = (
    "index.html",
    "get-started.html",
    "how-to/bonus-in-your-agent.html",
    "explanation/ten-minutes.html",
    "explanation/bonus.html",
    "reference/api/bonus.html",
    "reference/command-line.html",
    "reference/deep-configuration.html",
    "reference/paper-map.html",
    "results/theory.html",
    "results/minatar.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in strict mode without executing the tutorials."""
    folder = tmp_path_factory.mktemp("site")
    quick = {"CUCB_EXECUTE_TUTORIALS": "false", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **quick}, capture_output=True, text=True, timeout=600
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "WARNING" not in printed
    return folder


class Page(HTMLParser):
    """The ids of a page and the targets that it links to or loads."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("img", "script", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_links_images_and_anchors_lead_somewhere(site: Path, parsed: dict[Path, Page]) -> None:
    assert len(parsed) > 40
    for path, page in parsed.items():
        if path.name == "404.html":  # written for a server
            continue
        for target in (*page.links, *page.loaded):
            parts = urlsplit(target)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert file.exists(), f"{path.relative_to(site)} refers to {target}"
            if parts.fragment and file in parsed:
                ids = parsed[file].ids
                assert unquote(parts.fragment) in ids, f"{path.relative_to(site)}: {target}"


def test_nothing_is_loaded_from_the_network(site: Path, parsed: dict[Path, Page]) -> None:
    for path, page in parsed.items():
        loaded = [target for target in page.loaded if urlsplit(target).scheme not in ("", "data")]
        assert loaded == [], path.relative_to(site)
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?https?:", styles) == []


def test_no_formula_is_left_as_tex(site: Path, parsed: dict[Path, Page]) -> None:
    for path in parsed:
        text = path.read_text(encoding="utf-8")
        assert r"\(" not in re.sub(r"<(pre|code|script)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert (site / "explanation/ten-minutes.html").read_text(encoding="utf-8").count("<math") > 20


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_every_window(name: str, browser: Any, site: Path) -> None:
    for width, scheme in zip(WIDTHS, ("light", "dark", "light"), strict=True):
        with opened(browser, site / name, width, scheme) as seen:
            seen.page.wait_for_load_state("load")
            wide = seen.page.evaluate("document.documentElement.scrollWidth")
            shown = seen.page.evaluate("document.body.dataset.mdColorScheme")
        assert wide <= width, f"{name} scrolls sideways at {width}"
        assert shown == {"light": "default", "dark": "slate"}[scheme]
        assert seen.complaints == []
        assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []


def test_formulas_are_drawn(browser: Any, site: Path) -> None:
    with opened(browser, site / "explanation/ten-minutes.html", 800) as seen:
        boxes = seen.page.evaluate(
            "[...document.querySelectorAll('article math')].map(e => e.getBoundingClientRect())"
            ".map(box => [box.width, box.height])"
        )
    assert len(boxes) > 20
    assert all(width > 3 and height > 5 for width, height in boxes)


@pytest.mark.parametrize("width", [400, 1400])
def test_search_finds_the_elliptical_bonus(width: int, browser: Any, site: Path) -> None:
    with opened(browser, site / "how-to/sweeps.html", width) as seen:
        if width < 960:
            seen.page.click("label.md-header__button[for=__search]")
        seen.page.click("input.md-search__input")
        seen.page.type("input.md-search__input", "elliptical bonus")
        # Results that lack a word have "Missing: elliptical"; further ones of a page are folded.
        found = seen.page.locator("a.md-search-result__link:visible", has_not_text="Missing")
        found.first.wait_for()
        found.first.click()
        seen.page.wait_for_load_state("load")
        assert seen.page.url.startswith(site.as_uri())
        assert "elliptical" in seen.page.inner_text("article").lower()
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.complaints == []
