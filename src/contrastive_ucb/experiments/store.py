"""Alias of `contrastive_ucb.runs.store`, for modules that still import this name."""

from contrastive_ucb.runs.store import FULL, VERSIONS, RunFolder

__all__ = ["FULL", "VERSIONS", "RunFolder"]
