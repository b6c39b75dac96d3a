"""The tables of docs/algorithms.md, generated from the presets.

python -m contrastive_ucb.report.algorithms_page
"""

from __future__ import annotations

import sys
from pathlib import Path

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.agent_table import differences, markdown_table, rows, settings_of
from contrastive_ucb.report.markers import between

SHAPES = {  # of one frame
    "Atari": (1, 84, 84),
    "MinAtar": (4, 10, 10),
    "vectors, here of 100 numbers": (100,),
}


def main(root: Path = Path()) -> None:
    page = root / "docs" / "algorithms.md"
    write_atomically(page, with_tables(page.read_text()))


def with_tables(text: str) -> str:
    """The page with its tables as the presets are now."""
    about = [["agent", "what it is", "source"]]
    about += [[f"`{name}`", one.what, one.source] for name, one in ALGORITHMS.items()]
    text = between(text, "agents", markdown_table(about))
    parts = [
        f"On {name}:\n\n{markdown_table(_coded(rows(differences(settings_of(shape)))))}"
        for name, shape in SHAPES.items()
    ]
    return between(text, "settings", "\n\n".join(parts))


def _coded(cells: list[list[str]]) -> list[list[str]]:
    """The names of settings and agents as code."""
    (corner, *agents), *body = cells
    return [
        [corner, *(f"`{agent}`" for agent in agents)],
        *([f"`{name}`", *values] for name, *values in body),
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
