"""Exponents of power laws: the slope of log y on log x, with bootstrap intervals over seeds."""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats.bootstrap import LEVEL, Interval, percentile_interval

RESAMPLES = 10_000  # each fits a whole curve

Window = tuple[float, float]  # smallest and largest x, inclusive


def slope(x: Array, y: Array, window: Window | None = None) -> Array:
    """Least-squares slope of log y on log x with equal weights in the window.

    x (n,), y (..., n); returns (...), for example one slope per seed
    """
    x, y = _inside(x, y, window)
    centered = np.log(x) - np.log(x).mean()
    exponent: Array = (np.log(y) * (centered / (centered @ centered))).sum(-1)
    return exponent


def slope_interval(
    x: Array,
    curves: Array,
    window: Window | None = None,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """The slope of the mean curve, with a percentile interval of a bootstrap over seeds.

    x (n,), curves (n_seeds, n); whole curves are resampled, averaged and fitted, so a failed seed
    has an effect in proportion to its size, which a mean of the slopes of seeds would ignore
    """
    x, curves = _inside(x, curves, window)
    n_seeds = len(curves)
    times = stream(seed, "slope").multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), resamples)
    # Unlike in a matrix product, rounding does not depend on the number of resamples.
    drawn = np.einsum("ds,sn->dn", times / n_seeds, curves)
    return percentile_interval(slope(x, curves.mean(0)), slope(x, drawn), level)


def within_from(x: Array, y: Array, limit: float) -> Array:
    """The first x from which on a curve stays at most at the limit; NaN if it ends above.

    x (n,), y (..., n); returns (...)
    """
    inside = np.logical_and.accumulate(y[..., ::-1] <= limit, axis=-1)  # from the last point back
    count = inside.sum(-1)
    return np.where(count > 0, x[len(x) - np.maximum(count, 1)], np.nan)


def _inside(x: Array, y: Array, window: Window | None) -> tuple[Array, Array]:
    """x (n,) and y (..., n) restricted to the window, where both must have a logarithm."""
    low, high = window or (-np.inf, np.inf)
    inside = (x >= low) & (x <= high)
    x, y = x[inside], np.compress(inside, y, axis=-1)
    if len(np.unique(x)) < 2:
        raise UserError(
            f"the window {low:g}..{high:g} holds {len(x)} points; widen it to 2 or more"
        )
    valid = (x > 0) & ((y > 0) & np.isfinite(y)).reshape(-1, len(x)).all(0)
    if not valid.all():
        raise UserError(
            f"the curve is not positive and finite at x = {x[~valid][0]:g} and has no logarithm"
            " there; choose a window without that point"
        )
    return x, y
