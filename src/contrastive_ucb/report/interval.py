"""The mean over seeds and how far it can be trusted."""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream

LEVEL = 0.95
RESAMPLES = 2000
FEWEST = 3  # runs that an interval needs: redrawing one or two says nothing about others
FEW = 5  # with fewer than these it says little, and pages remark on it


def mean_interval(values: Array) -> tuple[Array, Array, Array]:
    """Mean over seeds with the percentile interval of a bootstrap over seeds.

    values  (n_seeds, n)
    returns mean, low, high, each (n,); the same seeds are redrawn at all n points, so the band
    is that of whole curves, and the same values always give the same band
    """
    n_seeds = len(values)
    drawn = stream(0, "report").multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), RESAMPLES)
    means = drawn @ values / n_seeds  # (RESAMPLES, n)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return values.mean(0), low, high
