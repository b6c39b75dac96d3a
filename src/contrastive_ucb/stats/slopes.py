"""Exponents of power laws: the slope of log y on log x, with bootstrap intervals over seeds."""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.arrays import Array, BoolArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats.bootstrap import CHUNK, LEVEL, Interval, percentile_interval

RESAMPLES = 10_000  # each fits a whole curve

Window = tuple[float, float]  # smallest and largest x, inclusive


def slope(x: Array, y: Array, window: Window | None = None) -> Array:
    """Least-squares slope of log y on log x with equal weights in the window.

    x (n,), y (..., n); returns (...), for example one slope per seed
    """
    x, y = _inside(x, y, window)
    return _fit(y, _weights(x))


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
    check_size("resamples", resamples)
    x, curves = _inside(x, curves, window)
    if curves.ndim != 2 or len(curves) < 2:
        raise UserError(
            f"an interval over seeds needs curves (n_seeds, n) of 2 seeds or more,"
            f" got shape {curves.shape}; run more seeds, or use slope() for one curve"
        )
    n_seeds, weights = len(curves), _weights(x)
    random, drawn = stream(seed, "slope"), []
    size = max(1, CHUNK // len(x))
    for start in range(0, resamples, size):
        n_draws = min(size, resamples - start)
        times = random.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), n_draws) / n_seeds
        # Unlike in a matrix product, rounding does not depend on the number of draws.
        drawn.append(_fit(np.einsum("ds,sn->dn", times, curves), weights))
    return percentile_interval(_fit(curves.mean(0), weights), np.concatenate(drawn), level)


def _weights(x: Array) -> Array:
    """Weights of log y in the least-squares slope."""
    centered = np.log(x) - np.log(x).mean()
    return np.asarray(centered / (centered @ centered))


def _fit(y: Array, weights: Array) -> Array:
    exponent: Array = (np.log(y) * weights).sum(-1)
    return exponent


def _inside(x: Array, y: Array, window: Window | None) -> tuple[Array, Array]:
    """x (n,) and y (..., n) restricted to the window, where both must be positive and finite."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.ndim != 1 or y.shape[-1:] != x.shape:
        raise ValueError(f"x must be (n,) and y (..., n), got {x.shape} and {y.shape}")
    low, high = window or (-np.inf, np.inf)
    inside = (x >= low) & (x <= high)
    x, y = x[inside], np.compress(inside, y, axis=-1)
    if len(np.unique(x)) < 2:
        raise UserError(
            f"the window {low:g}..{high:g} holds {len(x)} points; widen it to 2 or more"
        )
    _check_positive("x", x, x > 0)
    _check_positive("y", x, y > 0)
    if not np.isfinite(y).all():
        raise UserError("y is not finite in the window; fit the finite part of the curve")
    return x, y


def _check_positive(name: str, x: Array, positive: BoolArray) -> None:
    invalid = ~positive.reshape(-1, len(x)).all(0)
    if invalid.any():
        raise UserError(
            f"{name} is not above 0 at x = {x[invalid][0]:g} and has no logarithm there;"
            " choose a window without that point"
        )
