"""Stored scores of the controls (random policy, best constant action) on MinAtar and DeepSea.

`benchmarks/deep_results.py` writes controls.csv from the files under results/, so that reports of
run folders can show the controls without playing them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

import pandas as pd

from contrastive_ucb.core.arrays import Array

NAMES = {"random": "random policy", "constant": "best constant action"}  # by `algo` of a record


@lru_cache
def control_scores() -> Mapping[str, Mapping[str, Array]]:
    """Scores of the seeds (seeds,) by environment, and within it by the name of the control."""
    with files("contrastive_ucb.stats").joinpath("controls.csv").open(encoding="utf-8") as lines:
        table = pd.read_csv(lines, dtype={"score": str}).astype({"score": float})
    by_env: dict[str, dict[str, Array]] = {}
    for (env, policy), scores in table.groupby(["env", "policy"], sort=False)["score"]:
        by_env.setdefault(env, {})[NAMES[policy]] = scores.to_numpy()
    return by_env
