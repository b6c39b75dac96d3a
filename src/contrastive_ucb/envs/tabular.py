"""Finite MDPs (Gymnasium) and two-player zero-sum games (PettingZoo) given by arrays.

In a game the row player (a, A1 actions) maximizes the sum of the rewards and the column player
(b, A2 actions) minimizes it. Both observe the state and choose simultaneously;
z = (s * A1 + a) * A2 + b.

PettingZoo is an optional extra: with it, a game is a parallel environment; without it, the same
class works with the same methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.finite import TWO_PLAYERS, FiniteEnv, checked_action, kind_of

if TYPE_CHECKING:  # PettingZoo has no type annotations
    ParallelEnv = object
else:
    try:
        from pettingzoo import ParallelEnv
    except ImportError:
        ParallelEnv = object

PLAYERS = ("row", "column")


class TabularMDP(FiniteEnv, gymnasium.Env[IntArray, np.int64]):
    """A finite MDP with H steps, given by arrays.

    It is a Gymnasium environment: an observation is (step, state), and an episode terminates after
    H steps.

    Args:
        transitions: P_h(s'|s,a), shape (H, S, A, S); rows sum to 1. For a factorized kernel use
            `from_factors`.
        rewards: Mean rewards r_h(s,a) in [0, 1], shape (H, S, A).
        initial: Distribution of the first state, shape (S,), or one state; None means state 0.
        reward_scale: Shape (H, S, A). The observed reward is this value with probability
            rewards / reward_scale, else 0. None: the mean is observed.
        rank: d, the dimension of the features to learn, if known.
        name: Name of the environment in messages and results.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Attributes:
        horizon: H, the number of steps.
        n_states: S.
        n_actions: A.

    Raises:
        ValueError: An array is invalid; the message names the first invalid entry.

    Examples:
        >>> import numpy as np
        >>> import contrastive_ucb as cu
        >>> transitions = np.full((3, 5, 2, 5), 1 / 5)  # H = 3, S = 5, A = 2
        >>> rewards = np.zeros((3, 5, 2))
        >>> rewards[2, :, 1] = 1
        >>> env = cu.TabularMDP(transitions, rewards, rank=1)
        >>> env
        TabularMDP(n_states=5, n_actions=2, horizon=3, rank=1)
        >>> observation, info = env.reset(seed=0)
        >>> observation.tolist()  # step and state
        [0, 0]
        >>> observation, reward, terminated, truncated, info = env.step(1)
    """

    axes = ("H", "S", "A")
    least_reward = 0

    def _set_spaces(self, observations: spaces.MultiDiscrete) -> None:
        self.n_actions: int = self.rewards.shape[2]
        self.observation_space = observations
        self.action_space = spaces.Discrete(self.n_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[IntArray, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin()
        return self._observation(), {}

    def step(self, action: int | np.int64) -> tuple[IntArray, float, bool, bool, dict[str, Any]]:
        self._check_running()
        reward = self._move([checked_action("action", action, self.n_actions)])
        return self._observation(), reward, self._is_over(), False, {}


class TabularGame(FiniteEnv, ParallelEnv):
    """A zero-sum game of two players with H steps, given by arrays.

    The row player (actions a) maximizes the sum of the rewards and the column player (actions b)
    minimizes it. Both observe (step, state) and choose simultaneously. With the extra `games` it
    is a PettingZoo parallel environment with the agents "row" and "column"; without it, the methods
    are the same.

    Args:
        transitions: P_h(s'|s,a,b), shape (H, S, A1, A2, S); rows sum to 1. For a factorized kernel
            use `from_factors`.
        rewards: Mean rewards r_h(s,a,b) of the row player in [-1, 1], shape (H, S, A1, A2).
        initial: Distribution of the first state, shape (S,), or one state; None means state 0.
        reward_scale: Shape (H, S, A1, A2). The observed reward is this value with probability
            rewards / reward_scale, else 0. None: the mean is observed.
        rank: d, the dimension of the features to learn, if known.
        name: Name of the game in messages and results.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Attributes:
        horizon: H, the number of steps.
        n_states: S.
        n_actions: The pair (A1, A2).

    Raises:
        ValueError: An array is invalid; the message names the first invalid entry.

    Examples:
        Matching pennies, played twice:

        >>> import numpy as np
        >>> import contrastive_ucb as cu
        >>> rewards = np.tile([[1.0, -1.0], [-1.0, 1.0]], (2, 1, 1, 1))  # H = 2, S = 1
        >>> game = cu.TabularGame(np.ones((2, 1, 2, 2, 1)), rewards, rank=1)
        >>> observations, infos = game.reset(seed=0)
        >>> observations, rewards, *_ = game.step({"row": 0, "column": 0})
        >>> rewards
        {'row': 1.0, 'column': -1.0}
        >>> round(cu.nash_value(game), 6)
        0.0
    """

    axes = ("H", "S", "A1", "A2")
    least_reward = -1
    suggested_alpha = 0.7  # with 0.5, V-lower <= V_Nash <= V-upper was violated in a few rounds

    def _set_spaces(self, observations: spaces.MultiDiscrete) -> None:
        self.n_actions: tuple[int, int] = self.rewards.shape[2], self.rewards.shape[3]
        self.metadata = {**self.metadata, "name": self.name}
        self.possible_agents = list(PLAYERS)
        self.observation_spaces = dict.fromkeys(PLAYERS, observations)
        counts = zip(PLAYERS, self.n_actions, strict=True)
        self.action_spaces = {player: spaces.Discrete(n) for player, n in counts}
        self.np_random = seeding.np_random()[0]

    @property
    def agents(self) -> list[str]:
        """The players of the current episode: both, or none once it is over."""
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
        return self._joint_observation(), {player: {} for player in PLAYERS}

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
                f"got actions of {', '.join(map(str, actions)) or 'no player'}; "
                'step takes one action per player, {"row": a, "column": b}'
            )
        counts = zip(PLAYERS, self.n_actions, strict=True)
        chosen = [checked_action(f"action of {p}", actions[p], n) for p, n in counts]
        reward = self._move(chosen)
        over = dict.fromkeys(PLAYERS, self._is_over())
        rewards = {"row": reward, "column": -reward}
        infos: dict[str, dict[str, Any]] = {player: {} for player in PLAYERS}
        return self._joint_observation(), rewards, over, dict.fromkeys(PLAYERS, False), infos

    def state(self) -> IntArray:
        """Return the observation of both players.

        Returns:
            The pair (step, state), shape (2,).
        """
        return self._observation()

    def close(self) -> None:
        """Do nothing; PettingZoo requires this method."""

    def _joint_observation(self) -> dict[str, IntArray]:
        return {player: self._observation() for player in PLAYERS}


def load_env(path: str | Path, *, rank: int | None = None) -> TabularMDP | TabularGame:
    """The MDP or game in an .npz file, distinguished by the axes of its `transitions`."""
    return (TabularMDP if kind_of(path) == "mdp" else TabularGame).load(path, rank=rank)


def action_counts(n_actions: int | Sequence[int], least: int = 1) -> tuple[int, int]:
    """The numbers of actions (A1, A2) of the two players; one number applies to both."""
    given = n_actions if isinstance(n_actions, (Sequence, np.ndarray)) else (n_actions, n_actions)
    counts: tuple[int, ...] = tuple(given)
    if len(counts) != 2:
        raise ValueError(f"n_actions is {n_actions}, for {len(counts)} players, but {TWO_PLAYERS}")
    for count in counts:
        check_size("n_actions", count, least)
    return counts
