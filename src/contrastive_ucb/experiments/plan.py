"""Alias of `contrastive_ucb.runs.grid`, for modules that still import this name."""

from contrastive_ucb.runs.grid import PlannedGroup, remembered

__all__ = ["PlannedGroup", "remembered"]
