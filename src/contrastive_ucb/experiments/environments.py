"""Alias of `contrastive_ucb.runs.problem`, for modules that still import this name."""

from contrastive_ucb.runs.problem import family_of, make_env

__all__ = ["family_of", "make_env"]
