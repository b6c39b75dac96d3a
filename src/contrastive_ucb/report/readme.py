"""The results of the README, generated from the folders under results/.

    python -m contrastive_ucb.report.readme

Every number comes from a file that a command wrote; nothing is typed by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.markers import between
from contrastive_ucb.report.readme_deep import deep_text
from contrastive_ucb.report.readme_games import games_text
from contrastive_ucb.report.readme_mdp import mdp_text
from contrastive_ucb.report.readme_neural import neural_text
from contrastive_ucb.report.readme_theory import theory_text
from contrastive_ucb.report.records import records_of


def main(root: Path = Path()) -> None:
    readme = root / "README.md"
    write_atomically(readme, between(readme.read_text(), "results", results_text(root / "results")))


def results_text(folder: Path) -> str:
    """What the files under `folder` say of the theory and of all tiers, where there are any."""
    games, deep = records_of(folder / "games"), records_of(folder / "deep")
    deep |= {f"minatar-{name}": one for name, one in records_of(folder / "minatar").items()}
    theory, neural = records_of(folder / "theory"), records_of(folder / "neural")
    parts = [theory_text(theory["facts"])] if "facts" in theory else []
    parts.append(mdp_text(records_of(folder / "mdp")))
    parts += [games_text(games)] if games else []
    parts += [neural_text(neural)] if neural else []
    parts += [deep_text(deep)] if deep else []
    parts.append(
        "Each figure is from a file under `results/`, which also holds its command;"
        " `benchmarks/finite_results.py`, `benchmarks/neural_results.py` and"
        " `benchmarks/deep_results.py` write them."
    )
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
