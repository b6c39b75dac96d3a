"""Exact evaluation in finite MDPs and zero-sum games, by dynamic programming.

| paper                            | here             |                                        |
|----------------------------------|------------------|----------------------------------------|
| V* - V^pi                        | `suboptimality`  | the regret of one round                |
| V_1^sigma                        | `game_value`     |                                        |
| V_1^{br(nu),nu}, V_1^{pi,br(pi)} | `best_responses` | values of best responses               |
| their difference                 | `exploitability` | the duality gap                        |
| V_1 of a Nash equilibrium        | `nash_value`     |                                        |
| zeta, xi                         | `model_error`    | mean squared L1 distance of kernels    |

z = (s, a) is the number s * A + a. Values are those from the initial distribution, in games those
of the row player. Leading axes are seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.kernel import Kernel, squared_distance
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP
from contrastive_ucb.planning.markov_game import independent, plan_nash, reply_values
from contrastive_ucb.planning.value_iteration import plan, policy_value

# MDPs


def optimal_value(mdp: TabularMDP) -> float:
    """Compute V*, the largest expected return, from the initial distribution.

    Args:
        mdp: A finite MDP.

    Returns:
        V*.

    Raises:
        ValueError: `mdp` is a game, or has observations instead of states.

    Examples:
        >>> import contrastive_ucb as cu
        >>> round(cu.optimal_value(cu.Lock(horizon=4)), 6)
        1.0
    """
    _check(mdp, TabularMDP)
    _, v = plan(mdp.kernel, mdp.rewards)
    return float(mdp.initial @ v[0])


def suboptimality(mdp: TabularMDP, policy: Array | IntArray) -> float:
    """Compute V* - V^pi from the initial distribution, the regret of one round.

    Args:
        mdp: A finite MDP.
        policy: Probabilities (H, S, A), or actions (H, S).

    Returns:
        The suboptimality, at least 0 up to rounding.

    Raises:
        ValueError: The policy has another shape, or is not a distribution.

    Examples:
        >>> import numpy as np
        >>> import contrastive_ucb as cu
        >>> env = cu.Lock(horizon=4, n_actions=2)
        >>> uniform = np.full((4, 3, 2), 1 / 2)
        >>> 0 < cu.suboptimality(env, uniform) < 1
        True
    """
    _check(mdp, TabularMDP)
    given, shape = np.asarray(policy), mdp.rewards.shape
    if given.shape == shape[:2] and given.dtype.kind in "iu":
        if given.min() < 0 or given.max() >= mdp.n_actions:
            worst = given.min() if given.min() < 0 else given.max()
            raise ValueError(f"policy takes action {worst}; actions are 0..{mdp.n_actions - 1}")
        given = np.eye(mdp.n_actions)[given]
    elif given.shape != shape:
        raise ValueError(
            f"policy has shape {given.shape} of {given.dtype}; give probabilities {shape} "
            f"or integer actions {shape[:2]}"
        )
    v = policy_value(mdp.kernel, mdp.rewards, _distributions("policy", given, shape, axes=1))
    return optimal_value(mdp) - float(mdp.initial @ v[0])


# Games


class Equilibrium(NamedTuple):
    """A Nash equilibrium: policies row (H, S, A1) and column (H, S, A2), and its value."""

    row: Array
    column: Array
    value: float


def game_value(game: TabularGame, row: ArrayLike, column: ArrayLike | None = None) -> float:
    """Compute the expected return of the row player.

    Args:
        game: A finite game.
        row: Policy of the row player, shape (H, S, A1); without `column` a joint policy
            (H, S, A1, A2).
        column: Policy of the column player, shape (H, S, A2).

    Returns:
        V^sigma from the initial distribution.

    Raises:
        ValueError: A policy has another shape, or is not a distribution.

    Examples:
        >>> import contrastive_ucb as cu
        >>> game = cu.LockGame(horizon=3)
        >>> row, column, value = cu.nash(game)
        >>> abs(cu.game_value(game, row, column) - value) < 1e-6
        True
    """
    _check(game, TabularGame)
    if column is None:
        joint = _distributions("the joint policy", row, game.rewards.shape, axes=2)
    else:
        joint = independent(*_policies(game, row, column))
    shape = (game.horizon, game.n_states, -1)
    v = policy_value(game.kernel, game.rewards.reshape(shape), joint.reshape(shape))
    return float(game.initial @ v[0])


def best_responses(game: TabularGame, row: ArrayLike, column: ArrayLike) -> tuple[float, float]:
    """V^{br(nu),nu} and V^{pi,br(pi)}, the values of best responses to each player's policy."""
    _check(game, TabularGame)
    pi, nu = _policies(game, row, column)
    rewards = game.rewards.reshape(game.horizon, game.n_states, -1)
    above = reply_values(game.kernel, rewards, nu, fixed="column")
    below = reply_values(game.kernel, rewards, pi, fixed="row")
    return float(game.initial @ above[0]), float(game.initial @ below[0])


