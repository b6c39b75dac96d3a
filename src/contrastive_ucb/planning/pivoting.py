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

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray

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
    x_side = _RationalTableau(np.hstack([_positive(column).T, unit_s]), of_column)
    y_side = _RationalTableau(np.hstack([unit_r, _positive(row)]), of_row)
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


class _RationalTableau:
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


NUDGES = tuple(10.0**-k for k in range(9, 15))  # the first is far above rounding, 1e-15; see below
FEW = 100  # so many games pivot idly at less cost than that of taking the others out
CLEAN = 1e-13  # probabilities this far below zero are rounding
SMALLEST_PIVOT = 1e-10  # entries below are taken for rounding of zero; payoffs lie in [1, 2]
CACHED_PAYOFFS = 2**16  # of the games that pivot together; with more the tableaus leave the cache


def lemke_howson(row: Array, column: Array) -> tuple[Array, Array]:
    """One Nash equilibrium a game; both players maximise.

    row, column  (A1, A2, B)  payoffs of the two players
    returns      x (A1, B), y (A2, B), NaN where no path ended within the limit of pivots
    """
    n_rows, n_columns, n_games = row.shape
    answer = np.full((n_rows + n_columns, n_games), np.nan)
    flaw = np.full(n_games, np.inf)
    starts = zip(_start_labels(n_rows, n_columns), NUDGES, strict=False)
    for turn, (label, nudge) in enumerate(starts):
        left = np.flatnonzero(flaw > CLEAN)
        limit = pivot_limit(n_rows, n_columns, turn)
        for piece in chunks(len(left), CACHED_PAYOFFS // (n_rows * n_columns)):
            part = left[piece]
            with np.errstate(over="ignore", invalid="ignore"):  # in games given up and still there
                ends, flaws = _follow(row[..., part], column[..., part], label, nudge, limit)
            better = flaws < flaw[part]
            answer[:, part[better]], flaw[part[better]] = ends[:, better], flaws[better]
    x, y = answer[:n_rows], answer[n_rows:]
    return x / sum_in_order(x), y / sum_in_order(y)


def pivot_limit(n_rows: int, n_columns: int, turn: int) -> int:
    """Pivots after which a path is given up, more at each turn.

    Most random games need fewer than the first limit. The few long paths of many chunks then start
    anew together, which is cheaper than many long waits for one or two games each.
    """
    return int(2 ** (turn + 1) * (n_rows + n_columns))


def chunks(n_games: int, size: int) -> Iterator[slice]:
    """All games in pieces of at most `size`, and at least 1."""
    return (slice(at, at + max(size, 1)) for at in range(0, n_games, max(size, 1)))


def sum_in_order(terms: Array, axis: int = 0) -> Array:
    """The sum over one axis, first to last: np.sum may pair terms otherwise for another batch."""
    total: Array = reduce(np.add, terms.swapaxes(0, axis))
    return total


def measured_gap(joint: Array, upper: Array, lower: Array) -> Array:
    """The most (B,) that a player gains by ignoring the joint play; all (A1, A2, B).

    The row player maximises `upper`, the column player minimises `lower`.
    """
    of_row = sum_in_order(upper * sum_in_order(joint), axis=1).max(0)
    of_column = sum_in_order(lower * sum_in_order(joint, axis=1)[:, None]).min(0)
    row_gain = of_row - sum_in_order(sum_in_order(joint * upper))
    column_gain = sum_in_order(sum_in_order(joint * lower)) - of_column
    return np.asarray(np.maximum(row_gain, column_gain))


def games_last(games: Array) -> Array:
    """(..., A1, A2) -> (A1, A2, B)"""
    return np.ascontiguousarray(games.reshape(-1, *games.shape[-2:]).transpose(1, 2, 0))


def games_first(games: Array, batch: tuple[int, ...]) -> Array:
    """(A1, A2, B) -> (*batch, A1, A2)"""
    return np.ascontiguousarray(games.transpose(2, 0, 1)).reshape(*batch, *games.shape[:2])


@dataclass
class _Tableau:
    """One tableau a game; the last two columns are the right-hand sides.

    table     (m, n + 2, B)  the columns outside the basis, then 1 and the nudged 1
    basis     (m, B)         label of the basic variable of each row
    position  (m + n, B)     the row (in the basis) or the column (outside) of each label
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
        """The tableau of these games only."""
        return _Tableau(
            self.table.take(games, -1), self.basis.take(games, -1), self.position.take(games, -1)
        )

    def solution(self, games: IntArray) -> Array:
        """The true value (m + n, games) of every label, zero outside the basis."""
        value = np.zeros((len(self.position), len(games)))
        value[self.basis[:, games], np.arange(len(games))] = self.table[:, -2][:, games]
        return value


def _start_labels(n_rows: int, n_columns: int) -> list[int]:
    """Labels to start from: the first action of each player, then the second of each, ...

    All over again at the end, since a label that failed may do with a smaller nudge.
    """
    labels = range(n_rows + n_columns)
    return 3 * sorted(labels, key=lambda k: k if k < n_rows else k - n_rows)


def _follow(row: Array, column: Array, first: int, nudge: float, limit: int) -> tuple[Array, Array]:
    """The ends (A1 + A2, B) of the paths that start by entering the label `first`: x above y.

    Also how far below zero an entry was (B,), infinite for a path of more than `limit` pivots.
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
        entering, sound = _pivot(both[(step + (first >= n_rows)) % 2], entering, alive)
        alive &= sound
        ended = np.flatnonzero(alive & (entering == first))
        if ended.size:
            x, y = (tableau.solution(ended) for tableau in both)
            flaws[games[ended]] = -np.minimum(x.min(0), y.min(0))
            ends[:, games[ended]] = np.maximum(np.concatenate([x[:n_rows], y[n_rows:]]), 0.0)
            alive[ended] = False
        still = np.flatnonzero(alive)
        if not still.size:
            break
        if 4 * still.size < 3 * alive.size and alive.size > FEW:
            games, alive, entering = games[still], alive[still], entering[still]
            both = [tableau.keep(still) for tableau in both]
    return ends, flaws


def _tableau(payoff: Array, basis: IntArray, outside: IntArray, nudge: float) -> _Tableau:
    """The first tableau: payoffs (m, n, B) brought into [1, 2], slacks in the basis.

    The ratio test looks at right-hand sides that differ a little from 1, by distinct amounts: ties
    of degenerate games then never arise and no path can cycle. Answers use the exact ones. Where
    payoffs differ by less than the nudge it leads astray, to entries below zero, and has to shrink.
    """
    m, n, n_games = payoff.shape
    least = payoff.min((0, 1))
    width = payoff.max((0, 1)) - least
    table = np.empty((m, n + 2, n_games))
    np.subtract(payoff, least, out=table[:, :n])
    table[:, :n] /= np.where(width > 0, width, 1.0)
    table[:, :n] += 1.0
    table[:, n] = 1.0
    golden = (np.arange(1, m + n + 1) * 0.6180339887498949) % 1.0  # distinct and well spread
    table[:, n + 1] = 1.0 + nudge * golden[basis, None]
    position = np.empty((m + n, n_games), dtype=np.int64)
    position[basis], position[outside] = np.arange(m)[:, None], np.arange(n)[:, None]
    return _Tableau(table, np.repeat(basis[:, None], n_games, 1), position)


def _pivot(tableau: _Tableau, entering: IntArray, alive: BoolArray) -> tuple[IntArray, BoolArray]:
    """Bring one label a game into the basis; returns the labels that leave, and which are sound.

    Games that ended go on with the first column: that is harmless, and cheaper than leaving gaps.
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
    sound = pivot > SMALLEST_PIVOT
    pivot = np.where(sound, pivot, 1.0)
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
    return leaving, sound
