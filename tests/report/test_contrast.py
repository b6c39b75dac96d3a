"""Contrast as the guidelines define it, and colours that stay what they are when darkened."""

from colorsys import rgb_to_hsv

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb

from contrastive_ucb.report.contrast import READABLE, contrast, readable
from contrastive_ucb.report.style import COLOURS, GREY, INK, SPARE

SHADES = st.tuples(*[st.integers(0, 255)] * 3).map(lambda parts: to_hex([p / 255 for p in parts]))


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [("black", "white", 21.0), ("white", "white", 1.0), ("#767676", "white", 4.54)],
)
def test_known_contrasts(one: str, other: str, value: float) -> None:
    assert contrast(one, other) == pytest.approx(value, abs=0.005)
    assert contrast(one, other) == contrast(other, one)


@given(SHADES)
def test_a_darkened_colour_is_readable_and_no_darker_than_it_must_be(shade: str) -> None:
    dark = readable(shade)
    assert contrast(dark, "white") >= READABLE
    if contrast(shade, "white") >= READABLE:
        assert dark == shade
    else:
        assert contrast(dark, "white") < READABLE * 1.06


@pytest.mark.parametrize("shade", [*COLOURS.values(), *SPARE, GREY, INK])
def test_the_colours_of_the_house_keep_their_hue(shade: str) -> None:
    hue, deep = (rgb_to_hsv(*to_rgb(one))[:2] for one in (shade, readable(shade)))
    assert deep == pytest.approx(hue, abs=0.02)
