"""Runs: specifications, run folders, the run loop, process pool, Ray, grids and status."""
