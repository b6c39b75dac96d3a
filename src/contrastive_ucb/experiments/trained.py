"""Alias of `contrastive_ucb.runs.deep_agent`, for modules that still import this name."""

from contrastive_ucb.runs.deep_agent import Trained, load_trained

__all__ = ["Trained", "load_trained"]
