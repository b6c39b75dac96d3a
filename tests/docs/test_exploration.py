"""The animation of the first tutorial works in a browser, opened from a file."""

from collections.abc import Iterator
from typing import Any

import pytest
from report.browser import FLAGS, PATIENCE, find_chromium

from tools import animation

CHROMIUM = find_chromium()
if CHROMIUM is None:
    pytest.skip(
        "there is no chromium on the path; install it or set CUCB_CHROMIUM", allow_module_level=True
    )
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

ROUND = "document.querySelector('#exploration output').textContent"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


def opened(browser: Any, width: int, motion: str) -> tuple[Any, list[str]]:
    """The page of the animation, and a list that collects its errors and requests."""
    view = {"width": width, "height": 900}
    page = browser.new_page(viewport=view, reduced_motion=motion)
    page.set_default_timeout(PATIENCE)
    seen: list[str] = []
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: seen.append(request.url))
    page.goto(animation.PAGE.as_uri())
    return page, seen


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_the_animation_fits_and_needs_nothing_else(browser: Any, width: int) -> None:
    page, seen = opened(browser, width, "reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#exploration .panels svg").count() == 3
    assert seen == [animation.PAGE.as_uri()]


def test_it_plays_by_itself_and_can_be_paused(browser: Any) -> None:
    page, _ = opened(browser, 1400, "no-preference")
    page.wait_for_function(f"{ROUND} !== 'Round 1'")
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").count() == 1
    paused = page.evaluate(ROUND)
    page.wait_for_timeout(600)
    assert page.evaluate(ROUND) == paused


def test_with_reduced_motion_it_starts_on_request_only(browser: Any) -> None:
    page, _ = opened(browser, 1400, "reduce")
    page.wait_for_timeout(600)
    still = page.evaluate(ROUND)
    page.wait_for_timeout(600)
    assert page.evaluate(ROUND) == still
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{ROUND} !== '{still}'")


def test_the_slider_shows_the_last_round(browser: Any) -> None:
    page, _ = opened(browser, 1400, "reduce")
    page.get_by_role("slider").press("End")
    data = animation.data_of(animation.PAGE.read_text(encoding="utf-8"))
    assert page.evaluate(ROUND) == f"Round {data['rounds'][-1]}"
    captions = page.locator("#exploration figcaption").all_text_contents()
    values = [agent["frames"][-1]["value"] for agent in data["agents"]]
    for caption, value in zip(captions, values, strict=False):
        assert f"{value:.2f}" in caption
