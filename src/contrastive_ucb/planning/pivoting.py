"""Nash equilibria of bimatrix games by Lemke-Howson pivoting: batched floats, or exact rationals.

| usual symbol       | here        | shape             |                                |
|--------------------|-------------|-------------------|--------------------------------|
| A, B               | row, column | (A1, A2, B)       | payoffs, both maximized        |
| x, y               |             | (A1, B), (A2, B)  | mixtures of the two players    |
| label of x_i, r_i  | i           | 0 .. A1 - 1       | r is the slack of A y + r = 1  |
| label of y_j, s_j  | A1 + j      | A1 .. A1 + A2 - 1 | s is the slack of B'x + s = 1  |

The path enters one label into the basis; the label that leaves one tableau enters the other, until
the first label leaves. `lemke_howson` pivots all games of a batch together. `exact_lemke_howson`
solves one game at a time without rounding, for the few games on which floats fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray

NUDGES = tuple(10.0**-k for k in range(9, 15))  # perturbations of the ratio test, see `_tableau`
FEW = 100  # with fewer games, removing the finished ones costs more than pivoting them
CLEAN = 1e-13  # negative probabilities of this size are rounding errors
SMALLEST_PIVOT = 1e-10  # smaller entries are treated as zero; payoffs are scaled to [1, 2]
CACHED_PAYOFFS = 2**16  # of the games that pivot together, so that the tableaus fit into the cache

WholeNumbers = NDArray[np.object_]  # Python integers of arbitrary size


def lemke_howson(row: Array, column: Array) -> tuple[Array, Array]:
    """One Nash equilibrium per game; both players maximize.

    row, column  (A1, A2, B)  payoffs of the two players
    returns      x (A1, B), y (A2, B), NaN if no path ended within the limit of pivots
    """
    n_rows, n_columns, n_games = row.shape
    answer = np.full((n_rows + n_columns, n_games), np.nan)
    flaw = np.full(n_games, np.inf)
    # The first action of each player, then the second of each, ... The labels are repeated, since a
    # label may succeed with a smaller perturbation.
    labels = sorted(range(n_rows + n_columns), key=lambda k: k if k < n_rows else k - n_rows)
    # Most random games need fewer pivots than the first limit. The few games with long paths start
    # again together, which is cheaper than continuing each chunk for one or two games.
    limit = n_rows + n_columns
    for label, nudge in zip(cycle(labels), NUDGES, strict=False):
        left = np.flatnonzero(flaw > CLEAN)
        limit *= 2
        for piece in chunks(len(left), CACHED_PAYOFFS // (n_rows * n_columns)):
            part = left[piece]
            with np.errstate(over="ignore", invalid="ignore"):  # in games that failed
                ends, flaws = _follow(row[..., part], column[..., part], label, nudge, limit)
            better = flaws < flaw[part]
            answer[:, part[better]], flaw[part[better]] = ends[:, better], flaws[better]
    x, y = answer[:n_rows], answer[n_rows:]
    return x / sum_in_order(x), y / sum_in_order(y)


def chunks(n_games: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` games, and at least 1, that cover all games."""
    return (slice(at, at + max(size, 1)) for at in range(0, n_games, max(size, 1)))


def sum_in_order(terms: Array, axis: int = 0) -> Array:
    """The sum over one axis, first to last; the order in np.sum may depend on the batch size."""
    total: Array = reduce(np.add, terms.swapaxes(0, axis))
    return total


@dataclass
class _Tableau:
    """One tableau per game; the last two columns are right-hand sides.

    table     (m, n + 2, B)  the nonbasic columns, then 1 and the perturbed 1
    basis     (m, B)         label of the basic variable of each row
    position  (m + n, B)     the row (basic) or the column (nonbasic) of each label
    """

    table: Array
    basis: IntArray
    position: IntArray

    def __post_init__(self) -> None:
        m, width, n_games = self.table.shape
        self.scratch = np.empty(self.table.shape)
        self.each = np.arange(n_games)
        self.column_at = np.arange(m)[:, None] * (width * n_games) + self.each
        self.row_at = np.arange(width)[:, None] * n_games + self.each

    def keep(self, games: IntArray) -> _Tableau:
        """The tableaus of these games only."""
        return _Tableau(
            self.table.take(games, -1), self.basis.take(games, -1), self.position.take(games, -1)
        )

    def solution(self, games: IntArray) -> Array:
        """The value (m + n, games) of every label, zero if it is nonbasic."""
        value = np.zeros((len(self.position), len(games)))
        value[self.basis[:, games], np.arange(len(games))] = self.table[:, -2][:, games]
        return value


