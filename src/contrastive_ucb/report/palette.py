"""Lines that can be told apart: agents have the house's colours, variants of them the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contrastive_ucb.report.style import COLOURS, SAME_IDEA, SPARE, line_style

DASHES = ((5, 1.5), (2, 1), (6, 1.5, 1, 1.5), (1, 0.8))


def palette(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How the line of each label is drawn; it depends on all labels, so ask once for a page.

    Labels that are not the plain name of an agent take colours that no other label has, as long as
    there are any, and dashes.
    """
    styles = {label: line_style(label) for label in labels}
    known = [label for label in labels if SAME_IDEA.get(label, label) in COLOURS]
    taken = {styles[label]["color"] for label in known}
    free = [shade for shade in (*SPARE, *COLOURS.values()) if shade not in taken] or list(SPARE)
    for at, label in enumerate(label for label in labels if label not in known):
        styles[label] |= {"color": free[at % len(free)], "dashes": DASHES[at % len(DASHES)]}
    return styles
