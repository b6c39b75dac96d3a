"""Coarse correlated equilibria by linear programming, many games in one block-diagonal program.

minimise <sigma, cost>   subject to sigma >= 0, sum sigma = 1 and, for all a' and b',

    sum sigma(a, b) (U(a', b) - U(a, b)) <= 0,     sum sigma(a, b) (L(a, b) - L(a, b')) <= 0.

The first line is the row player's, who maximises U, the second the column player's, who minimises
L. It is always feasible: every Nash equilibrium is a solution.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from contrastive_ucb.arrays import Array
from contrastive_ucb.planning.pivoting import chunks

MOST_GAMES = 200  # in one program; larger ones cost more a game again
MOST_COEFFICIENTS = 400_000  # in one program; the solver takes about 200 bytes for each
FINE, DEFAULT = 1e-10, 1e-7  # feasibility tolerances of the solver


def cce_by_lp(upper: Array, lower: Array, cost: Array) -> Array:
    """sigma (B, A1, A2), or NaN where the solver gave up.

    upper U, lower L, cost  (B, A1, A2)
    """
    sigma = np.empty(upper.shape)
    for part in chunks(len(upper), games_a_program(*upper.shape[1:])):
        sigma[part] = _solve(_unit(upper[part]), _unit(lower[part]), _unit(cost[part]))
    return sigma


def games_a_program(n_rows: int, n_columns: int) -> int:
    """So many games share a program that it takes less than 100 MB; one game, if it needs more."""
    coefficients = (n_rows + n_columns) * (n_rows * n_columns)  # of one game, see `deviations`
    return max(1, min(MOST_GAMES, MOST_COEFFICIENTS // coefficients))


def deviations(upper: Array, lower: Array) -> Array:
    """The coefficients (B, A1 + A2, A1 A2) of the inequalities, the row player's first."""
    rows = upper[:, :, None, :] - upper[:, None, :, :]  # [a', a, b]
    columns = lower[:, None, :, :] - lower.swapaxes(1, 2)[:, :, :, None]  # [b', a, b]
    flat = (len(upper), -1, upper.shape[1] * upper.shape[2])
    return np.concatenate([rows.reshape(flat), columns.reshape(flat)], axis=1)


def _unit(payoff: Array) -> Array:
    """Payoffs from 0 to 1 in every game: the solver's tolerances are absolute."""
    least = payoff.min((-2, -1), keepdims=True)
    width = payoff.max((-2, -1), keepdims=True) - least
    return np.asarray((payoff - least) / np.where(width > 0, width, 1.0))


def _solve(upper: Array, lower: Array, cost: Array) -> Array:
    """One program for all games; in halves, so that one bad game does not spoil the others.

    Programs with coefficients near 1e-9, which the solver drops, can seem infeasible to it.
    """
    sigma = _one_program(upper, lower, cost, FINE)
    if sigma is None and len(upper) > 1:
        halves = (slice(0, len(upper) // 2), slice(len(upper) // 2, None))
        return np.concatenate([_solve(upper[h], lower[h], cost[h]) for h in halves])
    if sigma is None:
        sigma = _one_program(upper, lower, cost, DEFAULT)
    return np.full(upper.shape, np.nan) if sigma is None else sigma


def _one_program(upper: Array, lower: Array, cost: Array, tolerance: float) -> Array | None:
    blocks = deviations(upper, lower)
    n_games, n_deviations, n_cells = blocks.shape
    found = linprog(
        cost.ravel(),
        A_ub=_block_diagonal(blocks),
        b_ub=np.zeros(n_games * n_deviations),
        A_eq=_block_diagonal(np.ones((n_games, 1, n_cells))),
        b_eq=np.ones(n_games),
        method="highs",
        options={
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "maxiter": 100 * n_games * (n_deviations + n_cells),  # it may cycle; usual is 1 %
        },
    )
    if found.status != 0:
        return None
    sigma = np.maximum(found.x.reshape(upper.shape), 0.0)
    return np.asarray(sigma / sigma.sum((-2, -1), keepdims=True))


def _block_diagonal(blocks: Array) -> csr_array:
    """The sparse matrix (B m, B n) with the dense blocks (B, m, n) along its diagonal."""
    n_games, m, n = blocks.shape
    columns = np.arange(n_games)[:, None, None] * n + np.arange(n) + np.zeros((m, 1), dtype=int)
    starts = np.arange(0, blocks.size + 1, n)
    return csr_array((blocks.ravel(), columns.ravel(), starts), shape=(n_games * m, n_games * n))
