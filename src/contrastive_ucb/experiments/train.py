"""Alias of names in `contrastive_ucb.runs`, for modules that still import this name."""

from contrastive_ucb.runs.loop import train
from contrastive_ucb.runs.training import Training

__all__ = ["Training", "train"]
