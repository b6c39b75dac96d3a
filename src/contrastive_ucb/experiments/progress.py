"""Alias of `contrastive_ucb.runs.store`, for modules that still import this name."""

from contrastive_ucb.runs.store import failure_of, is_busy

__all__ = ["failure_of", "is_busy"]
