"""Alias of `contrastive_ucb.runs.grid`, for modules that still import this name."""

from contrastive_ucb.runs.grid import Grid, grid_of

__all__ = ["Grid", "grid_of"]
