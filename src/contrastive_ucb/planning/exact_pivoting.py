"""Nash equilibria without rounding: Lemke-Howson in whole numbers, one game at a time.

| usual letters      | here              | shape             |                                     |
|--------------------|-------------------|-------------------|-------------------------------------|
| A, B               | row, column       | (A1, A2, B)       | payoffs, both maximised             |
| B'x + s = 1        | x_side            | (A2, A1 + A2 + 1) | columns x, s and the right side     |
| A y + r = 1        | y_side            | (A1, A1 + A2 + 1) | columns r, y and the right side     |
| label of x_i, r_i  | i                 |                   | 0 .. A1 - 1, a column and a name    |
| label of y_j, s_j  | A1 + j            |                   | each label once in each tableau     |
| det of the basis   | unit              |                   | the table is unit * inv(basis) [.]  |

Floats are whole numbers times powers of two, and by Cramer's rule the table stays whole when it is
divided by the last pivot only (Edmonds). Ties in the ratio test go to the next column of the
inverse basis, as if the right side were 1 + epsilon**i: no path can cycle, so every one ends.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.arrays import Array

WholeNumbers = NDArray[np.object_]  # Python integers, as long as they need to be


def exact_lemke_howson(row: Array, column: Array) -> tuple[Array, Array]:
    """One Nash equilibrium a game, rounded once at the very end; both players maximise.

    row, column  (A1, A2, B)  finite payoffs of the two players
    returns      x (A1, B), y (A2, B)
    """
    n_rows, n_columns, n_games = row.shape
    x, y = np.empty((n_rows, n_games)), np.empty((n_columns, n_games))
    for game in range(n_games):
        x[:, game], y[:, game] = _equilibrium(row[..., game], column[..., game])
    return x, y


def _equilibrium(row: Array, column: Array) -> tuple[list[float], list[float]]:
    """x and y of one game: whatever leaves one tableau enters the other, until label 0 leaves."""
    n_rows, n_columns = row.shape
    of_row, of_column = list(range(n_rows)), list(range(n_rows, n_rows + n_columns))
    unit_r, unit_s = np.eye(n_rows, dtype=object), np.eye(n_columns, dtype=object)
    x_side = _Tableau(np.hstack([_positive(column).T, unit_s]), of_column)
    y_side = _Tableau(np.hstack([unit_r, _positive(row)]), of_row)
    entering = 0
    for tableau in cycle((x_side, y_side)):
        entering = tableau.pivot(entering)
        if entering == 0:
            break
    return x_side.mixture(of_row), y_side.mixture(of_column)


def _positive(payoff: Array) -> WholeNumbers:
    """The payoffs (m, n) as whole numbers from 1 on, a game with the same equilibria."""
    ratios = [number.as_integer_ratio() for number in payoff.ravel().tolist()]
    finest = max(denominator for _, denominator in ratios)  # all of them are powers of two
    whole = np.array([top * (finest // bottom) for top, bottom in ratios], dtype=object)
    return np.asarray(whole - whole.min() + 1).reshape(payoff.shape)


class _Tableau:
    """The equations of one player, with the label of the basic variable of each row."""

    def __init__(self, coefficients: WholeNumbers, slacks: list[int]):
        right_side = np.ones((len(slacks), 1), dtype=object)
        self.table: WholeNumbers = np.hstack([coefficients, right_side])
        self.basis, self.slacks, self.unit = list(slacks), slacks, 1

    def pivot(self, entering: int) -> int:
        """Bring a label into the basis; returns the one that leaves."""
        column = self.table[:, entering]
        rows = [i for i, entry in enumerate(column) if entry > 0]
        for k in (-1, *self.slacks):  # the least ratio, and of equal rows the lexicographic one
            ratios = [Fraction(self.table[i, k], column[i]) for i in rows]
            least = min(ratios)
            rows = [i for i, ratio in zip(rows, ratios, strict=True) if ratio == least]
        (at,) = rows
        kept, pivot = self.table[at].copy(), column[at]
        self.table = (pivot * self.table - column[:, None] * kept) // self.unit
        self.table[at] = kept
        self.unit = pivot
        leaving, self.basis[at] = self.basis[at], entering
        return leaving

    def mixture(self, labels: list[int]) -> list[float]:
        """The probabilities of these labels; Python rounds a quotient of integers correctly."""
        mass = dict(zip(self.basis, self.table[:, -1], strict=True))
        total = sum(mass.get(label, 0) for label in labels)
        return [mass.get(label, 0) / total for label in labels]
