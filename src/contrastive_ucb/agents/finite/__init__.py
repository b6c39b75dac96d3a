"""Algorithms 1 and 2 and their baselines, on tables and on neural features."""
