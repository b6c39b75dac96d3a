"""Equilibria of matrix games, many at a time: coarse correlated equilibria (CCE) and Nash.

A game is a pair U, L (A1, A2): the row player maximizes U and the column player minimizes L. A
joint distribution sigma is a CCE if, for all a' and b',

    sum sigma(a, b) (U(a', b) - U(a, b)) <= 0,     sum sigma(a, b) (L(a, b) - L(a, b')) <= 0.

The largest left-hand side is the gap of sigma, iota in Definition iota-CCE. Every answer carries
its measured gap as a certificate. A game goes through these stages until its gap is small enough:

| stage            | proposes                                                                 |
|------------------|--------------------------------------------------------------------------|
| pure             | the cell with the smallest gain                                          |
| previous         | the guess of the caller                                                  |
| midpoint         | a Nash equilibrium of a zero-sum game between U and L, where it suffices |
| pivoting         | a Nash equilibrium of the bimatrix game (U, -L), by Lemke-Howson         |
| regret-matching  | the average play of regret matching+                                     |
| linear-program   | a solution of the inequalities above                                     |
| exact            | Lemke-Howson in rational arithmetic                                      |

Batched stages hold games along the last axis, (A1, A2, B).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.sparse import csr_array

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.planning.pivoting import (
    chunks,
    exact_lemke_howson,
    lemke_howson,
    sum_in_order,
)

BATCHED = ("pure", "previous", "midpoint", "pivoting", "regret-matching")
STAGES = (*BATCHED, "linear-program", "exact")
CACHED_PAYOFFS = 2**17  # of the games that go through the batched stages together
ROUNDING = 1024.0  # epsilons of the largest payoff; rounding an exact answer costs A1 + A2 + 4
DOUBLE = np.finfo(np.float64)
LARGEST_PAYOFF = 1e300  # sums of larger payoffs could overflow

Objective = Literal["any", "tight"]
Bimatrix = Callable[[Array, Array], tuple[Array, Array]]  # payoffs (A1, A2, B) -> x, y


@dataclass(frozen=True)
class CCE:
    """Coarse correlated equilibria with their certificates."""

    joint: Array
    """sigma (..., A1, A2)."""
    gap: Array
    """The largest gain (...) of a player from deviating, measured."""
    stage: IntArray
    """Index into STAGES of the stage that solved the game (...)."""


@dataclass(frozen=True)
class Nash:
    """Nash equilibria of zero-sum games with their certificates."""

    row: Array
    """x (..., A1), the mixture of the maximizing player."""
    column: Array
    """y (..., A2)."""
    value: Array
    """Value of the game (...), with an error of at most half the gap."""
    gap: Array
    """max_a (M y)_a - min_b (x'M)_b (...), measured."""


def solve_cce(
    q_upper: ArrayLike,
    q_lower: ArrayLike,
    tolerance: float = 1e-7,
    start: ArrayLike | None = None,
    objective: Objective = "any",
) -> CCE:
    """Compute one coarse correlated equilibrium (CCE) per game, for one game or a batch of games.

    The measured gap of each answer is returned with it; the paper calls its limit iota (Algorithm
    2, line 15). The answer to a game does not depend on the batch, except in linear programs, which
    the games along the last leading axis share.

    Args:
        q_upper: Payoffs that the row player maximizes, shape (..., A1, A2).
        q_lower: Payoffs that the column player minimizes, shape (..., A1, A2).
        tolerance: Largest accepted gap; at least 2e-13 of the largest payoff is always accepted,
            since smaller gaps may be rounding errors.
        start: A guess (..., A1, A2), for example the answer of the previous round.
        objective: "any" takes the first equilibrium. "tight" minimizes the sum of
            sigma (q_upper - q_lower) over all of them by linear programming; if a program fails,
            the other stages solve the game and `stage` is not "linear-program".

    Returns:
        An object with the arrays `joint`, the equilibrium sigma (..., A1, A2), `gap` (...), the
        largest gain of a player from deviating, and `stage` (...), the stage that solved the game.

    Raises:
        ValueError: An argument is invalid.
        ArithmeticError: A gap exceeds the tolerance.

    Examples:
        >>> import contrastive_ucb as cu
        >>> pennies = [[1, -1], [-1, 1]]
        >>> cce = cu.solve_cce(pennies, pennies)
        >>> cce.joint.round(6).tolist(), bool(cce.gap <= 1e-7)
        ([[0.25, 0.25], [0.25, 0.25]], True)
    """
    upper, lower = _checked("q_upper", q_upper), _checked("q_lower", q_lower)
    _check_options(upper, lower, tolerance, objective)
    guess = None if start is None else _checked_start(start, upper.shape)
    return _Search(upper, lower, guess, tolerance).run(objective)


def solve_nash(payoff: ArrayLike, tolerance: float = 1e-7) -> Nash:
    """Compute a Nash equilibrium of each zero-sum game, for one game or a batch of games.

    The marginals of a CCE of (M, M) are a Nash equilibrium; its two gains sum to the duality gap.

    Args:
        payoff: Payoffs M of the row player, who maximizes, shape (..., A1, A2).
        tolerance: Largest accepted gap.

    Returns:
        An object with the arrays `row` (..., A1), `column` (..., A2), `value` (...) and `gap`
        (...), the measured duality gap.

    Raises:
        ValueError: An argument is invalid.
        ArithmeticError: A gap exceeds the tolerance.

    Examples:
        >>> import contrastive_ucb as cu
        >>> nash = cu.solve_nash([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])  # rock, paper, scissors
        >>> nash.row.round(3).tolist()
        [0.333, 0.333, 0.333]
    """
    matrix = _checked("payoff", payoff)
    _check_options(matrix, matrix, tolerance, "any")  # errors show the tolerance before halving
    joint = solve_cce(matrix, matrix, tolerance / 2).joint
    row, column = joint.sum(-1), joint.sum(-2)
    best, worst = best_responses(matrix, row, column)
    return Nash(row, column, (best + worst) / 2, best - worst)


def deviation_gain(joint: ArrayLike, q_upper: ArrayLike, q_lower: ArrayLike) -> Array:
    """Largest gain of a player from deviating from the joint play, iota of Definition iota-CCE.

    joint sigma, q_upper U, q_lower L  (..., A1, A2); returns (...)
    """
    arrays = (np.asarray(a, dtype=np.float64) for a in (joint, q_upper, q_lower))
    games = np.broadcast_arrays(*arrays)
    return _gap(*map(_games_last, games)).reshape(games[0].shape[:-2])


def best_responses(payoff: Array, row: Array, column: Array) -> tuple[Array, Array]:
    """Values of best responses in a zero-sum game: max_a (M y)_a and min_b (x'M)_b.

    payoff M (..., A1, A2), row x (..., A1), column y (..., A2); returns two arrays (...)
    """
    best = (payoff * column[..., None, :]).sum(-1).max(-1)
    worst = (payoff * row[..., :, None]).sum(-2).min(-1)
    return np.asarray(best), np.asarray(worst)


class _Search:
    """The games, the best answer to each so far, and its gap."""

    def __init__(self, upper: Array, lower: Array, guess: Array | None, tolerance: float):
        self.batch = upper.shape[:-2]
        self.upper, self.lower = _games_last(upper), _games_last(lower)
        self.guess = None if guess is None else _games_last(guess)
        self.joint = np.full(self.upper.shape, np.nan)
        self.gap = np.full(self.upper.shape[-1], np.inf)
        self.stage = np.full(self.gap.shape, -1)
        largest = np.maximum(np.abs(self.upper), np.abs(self.lower)).max((0, 1))
        unit = DOUBLE.eps * largest + DOUBLE.smallest_subnormal  # the latter for tiny payoffs
        self.limit = np.maximum(tolerance, ROUNDING * unit)

    def run(self, objective: Objective) -> CCE:
        """All stages; the tight program comes first because the others take any equilibrium."""
        if objective == "tight":
            self.linear_programs(objective)
        n_rows, n_columns, n_games = self.upper.shape
        for part in chunks(n_games, CACHED_PAYOFFS // (n_rows * n_columns)):
            self.cascade(part, BATCHED)
        if objective == "any":
            self.linear_programs(objective)
        self.cascade(slice(0, None), ("exact",))
        return self.answer()

    def cascade(self, games: slice, stages: tuple[str, ...]) -> None:
        """Apply these stages, each to the games that are not solved yet."""
        for stage in stages:
            left = games.start + np.flatnonzero(self.gap[games] > self.limit[games])
            if not left.size:
                return
            upper, lower, limit = self.upper[..., left], self.lower[..., left], self.limit[left]
            if stage != "previous":
                self.offer(stage, left, PROPOSALS[stage](upper, lower, limit), upper, lower)
            elif self.guess is not None:
                self.offer(stage, left, self.guess[..., left], upper, lower)

    def offer(self, stage: str, games: IntArray, joint: Array, upper: Array, lower: Array) -> None:
        """Accept the proposals (A1, A2, games) that reduce the gap; NaN never does."""
        gap = _gap(joint, upper, lower)
        better = gap < self.gap[games]
        taken = games[better]
        self.joint[..., taken], self.gap[taken] = joint[..., better], gap[better]
        self.stage[taken] = STAGES.index(stage)

    def linear_programs(self, objective: Objective) -> None:
        """Solve the games that are left; only those along the last leading axis share a program.

        So the answers of one seed do not depend on the other seeds.
        """
        left = np.flatnonzero(self.gap > self.limit)
        row_of = left // (self.batch[-1] if self.batch else 1)
        for row in np.unique(row_of):
            games = left[row_of == row]
            upper, lower = self.upper[..., games], self.lower[..., games]
            cost = upper - lower if objective == "tight" else np.zeros(upper.shape)
            joint = cce_by_lp(*(a.transpose(2, 0, 1) for a in (upper, lower, cost)))
            self.offer("linear-program", games, joint.transpose(1, 2, 0), upper, lower)

    def answer(self) -> CCE:
        """The answers of all games, or an error with the worst one."""
        failed = np.flatnonzero(self.gap > self.limit)
        if failed.size:
            worst = failed[self.gap[failed].argmax()]
            index = tuple(int(i) for i in np.unravel_index(worst, self.batch))
            n_rows, n_columns = self.upper.shape[:2]
            raise ArithmeticError(
                f"the best CCE of game {index} ({n_rows}x{n_columns}) has gap "
                f"{self.gap[worst]:.1e}, above the limit {self.limit[worst]:.1e}, although the "
                "exact stage leaves rounding errors only; report this game or raise the tolerance"
            )
        joint = np.ascontiguousarray(self.joint.transpose(2, 0, 1))
        return CCE(
            joint.reshape(*self.batch, *self.joint.shape[:2]),
            self.gap.reshape(self.batch),
            self.stage.reshape(self.batch),
        )


def _gap(joint: Array, upper: Array, lower: Array) -> Array:
    """The largest gain (B,) of a player from deviating; all arguments (A1, A2, B)."""
    of_row = sum_in_order(upper * sum_in_order(joint), axis=1).max(0)
    of_column = sum_in_order(lower * sum_in_order(joint, axis=1)[:, None]).min(0)
    row_gain = of_row - sum_in_order(sum_in_order(joint * upper))
    column_gain = sum_in_order(sum_in_order(joint * lower)) - of_column
    return np.asarray(np.maximum(row_gain, column_gain))


def _games_last(games: Array) -> Array:
    """(..., A1, A2) -> (A1, A2, B)"""
    return np.ascontiguousarray(games.reshape(-1, *games.shape[-2:]).transpose(1, 2, 0))


# Stages: U, L (A1, A2, B) and the limits (B,) of the gaps -> proposals sigma (A1, A2, B)


def _pure(upper: Array, lower: Array, limit: Array) -> Array:
    """The cell in which the larger gain of the two players is smallest."""
    gains = np.maximum(upper.max(0) - upper, lower - lower.min(1)[:, None])
    best = gains.reshape(-1, gains.shape[-1]).argmin(0)
    joint = np.zeros((gains.shape[0] * gains.shape[1], gains.shape[-1]))
    joint[best, np.arange(len(best))] = 1.0
    return joint.reshape(gains.shape)


def _midpoint(upper: Array, lower: Array, limit: Array) -> Array:
    """A Nash equilibrium of a zero-sum game N between U and L, where its gap is within the limit.

    Write (U - L)/2 = c + r(a) + s(b) + E with the row and column means removed from E, and let
    N = (U + L)/2 + r - s. Terms in b alone leave the row player indifferent, so U is equivalent to
    N + E, and L to N - E. At a Nash equilibrium of N each player gains at most a difference of two
    means of E, hence gap <= max E - min E.
    """
    half = (upper - lower) / 2
    by_row = sum_in_order(half, axis=1)[:, None] / half.shape[1]
    by_column = sum_in_order(half) / half.shape[0]
    rest = half - by_row - by_column  # E - c, with the same range as E
    near = np.flatnonzero(np.ptp(rest, (0, 1)) <= limit)
    joint = np.full(upper.shape, np.nan)
    if near.size:
        middle = ((upper + lower) / 2 + by_row - by_column)[..., near]
        joint[..., near] = _nash(lemke_howson, middle, middle)
    return joint


def _nash(solver: Bimatrix, upper: Array, lower: Array) -> Array:
    """A Nash equilibrium of the bimatrix game (U, -L), which is a CCE."""
    x, y = solver(upper, -lower)
    return np.asarray(x[:, None] * y)


def regret_matching(
    upper: Array, lower: Array, limit: Array, iterations: int = 300, every: int = 50
) -> Array:
    """The average joint play (A1, A2, B) of predictive regret matching+, with weights t^2.

    upper U, lower L  (A1, A2, B)
    limit             (B,)         a game stops when its gap is within its limit, which is checked
                                   after every `every` iterations and after the last
    """
    n_rows, n_columns, n_games = upper.shape
    average, joint, total = np.empty(upper.shape), np.zeros(upper.shape), 0.0
    games, row, column = np.arange(n_games), _Player(n_rows, n_games), _Player(n_columns, n_games)
    for t in range(1, iterations + 1):
        x, y, weight = row.mixture, column.mixture, float(t) ** 2
        joint += weight * (x[:, None] * y)
        total += weight
        row.learn(sum_in_order(upper * y, axis=1), weight)
        column.learn(-sum_in_order(lower * x[:, None]), weight)
        if t % every == 0 or t == iterations:
            average[..., games] = joint / total
            gap = np.maximum(row.total.max(0), column.total.max(0)) / total
            unsolved = np.flatnonzero(gap > limit[games])
            if not unsolved.size:
                break
            games = games[unsolved]
            upper, lower, joint = (array[..., unsolved] for array in (upper, lower, joint))
            row.keep(unsolved)
            column.keep(unsolved)
    return average


class _Player:
    """The mixture, the clipped and the weighted sum of the regrets (A, B) of one player."""

    def __init__(self, n_actions: int, n_games: int):
        self.mixture = np.full((n_actions, n_games), 1.0 / n_actions)
        self.clipped = np.zeros((n_actions, n_games))
        self.total = np.zeros((n_actions, n_games))

    def learn(self, payoff: Array, weight: float) -> None:
        regret = payoff - sum_in_order(self.mixture * payoff)
        self.total += weight * regret
        self.clipped = np.maximum(self.clipped + regret, 0.0)
        predicted = np.maximum(self.clipped + regret, 0.0)
        mass = sum_in_order(predicted)
        no_regret = mass == 0  # any mixture is admissible
        predicted = np.where(no_regret, 1.0, predicted)
        self.mixture = predicted / np.where(no_regret, len(predicted), mass)

    def keep(self, games: IntArray) -> None:
        self.mixture, self.clipped = self.mixture[:, games], self.clipped[:, games]
        self.total = self.total[:, games]


PROPOSALS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "pure": _pure,
    "midpoint": _midpoint,
    "pivoting": lambda upper, lower, limit: _nash(lemke_howson, upper, lower),
    "regret-matching": regret_matching,
    "exact": lambda upper, lower, limit: _nash(exact_lemke_howson, upper, lower),
}


# Linear programming: minimize <sigma, cost> over all CCE, many games in one block-diagonal program

MOST_GAMES = 200  # per program; larger programs cost more per game
MOST_COEFFICIENTS = 400_000  # per program, for 100 MB; the solver needs about 200 bytes for each
FINE, DEFAULT = 1e-10, 1e-7  # feasibility tolerances of the solver


def cce_by_lp(upper: Array, lower: Array, cost: Array) -> Array:
    """sigma (B, A1, A2), or NaN where the solver failed.

    upper U, lower L, cost  (B, A1, A2)
    """
    sigma = np.empty(upper.shape)
    _, n_rows, n_columns = upper.shape
    coefficients = (n_rows + n_columns) * (n_rows * n_columns)  # of one game, see `deviations`
    for part in chunks(len(upper), min(MOST_GAMES, MOST_COEFFICIENTS // coefficients)):
        sigma[part] = _solve(_unit(upper[part]), _unit(lower[part]), _unit(cost[part]))
    return sigma


def deviations(upper: Array, lower: Array) -> Array:
    """The coefficients (B, A1 + A2, A1 A2) of the inequalities, those of the row player first."""
    rows = upper[:, :, None, :] - upper[:, None, :, :]  # [a', a, b]
    columns = lower[:, None, :, :] - lower.swapaxes(1, 2)[:, :, :, None]  # [b', a, b]
    flat = (len(upper), -1, upper.shape[1] * upper.shape[2])
    return np.concatenate([rows.reshape(flat), columns.reshape(flat)], axis=1)


def _unit(payoff: Array) -> Array:
    """Payoffs scaled to [0, 1] in every game, since the tolerances of the solver are absolute."""
    least = payoff.min((-2, -1), keepdims=True)
    width = payoff.max((-2, -1), keepdims=True) - least
    return np.asarray((payoff - least) / np.where(width > 0, width, 1.0))


def _solve(upper: Array, lower: Array, cost: Array) -> Array:
    """One program for all games; if it fails, two programs of half the size.

    The solver drops coefficients near 1e-9 and may then report infeasibility, so that one game can
    make the program of all games fail.
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
    result = linprog(
        cost.ravel(),
        A_ub=_block_diagonal(blocks),
        b_ub=np.zeros(n_games * n_deviations),
        A_eq=_block_diagonal(np.ones((n_games, 1, n_cells))),
        b_eq=np.ones(n_games),
        method="highs",
        options={
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "maxiter": 100 * n_games * (n_deviations + n_cells),  # 100 times the usual number
        },
    )
    if result.status != 0:
        return None
    sigma = np.maximum(result.x.reshape(upper.shape), 0.0)
    return np.asarray(sigma / sigma.sum((-2, -1), keepdims=True))


def _block_diagonal(blocks: Array) -> csr_array:
    """The sparse matrix (B m, B n) with the dense blocks (B, m, n) on its diagonal."""
    n_games, m, n = blocks.shape
    columns = np.arange(n_games)[:, None, None] * n + np.arange(n) + np.zeros((m, 1), dtype=int)
    starts = np.arange(0, blocks.size + 1, n)
    return csr_array((blocks.ravel(), columns.ravel(), starts), shape=(n_games * m, n_games * n))


# Checks of arguments


def _checked(name: str, payoff: ArrayLike) -> Array:
    """The games as finite floats (..., A1, A2)."""
    array = np.asarray(payoff)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim < 2 or 0 in array.shape[-2:]:
        raise ValueError(f"{name} must have shape (..., A1, A2), actions last, got {array.shape}")
    floats = array.astype(np.float64)
    invalid = ~(np.abs(floats) <= LARGEST_PAYOFF)  # includes NaN
    if invalid.any():
        first = tuple(int(i) for i in np.argwhere(invalid)[0])
        raise ValueError(
            f"{name}{list(first)} is {floats[first]}; payoffs must be finite and at most "
            f"{LARGEST_PAYOFF:g}; clip or drop this game, or divide it by a constant"
        )
    return floats


def _checked_start(start: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Distributions (..., A1, A2); the gap of an array that does not sum to 1 means nothing."""
    guess = _checked("start", start)
    if guess.shape != shape:
        raise ValueError(
            f"start has shape {guess.shape}, the games have {shape}; pass one per game"
        )
    mass = guess.sum((-2, -1))
    invalid = (guess < 0).any((-2, -1)) | (np.abs(mass - 1) > 1e-9)
    if invalid.any():
        first = tuple(int(i) for i in np.argwhere(invalid)[0])
        raise ValueError(
            f"start{list(first)} is not a distribution (smallest entry {guess[first].min():.3g}, "
            f"sum {mass[first]:.9g}); pass the joint play of an earlier call, or None"
        )
    return guess


def _check_options(upper: Array, lower: Array, tolerance: float, objective: str) -> None:
    if upper.shape != lower.shape:
        raise ValueError(
            f"q_upper has shape {upper.shape} and q_lower {lower.shape}; pass one pair per game"
        )
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, got {tolerance}")
    if objective not in ("any", "tight"):
        raise ValueError(f"objective must be 'any' or 'tight', got {objective!r}")