def _follow(row: Array, column: Array, first: int, nudge: float, limit: int) -> tuple[Array, Array]:
    """Ends (A1 + A2, B), x above y, of the paths that start by entering the label `first`.

    Also the size (B,) of the most negative entry, infinite for paths of more than `limit` pivots.
    """
    n_rows, n_columns, n_games = row.shape
    ends, flaws = np.full((n_rows + n_columns, n_games), np.nan), np.full(n_games, np.inf)
    of_row, of_column = np.arange(n_rows), n_rows + np.arange(n_columns)
    both = [
        _tableau(column.swapaxes(0, 1), of_column, of_row, nudge),
        _tableau(row, of_row, of_column, nudge),
    ]
    games, alive, entering = np.arange(n_games), np.ones(n_games, bool), np.full(n_games, first)
    for step in range(limit):
        entering, is_valid = _pivot(both[(step + (first >= n_rows)) % 2], entering, alive)
        alive &= is_valid
        ended = np.flatnonzero(alive & (entering == first))
        if ended.size:
            x, y = (tableau.solution(ended) for tableau in both)
            flaws[games[ended]] = -np.minimum(x.min(0), y.min(0))
            ends[:, games[ended]] = np.maximum(np.concatenate([x[:n_rows], y[n_rows:]]), 0.0)
            alive[ended] = False
        left = np.flatnonzero(alive)
        if not left.size:
            break
        if 4 * left.size < 3 * alive.size and alive.size > FEW:
            games, alive, entering = games[left], alive[left], entering[left]
            both = [tableau.keep(left) for tableau in both]
    return ends, flaws


def _tableau(payoff: Array, basis: IntArray, outside: IntArray, nudge: float) -> _Tableau:
    """The first tableau: payoffs (m, n, B) scaled to [1, 2], slacks in the basis.

    The ratio test uses right-hand sides that differ from 1 by small distinct amounts, so that
    degenerate games have no ties and no path can cycle. Solutions use the exact right-hand sides.
    If payoffs differ by less than the perturbation, a path can end at negative entries; it is then
    repeated with a smaller perturbation.
    """
    m, n, n_games = payoff.shape
    least = payoff.min((0, 1))
    width = payoff.max((0, 1)) - least
    table = np.empty((m, n + 2, n_games))
    np.subtract(payoff, least, out=table[:, :n])
    table[:, :n] /= np.where(width > 0, width, 1.0)
    table[:, :n] += 1.0
    table[:, n] = 1.0
    golden = (np.arange(1, m + n + 1) * 0.6180339887498949) % 1.0  # distinct and evenly spread
    table[:, n + 1] = 1.0 + nudge * golden[basis, None]
    position = np.empty((m + n, n_games), dtype=np.int64)
    position[basis], position[outside] = np.arange(m)[:, None], np.arange(n)[:, None]
    return _Tableau(table, np.repeat(basis[:, None], n_games, 1), position)


def _pivot(tableau: _Tableau, entering: IntArray, alive: BoolArray) -> tuple[IntArray, BoolArray]:
    """Enter one label per game into the basis; returns the leaving labels and which are valid.

    Games that ended continue with the first column, which is cheaper than removing them.
    """
    table, basis, position = tableau.table, tableau.basis, tableau.position
    each = tableau.each
    at = np.where(alive, position[entering, each], 0)
    flat = table.reshape(-1)
    column_at = tableau.column_at + at * len(each)
    column = flat[column_at]  # (m, B)
    # the row with the smallest rhs / column among positive entries, without division by zero
    ratio = np.where(column > SMALLEST_PIVOT, column, 0.0) / np.maximum(table[:, -1], 1e-15)
    leaves = ratio.argmax(0)
    pivot = column[leaves, each]
    is_valid = pivot > SMALLEST_PIVOT
    pivot = np.where(is_valid, pivot, 1.0)
    row_at = tableau.row_at + leaves * (table.shape[1] * len(each))
    row = flat[row_at]  # (n + 2, B)
    row /= pivot
    row[at, each] = 1.0 / pivot
    flat[column_at] = 0.0
    table -= np.multiply(column[:, None], row, out=tableau.scratch)
    flat[row_at] = row
    leaving = basis[leaves, each]
    basis[leaves, each] = entering
    position[entering, each], position[leaving, each] = leaves, at
    return leaving, is_valid


