"""Alias of names in `contrastive_ucb.runs.grid`, and sizes of `neural.toml` for its benchmark."""

from contrastive_ucb.runs.grid import experiment

__all__ = ["CONTROLLED", "FRESH_SEED", "RICH_CONTROLS", "RICH_LOCKS", "experiment"]

FRESH_SEED = 100  # lower seeds were used to choose the settings
RICH_LOCKS = {6: (40, 10), 12: (70, 10), 24: (200, 5)}  # H: rounds at most, seeds
CONTROLLED = {6: (42, 5), 12: (78, 3), 24: (264, 2)}
RICH_CONTROLS = ["no-bonus", "uniform"]
