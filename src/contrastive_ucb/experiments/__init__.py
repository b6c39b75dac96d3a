"""Experiments as data: what a run is, and the folder that it leaves behind."""
