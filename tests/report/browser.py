"""A real browser without a window, and what it sees of a page; JavaScript finds what is wrong."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120_000  # milliseconds; the machine may be busy
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# What is cut off: elements outside of the window or of their box, columns that no scrolling shows,
# drawings that cannot be seen, texts of drawings that leave them or lie on one another.
LAYOUT = """() => {
  const wrong = [], width = innerWidth;
  const named = e => `${e.tagName} ${e.className} "${e.textContent.trim().slice(0, 40)}"`;
  if (document.documentElement.scrollWidth > width) wrong.push("the page scrolls sideways");
  for (const e of document.querySelectorAll("body *:not(script):not(svg):not(svg *)")) {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    const boxed = e.parentElement.closest(".scroll, pre");
    if (!boxed && (box.left < -0.5 || box.right > width + 0.5)) wrong.push(`outside: ${named(e)}`);
    const flows = style.display !== "inline" && style.overflowX === "visible";
    if (flows && e.scrollWidth > e.clientWidth + 1) wrong.push(`spills over: ${named(e)}`);
    if (style.overflowX === "hidden" || style.textOverflow === "ellipsis")
      wrong.push(`hides: ${named(e)}`);
  }
  for (const box of document.querySelectorAll(".scroll")) {
    const rows = box.querySelectorAll("thead tr:last-child, tbody tr, tfoot tr");
    box.scrollLeft = box.scrollWidth;
    const edge = box.getBoundingClientRect().right;
    for (const row of rows) {
      const cells = [...row.cells].map(cell => cell.getBoundingClientRect());
      const last = cells.at(-1), covered = cells.length > 1 && last.left < cells[0].right - 1;
      if (last.right > edge + 1 || covered)
        wrong.push(`cannot be reached: ${named(row.cells[row.cells.length - 1])}`);
    }
    box.scrollLeft = 0;
  }
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect(), where = svg.parentElement.getAttribute("aria-label");
    if (box.width < 250 || box.height < 60) wrong.push(`too small to see: ${where}`);
    const texts = [...svg.querySelectorAll('g[id*="-text_"]')]
      .map(text => text.getBoundingClientRect()).filter(text => text.width > 0);
    if (!texts.length) wrong.push(`says nothing: ${where}`);
    for (const [at, text] of texts.entries()) {
      const inside = text.left >= box.left - 1 && text.right <= box.right + 1
        && text.top >= box.top - 1 && text.bottom <= box.bottom + 1;
      if (!inside) wrong.push(`text ${at} leaves the drawing: ${where}`);
      for (const [other, t] of texts.entries())
        if (other < at && Math.min(text.right, t.right) - Math.max(text.left, t.left) > 1
            && Math.min(text.bottom, t.bottom) - Math.max(text.top, t.top) > 1)
          wrong.push(`texts ${other} and ${at} lie on one another: ${where}`);
    }
  }
  return wrong;
}"""


@contextmanager
def started() -> Iterator[Any]:
    """The browser of the tests: CUCB_CHROMIUM, or the one on the path."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    given = os.environ.get("CUCB_CHROMIUM")
    chromium = given or next((path for path in map(shutil.which, NAMES) if path), None)
    if chromium is None:
        pytest.skip("there is no chromium on the path; install it or set CUCB_CHROMIUM")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Seen:
    """A page in the browser, what it asked for and what it complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Any, file: Path, width: int, scheme: str = "light", motion: str = "no-preference"
) -> Iterator[Seen]:
    """The page in a window of its own."""
    look = {"color_scheme": scheme, "reduced_motion": motion}
    context = browser.new_context(viewport={"width": width, "height": 900}, **look)
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        seen = Seen(page)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda message: seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.goto(file.as_uri())
        yield seen
    finally:
        context.close()
