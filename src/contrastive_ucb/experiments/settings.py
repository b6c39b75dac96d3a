"""Alias of `contrastive_ucb.runs.problem`, for modules that still import this name."""

from contrastive_ucb.runs.problem import problem_of

__all__ = ["problem_of"]
