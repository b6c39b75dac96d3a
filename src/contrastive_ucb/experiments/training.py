"""Alias of `contrastive_ucb.runs.training`, for modules that still import this name."""

from contrastive_ucb.runs.training import Training

__all__ = ["Training"]
