"""Alias of `contrastive_ucb.runs.grid`, for modules that still import this name."""

from contrastive_ucb.runs.grid import Job

__all__ = ["Job"]
