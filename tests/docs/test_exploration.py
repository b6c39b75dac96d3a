"""The animation of the first tutorial works in a browser, opened from a file."""

from typing import Any

import pytest
from report.browser import opened

from tools import animation

ROUND = "document.querySelector('#exploration output').textContent"


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_the_animation_fits_and_needs_nothing_else(browser: Any, width: int) -> None:
    with opened(browser, animation.PAGE, width, motion="reduce") as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.locator("#exploration .panels svg").count() == 3
    assert seen.requests == [animation.PAGE.as_uri()]
    assert seen.complaints == []


def test_it_plays_by_itself_and_can_be_paused(browser: Any) -> None:
    with opened(browser, animation.PAGE, 1400) as seen:
        seen.page.wait_for_function(f"{ROUND} !== 'Round 1'")
        seen.page.get_by_role("button", name="Pause").click()
        assert seen.page.get_by_role("button", name="Play").count() == 1
        paused = seen.page.evaluate(ROUND)
        seen.page.wait_for_timeout(600)
        assert seen.page.evaluate(ROUND) == paused


def test_with_reduced_motion_it_starts_on_request_only(browser: Any) -> None:
    with opened(browser, animation.PAGE, 1400, motion="reduce") as seen:
        still = seen.page.evaluate(ROUND)
        seen.page.wait_for_timeout(600)
        assert seen.page.evaluate(ROUND) == still
        seen.page.get_by_role("button", name="Play").click()
        seen.page.wait_for_function(f"{ROUND} !== '{still}'")


def test_the_slider_shows_the_last_round(browser: Any) -> None:
    data = animation.data_of(animation.PAGE.read_text(encoding="utf-8"))
    with opened(browser, animation.PAGE, 1400, motion="reduce") as seen:
        seen.page.get_by_role("slider").press("End")
        assert seen.page.evaluate(ROUND) == f"Round {data['rounds'][-1]}"
        captions = seen.page.locator("#exploration figcaption").all_text_contents()
    values = [agent["frames"][-1]["value"] for agent in data["agents"]]
    for caption, value in zip(captions, values, strict=False):
        assert f"{value:.2f}" in caption
