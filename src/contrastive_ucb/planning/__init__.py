"""From a model and rewards to values and policies."""
