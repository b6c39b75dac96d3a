"""Alias of `contrastive_ucb.runs.spec`, for modules that still import this name."""

from contrastive_ucb.runs.spec import RunSpec, plain_json

__all__ = ["RunSpec", "plain_json"]
