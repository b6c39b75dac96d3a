"""Alias of `runs.sweep_runs`, for tests that still import this name."""

from runs.sweep_runs import *  # noqa: F403