def exploitability(game: TabularGame, row: ArrayLike, column: ArrayLike) -> float:
    """Compute the duality gap V^{br(nu),nu} - V^{pi,br(pi)}, which is 0 for a Nash equilibrium.

    Args:
        game: A finite game.
        row: pi, the policy of the row player, shape (H, S, A1).
        column: nu, the policy of the column player, shape (H, S, A2).

    Returns:
        The sum of what both players gain by best responses, at least 0 up to rounding.

    Raises:
        ValueError: A policy has another shape, or is not a distribution.

    Examples:
        >>> import numpy as np
        >>> import contrastive_ucb as cu
        >>> game = cu.LockGame(horizon=3, n_actions=2, n_dead=1)
        >>> uniform = np.full((3, 3, 2), 1 / 2)
        >>> cu.exploitability(game, uniform, uniform) > 0.1
        True
    """
    above, below = best_responses(game, row, column)
    return above - below


def nash(game: TabularGame) -> Equilibrium:
    """Compute a Nash equilibrium by backward induction; all Nash equilibria have the same value.

    Args:
        game: A finite game.

    Returns:
        A named tuple: `row` (H, S, A1), `column` (H, S, A2) and `value`.

    Raises:
        ValueError: `game` is an MDP, or has observations instead of states.

    Examples:
        >>> import contrastive_ucb as cu
        >>> game = cu.LowRankGame(horizon=2)
        >>> row, column, value = cu.nash(game)
        >>> cu.exploitability(game, row, column) < 1e-6
        True
    """
    _check(game, TabularGame)
    rewards = game.rewards.reshape(game.horizon, game.n_states, -1)
    v, row, column = plan_nash(game.kernel, rewards, game.n_actions)
    return Equilibrium(row, column, float(game.initial @ v[0]))


def nash_value(game: TabularGame) -> float:
    """Compute V_Nash, the value of the game for the row player.

    Args:
        game: A finite game.

    Returns:
        V_Nash from the initial distribution.

    Raises:
        ValueError: `game` is an MDP, or has observations instead of states.

    Examples:
        >>> import contrastive_ucb as cu
        >>> round(cu.nash_value(cu.LockGame(horizon=2)), 6)
        0.5
    """
    return nash(game).value


# The error of learned kernels


def model_error(true: Kernel, learned: Kernel, weights: Array, chunk: int = 1 << 18) -> Array:
    """sum_z w_h(z) ||P_h(.|z) - P^_h(.|z)||_1^2: zeta with weights rho~, xi with rho-breve.

    weights  (..., H, Z); returns (..., H)
    """
    return np.asarray((weights * squared_distance(true, learned, chunk)).sum(-1))


# Elliptical potential


def potential(gains: Array, ridge: float) -> tuple[Array, Array]:
    """sum_k tr(G_k inv(Sigma_{k-1})) <= 2 log(det Sigma_K / det Sigma_0)  (l.1814, fact F5).

    gains  G_k     (K, ..., d, d)  positive semidefinite, trace at most 1
    ridge  lambda                  Sigma_0 = lambda I; returns both sides, each (...)

    The paper requires lambda > 0 only, but the lemma uses x <= 2 log(1 + x), which holds up to
    x = 2.51: a single G = 1 with lambda = 0.1 spends 10 and is allowed 4.8. The lemma holds for
    every lambda >= 0.4.
    """
    if ridge <= 0:
        raise ValueError(f"ridge must be positive, got {ridge}")
    start = ridge * np.eye(gains.shape[-1])
    after = start + np.cumsum(gains, axis=0)
    before = np.concatenate([np.broadcast_to(start, gains[:1].shape), after[:-1]])
    spent = np.trace(np.linalg.solve(before, gains), axis1=-2, axis2=-1).sum(0)
    allowed = 2 * (np.linalg.slogdet(after[-1])[1] - np.linalg.slogdet(start)[1])
    return np.asarray(spent), np.asarray(allowed)


# Checks


def _check(env: object, kind: type) -> None:
    """Raise unless `env` is a finite environment of this kind."""
    if isinstance(env, ObservedEnv):
        raise ValueError(
            f"{env.name} has observations, which have no table of values; the measured gap is in"
            " result.gap and result.summary of result = agent.learn(...)"
        )
    if not isinstance(env, kind):
        what = "a game of two players; for MDPs use optimal_value and suboptimality"
        if kind is TabularMDP:
            what = "an MDP; for games use nash_value and exploitability"
        raise ValueError(f"{type(env).__name__} is not {what}")


def _policies(game: TabularGame, row: ArrayLike, column: ArrayLike) -> tuple[Array, Array]:
    horizon, n_states, n_rows, n_columns = game.rewards.shape
    return (
        _distributions("the row policy", row, (horizon, n_states, n_rows), axes=1),
        _distributions("the column policy", column, (horizon, n_states, n_columns), axes=1),
    )


def _distributions(name: str, policy: ArrayLike, shape: tuple[int, ...], axes: int) -> Array:
    """A policy as probabilities of this shape that sum to 1 over the last `axes` axes."""
    probs = np.asarray(policy, dtype=np.float64)
    if probs.shape != shape:
        raise ValueError(f"{name} has shape {probs.shape}; it must have shape {shape}")
    sums = probs.sum(tuple(range(-axes, 0)))
    if not (probs.min() >= 0 and np.abs(sums - 1).max() <= 1e-6):
        raise ValueError(
            f"{name} must be a distribution over actions at every step and state; divide it by its"
            " sums"
        )
    return probs
