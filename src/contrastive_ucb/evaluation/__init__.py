"""Evaluation of policies and models: exact values, metrics of runs, rollouts and playback."""
