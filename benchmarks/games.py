"""Speed of the CCE solver for batches of matrix games, relative to one linear program per game."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from benchmarks.timing import Figures, Targets, in_turns
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import LowRankGame
from contrastive_ucb.planning.matrix_game import STAGES, cce_by_lp, deviation_gain, solve_cce

SIZES = (3, 5, 10)
SMALL_BATCH = 60  # 3x3 games that the agent usually solves in one call


@dataclass(frozen=True)
class Options:
    """Speed of the CCE solver on random pairs U >= L, relative to one linear program per game."""

    seed: int = 0
    """Seed of the random games."""
    games: int = 20_000
    """Games of each size that the solver receives in one call."""
    sample: int = 200
    """Games of each size that scipy's linprog solves one by one."""
    rounds: int = 5000
    """Rounds of the timed run of Contrastive ULCB with ten seeds."""

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("games", 1), ("sample", 1), ("rounds", 1)):
            check_size(name, getattr(self, name), least)


def measure(options: Options) -> Figures:
    """Time per game, ratios of times, largest gaps, and the share of games per solver stage."""
    print("measuring: matrix games in one batch and one by one", file=sys.stderr)
    figures: Figures = {}
    for size in SIZES:
        figures |= games_of_size(options, size)
    upper, lower = random_pairs(options.seed, SMALL_BATCH, 3)
    (seconds,) = in_turns([lambda: solve_cce(upper, lower)], turns=101)
    figures[f"milliseconds_a_call_{SMALL_BATCH}_games_3x3"] = 1e3 * seconds
    figures[f"seconds_10_seeds_{options.rounds}_rounds_3x3"] = whole_run(options)
    return figures


def targets(options: Options) -> Targets:
    return {}


def random_pairs(seed: int, n_games: int, size: int) -> tuple[Array, Array]:
    """U, L (n_games, size, size): uniform midpoints in [-1, 1], uniform half widths in [0, 1]."""
    rng = stream(seed, f"games-{size}")
    middle = rng.uniform(-1, 1, (n_games, size, size))
    half = rng.uniform(0, 1, middle.shape)
    return middle + half, middle - half


def cce_by_linprog(q_upper: Array, q_lower: Array) -> Array:
    """CCE of one game (A1, A2) by one linear program."""
    n_rows, n_columns = q_upper.shape
    row_gains = (q_upper[:, None, :] - q_upper[None, :, :]).reshape(n_rows, -1)
    column_gains = (q_lower[None, :, :] - q_lower.T[:, :, None]).reshape(n_columns, -1)
    lp = linprog(
        -(q_upper + q_lower).ravel(),
        A_ub=np.vstack([row_gains, column_gains]),
        b_ub=np.zeros(n_rows + n_columns),
        A_eq=np.ones((1, n_rows * n_columns)),
        b_eq=[1.0],
    )
    if lp.status != 0:
        raise ArithmeticError(f"no CCE found for a {n_rows}x{n_columns} game: {lp.message}")
    return np.asarray(lp.x.reshape(n_rows, n_columns))


def games_of_size(options: Options, size: int) -> Figures:
    upper, lower = random_pairs(options.seed, options.games, size)
    few = slice(0, min(options.sample, options.games))
    sample, cost = (upper[few], lower[few]), np.zeros(upper[few].shape)
    solution = solve_cce(upper, lower)
    by_lp = cce_by_lp(*sample, cost)
    single, block, batch = in_turns(
        [
            lambda: [cce_by_linprog(*pair) for pair in zip(*sample, strict=True)],
            lambda: cce_by_lp(*sample, cost),
            lambda: solve_cce(upper, lower),
        ],
        turns=5,
    )
    single, block, batch = single / len(cost), block / len(cost), batch / len(upper)
    shares = np.bincount(solution.stage, minlength=len(STAGES)) / len(upper)
    figures = {
        "speedup": single / batch,
        "speedup_lp": single / block,
        "microseconds_a_game": 1e6 * batch,
        "microseconds_a_game_lp": 1e6 * block,
        "microseconds_a_game_linprog": 1e6 * single,
        "max_gap": float(solution.gap.max()),
        "max_gap_lp": float(deviation_gain(by_lp, *sample).max()),
        **{f"stage_{n.replace('-', '_')}": float(s) for n, s in zip(STAGES, shares, strict=True)},
    }
    return {f"{name}_{size}x{size}": value for name, value in figures.items()}


def whole_run(options: Options) -> float:
    """Seconds of ten seeds on the 3x3 game S=6, d=3, H=3, evaluated exactly in every round."""
    seeds = list(range(options.seed, options.seed + 10))
    agent = ContrastiveULCB([LowRankGame(seed=seed) for seed in seeds], seed=seeds)
    start = time.perf_counter()
    agent.learn(options.rounds, progress=False)
    return time.perf_counter() - start
