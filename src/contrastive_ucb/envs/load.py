"""A finite MDP or game from a file, whichever it holds."""

from __future__ import annotations

from pathlib import Path

from contrastive_ucb.envs.finite import kind_of
from contrastive_ucb.envs.games import TabularGame
from contrastive_ucb.envs.tabular import TabularMDP


def load_env(path: str | Path, *, rank: int | None = None) -> TabularMDP | TabularGame:
    """The MDP or the game in an .npz file, told apart by the axes of its `transitions`."""
    return (TabularMDP if kind_of(path) == "mdp" else TabularGame).load(path, rank=rank)
