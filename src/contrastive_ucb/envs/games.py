"""Any finite two-player zero-sum game given by arrays, as exact arrays and as a PettingZoo one.

The row player (a, A1 actions) maximises the sum of the rewards, the column player (b, A2 actions)
minimises it. Both see the state and choose at the same time; z is (s * A1 + a) * A2 + b.

PettingZoo is an optional extra: with it, a game is one of its parallel environments; without it,
the same class works all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.finite import TWO_PLAYERS, FiniteEnv, checked_action, factored, read_npz

if TYPE_CHECKING:  # it has no types
    ParallelEnv = object
else:
    try:
        from pettingzoo import ParallelEnv
    except ImportError:
        ParallelEnv = object

PLAYERS = ("row", "column")


class TabularGame(FiniteEnv, ParallelEnv):
    """A zero-sum game of two players with H steps; both observe (step, state).

    transitions   (H, S, A1, A2, S)  P_h(s'|s,a,b), rows sum to 1; or a Kernel over z
    rewards       (H, S, A1, A2)     the row player's mean reward r_h(s,a,b) in [-1, 1]
    initial       (S,)               distribution of the first state, or that state; None: state 0
    reward_scale  (H, S, A1, A2)     the reward seen is this with probability rewards /
                                     reward_scale, else 0; None means that the mean itself is seen
    rank                             d of the factorisation to look for, where somebody knows it
    """

    axes = ("H", "S", "A1", "A2")
    least_reward = -1
    suggested_alpha = 0.7  # with .5 the bounds V-lower <= V_Nash <= V-upper broke in a rare round

    def _open(self) -> None:
        self.n_actions: tuple[int, int] = self.rewards.shape[2], self.rewards.shape[3]
        self.metadata = {**self.metadata, "name": self.name}
        self.possible_agents = list(PLAYERS)
        self.observation_spaces = {player: self._observations() for player in PLAYERS}
        counts = zip(PLAYERS, self.n_actions, strict=True)
        self.action_spaces = {player: spaces.Discrete(n) for player, n in counts}
        self.np_random = seeding.np_random()[0]

    @staticmethod
    def from_factors(
        features: ArrayLike,
        measures: ArrayLike,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        *,
        reward_scale: ArrayLike | None = None,
        name: str = "file",
        render_mode: str | None = None,
    ) -> TabularGame:
        """The game with P_h(s'|s,a,b) = psi_h(s')' phi_h(s,a,b); factors must be non-negative.

        features  phi  (H, S, A1, A2, d)
        measures  psi  (H, d, S)          the rest as for the class
        """
        kernel = factored(features, measures, rewards, TabularGame.axes)
        return TabularGame(
            kernel, rewards, initial, reward_scale=reward_scale, name=name, render_mode=render_mode
        )

    @staticmethod
    def load(path: str | Path, *, rank: int | None = None) -> TabularGame:
        """The game in an .npz file: `transitions`, `rewards`, perhaps `initial`, `reward_scale`."""
        return TabularGame(**read_npz(path), rank=rank)

    @property
    def agents(self) -> list[str]:
        """The players of the running episode: both, or none once it is over."""
        return [] if self._is_over() else list(PLAYERS)

    def observation_space(self, agent: str) -> spaces.MultiDiscrete:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, IntArray], dict[str, dict[str, Any]]]:
        if seed is not None:
            self.np_random = seeding.np_random(seed)[0]
        self._begin()
        return self._both_see(), {player: {} for player in PLAYERS}

    def step(
        self, actions: Mapping[str, int | np.int64]
    ) -> tuple[
        dict[str, IntArray],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        self._check_running()
        if set(actions) != set(PLAYERS):
            raise ValueError(
                f"actions are of {', '.join(map(str, actions)) or 'nobody'}; "
                'step takes one of each player, {"row": a, "column": b}'
            )
        counts = zip(PLAYERS, self.n_actions, strict=True)
        chosen = [checked_action(f"action of {p}", actions[p], n) for p, n in counts]
        reward = self._move(chosen)
        over = dict.fromkeys(PLAYERS, self._is_over())
        gains = {"row": reward, "column": -reward}
        infos: dict[str, dict[str, Any]] = {player: {} for player in PLAYERS}
        return self._both_see(), gains, over, dict.fromkeys(PLAYERS, False), infos

    def state(self) -> IntArray:
        """What both players see, (step, state)."""
        return self._observation()

    def close(self) -> None:
        """Nothing is held open."""

    def _both_see(self) -> dict[str, IntArray]:
        return {player: self._observation() for player in PLAYERS}


def action_counts(n_actions: int | Sequence[int], least: int = 1) -> tuple[int, int]:
    """The numbers of actions (A1, A2) of the two players; one number means the same for both."""
    given = n_actions if isinstance(n_actions, (Sequence, np.ndarray)) else (n_actions, n_actions)
    counts: tuple[int, ...] = tuple(given)
    if len(counts) != 2:
        raise ValueError(
            f"n_actions is {n_actions}, that of {len(counts)} players, but {TWO_PLAYERS}"
        )
    for count in counts:
        check_size("n_actions", count, least)
    return counts
