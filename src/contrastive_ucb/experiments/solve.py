"""Alias of names in `contrastive_ucb.runs`, for modules that still import this name."""

from contrastive_ucb.runs.loop import overall, solve
from contrastive_ucb.runs.problem import Problem

__all__ = ["Problem", "overall", "solve"]