# Rational arithmetic
#
# A float is an integer times a power of two, so all payoffs of a game become integers. With
#
#     x_side  (A2, A1 + A2 + 1)  B'x + s = 1, columns x, s and the right-hand side
#     y_side  (A1, A1 + A2 + 1)  A y + r = 1, columns r, y and the right-hand side
#     unit                       the determinant of the basis; the table is unit * inv(basis) [.]
#
# Cramer's rule keeps the table integral if it is divided by the previous pivot only (Edmonds). Ties
# in the ratio test are broken by the columns of the inverse basis, as if the right-hand side were
# 1 + epsilon**i, so no path can cycle and every path ends.


def exact_lemke_howson(row: Array, column: Array) -> tuple[Array, Array]:
    """One Nash equilibrium per game, rounded once at the end; both players maximize.

    row, column  (A1, A2, B)  finite payoffs of the two players
    returns      x (A1, B), y (A2, B)
    """
    n_rows, n_columns, n_games = row.shape
    x, y = np.empty((n_rows, n_games)), np.empty((n_columns, n_games))
    of_row, of_column = list(range(n_rows)), list(range(n_rows, n_rows + n_columns))
    unit_r, unit_s = np.eye(n_rows, dtype=object), np.eye(n_columns, dtype=object)
    for game in range(n_games):
        a, b = _positive(row[..., game]), _positive(column[..., game])
        x_side = _RationalTableau(np.hstack([b.T, unit_s]), of_column)
        y_side = _RationalTableau(np.hstack([unit_r, a]), of_row)
        entering = 0  # the path starts with label 0 and ends when it leaves
        for tableau in cycle((x_side, y_side)):
            entering = tableau.pivot(entering)
            if entering == 0:
                break
        x[:, game], y[:, game] = x_side.mixture(of_row), y_side.mixture(of_column)
    return x, y


def _positive(payoff: Array) -> WholeNumbers:
    """The payoffs (m, n) as integers of at least 1, a game with the same equilibria."""
    ratios = [number.as_integer_ratio() for number in payoff.ravel().tolist()]
    finest = max(denominator for _, denominator in ratios)  # all are powers of two
    integers = np.array([top * (finest // bottom) for top, bottom in ratios], dtype=object)
    return np.asarray(integers - integers.min() + 1).reshape(payoff.shape)


class _RationalTableau:
    """The equations of one player, with the label of the basic variable of each row."""

    def __init__(self, coefficients: WholeNumbers, slacks: list[int]):
        right_side = np.ones((len(slacks), 1), dtype=object)
        self.table: WholeNumbers = np.hstack([coefficients, right_side])
        self.basis, self.slacks, self.unit = list(slacks), slacks, 1

    def pivot(self, entering: int) -> int:
        """Enter a label into the basis; returns the label that leaves."""
        column = self.table[:, entering]
        rows = [i for i, entry in enumerate(column) if entry > 0]
        for k in (-1, *self.slacks):  # smallest ratio; ties lexicographically
            ratios = [Fraction(self.table[i, k], column[i]) for i in rows]
            least = min(ratios)
            rows = [i for i, ratio in zip(rows, ratios, strict=True) if ratio == least]
        (at,) = rows
        pivot_row, pivot = self.table[at].copy(), column[at]
        self.table = (pivot * self.table - column[:, None] * pivot_row) // self.unit
        self.table[at] = pivot_row
        self.unit = pivot
        leaving, self.basis[at] = self.basis[at], entering
        return leaving

    def mixture(self, labels: list[int]) -> list[float]:
        """The probabilities of these labels; quotients of Python integers are correctly rounded."""
        mass = dict(zip(self.basis, self.table[:, -1], strict=True))
        total = sum(mass.get(label, 0) for label in labels)
        return [mass.get(label, 0) / total for label in labels]
