"""The results of the README, generated from results/mdp/, results/games/ and results/deep/.

    python -m contrastive_ucb.report.readme

Every number comes from a file that a command wrote; nothing is typed by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrastive_ucb.report.markers import between
from contrastive_ucb.report.readme_deep import deep_text
from contrastive_ucb.report.readme_games import games_text
from contrastive_ucb.report.readme_mdp import mdp_text
from contrastive_ucb.training.files import write_atomically


def main(root: Path = Path()) -> None:
    readme = root / "README.md"
    write_atomically(readme, between(readme.read_text(), "results", results_text(root / "results")))


def results_text(folder: Path) -> str:
    """What the files under `folder` say of MDPs, games and the deep tier, where there are any."""
    games, deep = _records(folder / "games"), _records(folder / "deep")
    deep |= {f"minatar-{name}": one for name, one in _records(folder / "minatar").items()}
    parts = [mdp_text(_records(folder / "mdp"))]
    parts += [games_text(games)] if games else []
    parts += [deep_text(deep)] if deep else []
    parts.append(
        "Each figure is from a file under `results/`, which also holds its command;"
        " `benchmarks/finite_results.py` and `benchmarks/deep_results.py` write them."
    )
    return "\n\n".join(parts)


def _records(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The records of a folder by name; none where there is no folder."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
