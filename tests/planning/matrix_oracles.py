"""Random games, and slow, simple implementations of the solvers for one game at a time."""

from itertools import combinations

import numpy as np
from scipy.optimize import linprog

from contrastive_ucb.core.arrays import Array


def pairs(seed: int, shape: tuple[int, ...], width: float = 1.0) -> tuple[Array, Array]:
    """U = M + beta and L = M - beta, as in Algorithm 2."""
    rng = np.random.default_rng(seed)
    middle, bonus = rng.uniform(-1, 1, shape), width * rng.random(shape)
    return middle + bonus, middle - bonus


def no_path(row: Array, column: Array) -> tuple[Array, Array]:
    """Replacement of lemke_howson that fails on every game, which forces the later stages."""
    return np.full(row.shape[::2], np.nan), np.full(row.shape[1:], np.nan)


def gain_by_loops(joint: Array, q_upper: Array, q_lower: Array) -> float:
    """Definition iota-CCE, literally."""
    n_rows, n_columns = joint.shape
    cells = list(np.ndindex(n_rows, n_columns))
    row_now = sum(joint[a, b] * q_upper[a, b] for a, b in cells)
    column_now = sum(joint[a, b] * q_lower[a, b] for a, b in cells)
    row_other = [sum(joint[a, b] * q_upper[k, b] for a, b in cells) for k in range(n_rows)]
    column_other = [sum(joint[a, b] * q_lower[a, k] for a, b in cells) for k in range(n_columns)]
    return float(max(max(row_other) - row_now, column_now - min(column_other)))


def cce_by_linprog(q_upper: Array, q_lower: Array, cost: Array) -> Array:
    """The CCE with the smallest <sigma, cost>."""
    n_rows, n_columns = q_upper.shape
    row_gains = (q_upper[:, None, :] - q_upper[None, :, :]).reshape(n_rows, -1)
    column_gains = (q_lower[None, :, :] - q_lower.T[:, :, None]).reshape(n_columns, -1)
    lp = linprog(
        cost.ravel(),
        A_ub=np.vstack([row_gains, column_gains]),
        b_ub=np.zeros(n_rows + n_columns),
        A_eq=np.ones((1, n_rows * n_columns)),
        b_eq=[1.0],
    )
    assert lp.status == 0, lp.message
    return np.asarray(lp.x.reshape(n_rows, n_columns))


def zero_sum_value(payoff: Array) -> float:
    """max_x min_b (x'M)_b as a linear program in (x, v)."""
    n_rows, n_columns = payoff.shape
    lp = linprog(
        np.append(np.zeros(n_rows), -1.0),
        A_ub=np.column_stack([-payoff.T, np.ones(n_columns)]),
        b_ub=np.zeros(n_columns),
        A_eq=[[1.0] * n_rows + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * n_rows + [(None, None)],
    )
    assert lp.status == 0, lp.message
    return float(-lp.fun)


def equilibria_by_support(row: Array, column: Array) -> list[tuple[Array, Array]]:
    """All Nash equilibria (x, y) of a nondegenerate bimatrix game; both players maximize.

    Both supports have the same size, and each player mixes so that the other is indifferent. In a
    game with ties these are the equilibria at which pivoting can end.
    """
    equilibria = []
    for size in range(1, min(row.shape) + 1):
        for rows in combinations(range(row.shape[0]), size):
            for columns in combinations(range(row.shape[1]), size):
                y = _indifferent(row[np.ix_(rows, columns)], columns, row.shape[1])
                x = _indifferent(column[np.ix_(rows, columns)].T, rows, row.shape[0])
                if x is None or y is None:
                    continue
                no_better_row = (row @ y).max() <= x @ row @ y + 1e-9
                no_better_column = (x @ column).max() <= x @ column @ y + 1e-9
                if no_better_row and no_better_column:
                    equilibria.append((x, y))
    return equilibria


def _indifferent(payoff: Array, support: tuple[int, ...], n_actions: int) -> Array | None:
    """The mixture on `support` against which all rows of `payoff` (k, k) have equal payoffs."""
    k = len(support)
    system = np.block([[payoff, -np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    try:
        weights = np.linalg.solve(system, np.append(np.zeros(k), 1.0))[:k]
    except np.linalg.LinAlgError:
        return None
    mixture = np.zeros(n_actions)
    mixture[list(support)] = weights
    return mixture if (weights >= -1e-12).all() else None  # in games with ties, zeros are rounded
