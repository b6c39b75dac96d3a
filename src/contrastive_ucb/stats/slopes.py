"""How fast a curve falls: the slope of log y on log x, which is the exponent of a power law."""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.arrays import Array, BoolArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.stats.bootstrap import CHUNK, LEVEL, Interval, percentile_interval

RESAMPLES = 10_000  # each is a fit of a whole curve

Window = tuple[float, float]  # smallest and largest x that take part, both included


def slope(x: Array, y: Array, window: Window | None = None) -> Array:
    """Least-squares slope of log y on log x, every point of the window weighing the same.

    x (n,), y (..., n); returns (...), such as one slope a seed
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
    """The slope of the mean curve with a percentile interval of a bootstrap over seeds.

    x (n,), curves (n_seeds, n); whole curves are redrawn, averaged and fitted, so a bad seed counts
    by its size, where a mean of the slopes of the seeds would see its shape only
    """
    check_size("resamples", resamples)
    x, curves = _inside(x, curves, window)
    if curves.ndim != 2 or len(curves) < 2:
        raise UserError(
            f"an interval over seeds needs curves (n_seeds, n) of 2 seeds or more,"
            f" got the shape {curves.shape}; run more seeds, or use slope() for one curve"
        )
    n_seeds, weights = len(curves), _weights(x)
    random, drawn = stream(seed, "slope"), []
    size = max(1, CHUNK // len(x))
    for start in range(0, resamples, size):
        n_draws = min(size, resamples - start)
        times = random.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), n_draws) / n_seeds
        # Unlike a matrix product, it rounds the same however many curves are averaged at a time.
        drawn.append(_fit(np.einsum("ds,sn->dn", times, curves), weights))
    return percentile_interval(_fit(curves.mean(0), weights), np.concatenate(drawn), level)


def _weights(x: Array) -> Array:
    """The weights with which the log y add up to their least-squares slope."""
    centred = np.log(x) - np.log(x).mean()
    return np.asarray(centred / (centred @ centred))


def _fit(y: Array, weights: Array) -> Array:
    exponent: Array = (np.log(y) * weights).sum(-1)
    return exponent


def _inside(x: Array, y: Array, window: Window | None) -> tuple[Array, Array]:
    """The part of x (n,) and y (..., n) that lies in the window, if logarithms can be taken."""
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
    bad = ~positive.reshape(-1, len(x)).all(0)
    if bad.any():
        raise UserError(
            f"{name} is not above 0 at x = {x[bad][0]:g}, where a power law has no logarithm;"
            " choose a window without that point"
        )
