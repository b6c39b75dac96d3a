"""The figures of docs/deep.md and its table of bonuses, from results/deep/ and results/minatar/.

python -m contrastive_ucb.report.deep_page
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.deep_figure import curves_figure, kept_curves, kept_levels
from contrastive_ucb.report.markers import between
from contrastive_ucb.report.records import records_of
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.report.tables import NOTHING, Table

FEATURES = "deepsea-features"


def main(root: Path = Path()) -> None:
    folder, page = root / "results", root / "docs" / "deep.md"
    deep, minatar = records_of(folder / "deep"), records_of(folder / "minatar")
    records = [*deep.values(), *minatar.values()]
    levels = kept_levels(records)
    for path, curves in kept_curves(records).items():
        write_atomically(folder / path, to_svg(curves_figure(curves, levels)))
    if FEATURES in deep:
        text = features_table(deep[FEATURES]["features"])
        write_atomically(page, between(page.read_text(), "features", text))


def features_table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """How the bonus of each agent depends on its visits: means over seeds, with their range."""
    names = ("first_direction", "rank_correlation", "never_over_often")
    rows = [(agent, *(_spread([run[name] for run in runs]) for name in names))
            for agent, runs in found.items()]  # fmt: skip
    header = (
        "bonus",
        "features along one direction",
        "rank correlation of bonus and rarity",
        "bonus of never taken over often taken",
    )
    return Table(header, tuple(rows)).to_markdown()


def _spread(values: Sequence[float | None]) -> str:
    """Mean and range of the seeds that have a value."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    few = f", {len(known)} of {len(values)} seeds" if len(known) < len(values) else ""
    return f"{fmean(known):.2f} ({min(known):.2f} to {max(known):.2f}{few})"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
