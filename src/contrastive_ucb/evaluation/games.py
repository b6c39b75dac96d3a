"""Exact evaluation in finite zero-sum games, by dynamic programming.

| paper                              | here             |
|------------------------------------|------------------|
| V_1^sigma                          | `game_value`     |
| V_1^{br(nu),nu}, V_1^{pi,br(pi)}   | `best_responses` |
| their difference, the duality gap  | `exploitability` |
| V_1 of a Nash equilibrium          | `nash_value`     |

All of them are the row player's values from the initial distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.tabular import TabularGame
from contrastive_ucb.evaluation.exact import check_tabular_env
from contrastive_ucb.planning.markov_game import independent, plan_nash, reply_values
from contrastive_ucb.planning.value_iteration import policy_value


class Equilibrium(NamedTuple):
    """A Nash equilibrium: policies row (H, S, A1) and column (H, S, A2), and its value."""

    row: Array
    column: Array
    value: float


def game_value(game: TabularGame, row: ArrayLike, column: ArrayLike | None = None) -> float:
    """The mean return of the row player.

    row     (H, S, A1) and column (H, S, A2), or a joint policy (H, S, A1, A2) alone
    """
    if column is None:
        joint = _checked("joint", row, _checked_game(game).rewards.shape, axes=2)
    else:
        joint = independent(*_players(game, row, column))
    shape = (game.horizon, game.n_states, -1)
    v = policy_value(game.kernel, game.rewards.reshape(shape), joint.reshape(shape))
    return float(game.initial @ v[0])


def best_responses(game: TabularGame, row: ArrayLike, column: ArrayLike) -> tuple[float, float]:
    """V^{br(nu),nu} and V^{pi,br(pi)}: what each player gets against the other's policy."""
    pi, nu = _players(game, row, column)
    rewards = game.rewards.reshape(game.horizon, game.n_states, -1)
    above = reply_values(game.kernel, rewards, nu, fixed="column")
    below = reply_values(game.kernel, rewards, pi, fixed="row")
    return float(game.initial @ above[0]), float(game.initial @ below[0])


def exploitability(game: TabularGame, row: ArrayLike, column: ArrayLike) -> float:
    """The duality gap V^{br(nu),nu} - V^{pi,br(pi)}: 0 for a Nash equilibrium, up to rounding."""
    above, below = best_responses(game, row, column)
    return above - below


def nash(game: TabularGame) -> Equilibrium:
    """A Nash equilibrium by backward induction; a game may have more, all of the same value."""
    rewards = _checked_game(game).rewards.reshape(game.horizon, game.n_states, -1)
    v, row, column = plan_nash(game.kernel, rewards, game.n_actions)
    return Equilibrium(row, column, float(game.initial @ v[0]))


def nash_value(game: TabularGame) -> float:
    """V_Nash, what the row player gets when both play well."""
    return nash(game).value


def _players(game: TabularGame, row: ArrayLike, column: ArrayLike) -> tuple[Array, Array]:
    rows, columns = _checked_game(game).n_actions
    shape = (game.horizon, game.n_states)
    return (
        _checked("row", row, (*shape, rows), axes=1),
        _checked("column", column, (*shape, columns), axes=1),
    )


def _checked(name: str, policy: ArrayLike, shape: tuple[int, ...], axes: int) -> Array:
    """A policy as probabilities that sum to 1 over its last axes."""
    probs = np.asarray(policy, dtype=np.float64)
    if probs.shape != shape:
        raise ValueError(f"the {name} policy has shape {probs.shape}; this game asks for {shape}")
    sums = probs.sum(tuple(range(-axes, 0)))
    if not (probs.min() >= 0 and np.abs(sums - 1).max() <= 1e-6):
        raise ValueError(
            f"the {name} policy must be a distribution at every step and state; divide by its sums"
        )
    return probs


def _checked_game(game: TabularGame) -> TabularGame:
    check_tabular_env(game)
    if not isinstance(game, TabularGame):
        raise ValueError(
            f"{type(game).__name__} is not a game of two players; for an MDP there are"
            " optimal_value and suboptimality"
        )
    return game
