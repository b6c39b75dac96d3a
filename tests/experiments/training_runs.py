"""Alias of `runs.training_runs`, for tests that still import this name."""

from runs.training_runs import *  # noqa: F403
