"""Alias of `contrastive_ucb.runs.pool`, for modules that still import this name."""

from contrastive_ucb.runs.pool import cores

__all__ = ["cores"]
