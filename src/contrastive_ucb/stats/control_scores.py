"""Stored scores of the controls (random policy, best constant action) on MinAtar and DeepSea.

`benchmarks/deep_results.py` writes controls.csv from the files under results/, so that reports of
run folders can show the controls without playing them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

import numpy as np

from contrastive_ucb.core.arrays import Array

NAMES = {"random": "random policy", "constant": "best constant action"}  # by `algo` of a record


@lru_cache
def control_scores() -> Mapping[str, Mapping[str, Array]]:
    """Scores of the seeds (seeds,) by environment, and within it by the name of the control."""
    text = files("contrastive_ucb.stats").joinpath("controls.csv").read_text("utf-8")
    by_env: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        scores = by_env.setdefault(row["env"], {}).setdefault(NAMES[row["policy"]], [])
        scores.append(float(row["score"]))
    return {
        env: {name: np.array(scores) for name, scores in by_name.items()}
        for env, by_name in by_env.items()
    }
