"""Predictive regret matching+ for many games at once: the average joint play tends to a CCE.

| usual letters | here               | shape  |                                                  |
|---------------|--------------------|--------|--------------------------------------------------|
| x_t, y_t      | mixture            | (A, B) | play of the two at iteration t, games last       |
| r_t           | regret             | (A, B) | what each fixed action would have gained         |
| Q_t           | pool               | (A, B) | [Q_{t-1} + r_t]+, the clipped sum of regrets     |
| x_{t+1}       | [Q_t + r_t]+ / sum | (A, B) | r_t stands in for the regret still to come       |
| w_t = t^2     | weight             |        | late play counts more: the first is only uniform |

The gap of sum w_t x_t (x) y_t / sum w_t is exactly the largest of the regrets averaged likewise.
The product of the average mixtures would not do: only the joint play has that property.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.planning.pivoting import sum_in_order


def regret_matching(
    upper: Array, lower: Array, limit: Array, iterations: int = 300, every: int = 50
) -> Array:
    """The average joint play (A1, A2, B); a game stops once its gap is within its limit.

    upper U, lower L  (A1, A2, B)  the row player maximises U, the column player minimises L
    limit             (B,)         looked at after each `every` iterations, and after the last
    """
    average = np.empty(upper.shape)
    games = np.arange(upper.shape[-1])
    play = _Play(upper, lower)
    for n_played in range(1, iterations + 1):
        play.step(float(n_played) ** 2)
        if n_played % every == 0 or n_played == iterations:
            average[..., games] = play.joint / play.weight
            going = np.flatnonzero(play.gap() > limit[games])
            if not going.size:
                break
            games = games[going]
            play.keep(going)
    return average


class _Play:
    """The sums that the games still played carry from one iteration to the next."""

    def __init__(self, upper: Array, lower: Array):
        n_rows, n_columns, n_games = upper.shape
        self.upper, self.lower = upper, lower
        self.joint, self.weight = np.zeros(upper.shape), 0.0
        self.row, self.column = _Player(n_rows, n_games), _Player(n_columns, n_games)

    def step(self, weight: float) -> None:
        x, y = self.row.mixture, self.column.mixture
        self.joint += weight * (x[:, None] * y)
        self.weight += weight
        self.row.learn(sum_in_order(self.upper * y, axis=1), weight)
        self.column.learn(-sum_in_order(self.lower * x[:, None]), weight)

    def gap(self) -> Array:
        largest = np.maximum(self.row.total.max(0), self.column.total.max(0))
        return np.asarray(largest / self.weight)

    def keep(self, games: IntArray) -> None:
        self.upper, self.lower = self.upper[..., games], self.lower[..., games]
        self.joint = self.joint[..., games]
        self.row.keep(games)
        self.column.keep(games)


class _Player:
    """The mixture, the pool and the weighted sum of regrets (A, B) of one player."""

    def __init__(self, n_actions: int, n_games: int):
        self.mixture = np.full((n_actions, n_games), 1.0 / n_actions)
        self.pool = np.zeros((n_actions, n_games))
        self.total = np.zeros((n_actions, n_games))

    def learn(self, payoff: Array, weight: float) -> None:
        regret = payoff - sum_in_order(self.mixture * payoff)
        self.total += weight * regret
        self.pool = np.maximum(self.pool + regret, 0.0)
        ahead = np.maximum(self.pool + regret, 0.0)
        mass = sum_in_order(ahead)
        unsure = mass == 0  # no action is regretted, so any mixture will do
        ahead = np.where(unsure, 1.0, ahead)
        self.mixture = ahead / np.where(unsure, len(ahead), mass)

    def keep(self, games: IntArray) -> None:
        self.mixture, self.pool = self.mixture[:, games], self.pool[:, games]
        self.total = self.total[:, games]
