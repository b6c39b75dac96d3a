"""Can it be read? The contrast of two colours, and colours dark enough for small text."""

from __future__ import annotations

from matplotlib.colors import to_hex, to_rgb

READABLE = 4.5  # of small text: level AA of the Web Content Accessibility Guidelines 2
STEP = 0.98


def contrast(one: str, other: str) -> float:
    """From 1 (the same) to 21 (black on white), as the guidelines define it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def readable(shade: str) -> str:
    """The same colour, darkened as far as it takes to be read as small text on white."""
    while contrast(shade, "white") < READABLE:
        red, green, blue = to_rgb(shade)
        shade = to_hex((STEP * red, STEP * green, STEP * blue))
    return shade


def _luminance(shade: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(shade)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
