"""Alias of `contrastive_ucb.runs.deep_agent`, for modules that still import this name."""

from contrastive_ucb.runs.deep_agent import SPRUCB, DeepAgent, evaluate

__all__ = ["SPRUCB", "DeepAgent", "evaluate"]
