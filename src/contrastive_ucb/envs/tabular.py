"""Finite MDPs (Gymnasium) and two-player zero-sum games (PettingZoo) given by arrays.

In a game the row player (a, A1 actions) maximizes the sum of the rewards and the column player
(b, A2 actions) minimizes it. Both observe the state and choose simultaneously;
z = (s * A1 + a) * A2 + b.

PettingZoo is an optional extra: with it, a game is a parallel environment; without it, the same
class works with the same methods.

The argument `axes` of the checks names the axes of the rewards, ("H", "S", "A") or
("H", "S", "A1", "A2"). Every check raises a ValueError that names the first invalid entry.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.core.checks import as_path, check_size
from contrastive_ucb.envs.kernel import Kernel

if TYPE_CHECKING:  # PettingZoo has no type annotations
    ParallelEnv = object
else:
    try:
        from pettingzoo import ParallelEnv
    except ImportError:
        ParallelEnv = object

PLAYERS = ("row", "column")
TOLERANCE = 1e-6  # largest deviation of a sum of probabilities from 1; rows are then normalized
TWO_PLAYERS = (
    "a game has two players and is zero-sum, with one array rewards (H, S, A1, A2) "
    "for the row player; the column player receives its negative"
)
ARRAYS = ("transitions", "rewards", "initial", "reward_scale")  # names in an .npz file
HOW_TO_WRITE = "np.savez(path, transitions=P, rewards=r)"
OTHER_AXES = {"rewards": 2, "features": 3, "transitions": 3}  # axes other than actions


class FiniteEnv:
    """H steps through S states; `rewards` has one action axis per player.

    What MDPs and games share. A subclass defines the axes of its rewards, their lower bound, its
    spaces, and `step`.
    """

    axes: ClassVar[Sequence[str]]
    least_reward: ClassVar[int]

    # Gymnasium declares this as an instance variable but reads it from the class.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    np_random: np.random.Generator
    n_actions: int | tuple[int, int]

    reveals_reward: bool = True  # False: a known reward reveals the solution, so learn it (E15)
    suggested_alpha: float = 0.3  # suitable scale of the practical bonus, gamma = alpha H
    # Largest loss of a solution: as a fraction of V* in an MDP, as exploitability in a game. None:
    # no criterion is defined.
    solved_gap: float | None = None

    def __init__(
        self,
        transitions: ArrayLike | Kernel,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        *,
        reward_scale: ArrayLike | None = None,
        rank: int | None = None,
        name: str | None = None,
        render_mode: str | None = None,
    ):
        if not isinstance(transitions, Kernel):  # first, because its axes distinguish the classes
            transitions = _numbers("transitions", transitions, (*self.axes, "S"))
        limits = (self.least_reward, 1)
        self.rewards = _numbers("rewards", rewards, self.axes, limits)
        self.horizon: int = self.rewards.shape[0]
        self.n_states: int = self.rewards.shape[1]
        self.kernel = _checked_kernel(transitions, self.rewards.shape, self.axes)
        self.initial = _checked_initial(initial, self.n_states)
        self.reward_scale: Array | None = None
        if reward_scale is not None:
            self.reward_scale = scale = _numbers("reward_scale", reward_scale, self.axes, limits)
            _check_shape("reward_scale", scale, self.rewards.shape, "rewards")
            short = scale * np.sign(self.rewards) < abs(self.rewards)
            rule = "it must have the sign of the mean in rewards and at least its absolute value"
            _check_entries("reward_scale", scale, short, rule)
        measures = self.kernel.measures
        self.rank = measures.shape[-2] if rank is None and measures is not None else rank
        if self.rank is not None:
            check_size("rank", self.rank)
        self.name = type(self).__name__ if name is None else name
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'ansi'")
        self.render_mode = render_mode
        self._step: int = self.horizon  # an episode begins with reset()
        self._state = 0
        self._set_spaces(spaces.MultiDiscrete([self.horizon + 1, self.n_states]))

    def _set_spaces(self, observations: spaces.MultiDiscrete) -> None:
        """Set the number of actions and the spaces; observations are pairs (step, state)."""
        raise NotImplementedError(f"{type(self).__name__} must define _set_spaces")

    @classmethod
    def from_factors(
        cls,
        features: ArrayLike,
        measures: ArrayLike,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        **options: Any,
    ) -> Self:
        """Make an environment with P_h(s'|z) = psi_h(s')' phi_h(z), for non-negative factors.

        Args:
            features: phi, shape (H, S, A, d); in a game (H, S, A1, A2, d).
            measures: psi, shape (H, d, S).
            rewards: Mean rewards, as in the class.
            initial: Distribution of the first state, as in the class.
            **options: reward_scale, rank, name and render_mode, as in the class.

        Returns:
            The environment. Its rank is d unless `rank` is given.

        Raises:
            ValueError: A factor has a negative entry, or the rows of the product do not sum to 1.
        """
        phi = _numbers("features", features, (*cls.axes, "d"))
        _check_shape("features", phi, (*np.shape(rewards), phi.shape[-1]), "rewards")
        kernel = Kernel(phi.reshape(len(phi), -1, phi.shape[-1]), np.asarray(measures))
        return cls(kernel, rewards, initial, **options)

    @classmethod
    def load(cls, path: str | Path, *, rank: int | None = None) -> Self:
        """Read an environment from an .npz file.

        Args:
            path: A file with the arrays `transitions` and `rewards`, and optionally `initial` and
                `reward_scale`, for example from `np.savez(path, transitions=P, rewards=r)`.
            rank: d, the dimension of the features to learn, if known.

        Returns:
            The environment.

        Raises:
            ValueError: The file cannot be read, or an array is missing, unknown or invalid.
        """
        arrays = _read_npz(as_path("path", path))
        if unknown := set(arrays) - set(ARRAYS):
            raise ValueError(
                f"{path} has the array {min(unknown)!r}, not one of {', '.join(ARRAYS)}; remove it"
            )
        return cls(**arrays, rank=rank, name="file")

    @property
    def transitions(self) -> Array:
        """The dense table P_h(s'|z), shape (H, S, A, S), or (H, S, A1, A2, S) in a game; for small
        problems only.
        """
        return self.kernel.table().reshape(*self.rewards.shape, self.n_states)

    def render(self) -> str | None:
        position = f"step {self._step} of {self.horizon}, state {self._state}"
        return None if self.render_mode is None else position

    def __repr__(self) -> str:
        sizes = (f"{n}={getattr(self, n)}" for n in ("n_states", "n_actions", "horizon", "rank"))
        return f"{type(self).__name__}({', '.join(sizes)})"

    __str__ = __repr__

    def state_dict(self) -> dict[str, Any]:
        """The position in the episode and the state of the random generator, as JSON values."""
        random = self.np_random.bit_generator.state
        return {"step": self._step, "state": self._state, "random": random}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._state = int(state["step"]), int(state["state"])
        self.np_random.bit_generator.state = state["random"]

    def _begin(self) -> None:
        """Draw the first state of an episode."""
        self._step, self._state = 0, int(self.np_random.choice(self.n_states, p=self.initial))

    def _move(self, actions: Sequence[int]) -> float:
        """Take one action per player, move to the next state and return the reward."""
        at = self._step, self._state, *actions
        pair = int(np.ravel_multi_index(at[1:], self.rewards.shape[1:]))
        row = self.kernel.rows(self._step, slice(pair, pair + 1))[0]
        reward = float(self.rewards[at])
        if self.reward_scale is not None:
            scale = float(self.reward_scale[at])
            # Written without a division, so that zero and negative scales need no special case.
            reward = scale if self.np_random.random() * abs(scale) < abs(reward) else 0.0
        self._step, self._state = self._step + 1, int(self.np_random.choice(self.n_states, p=row))
        return reward

    def _is_over(self) -> bool:
        return self._step == self.horizon

    def _check_running(self) -> None:
        if self._is_over():
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")

    def _observation(self) -> IntArray:
        return np.array([self._step, self._state], dtype=np.int64)


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
        name: Name of the environment in messages and results; by default that of the class.
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
        name: Name of the game in messages and results; by default that of the class.
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


def checked_action(name: str, given: Any, n_actions: int, first: int = 0) -> int:
    """The index 0..n_actions - 1 of an action, where the first action is called `first`."""
    last = first + n_actions - 1
    if np.ndim(given) or given not in range(first, last + 1):
        raise ValueError(f"{name} is {given}; it must be one of {first}..{last}")
    return int(given) - first


def action_counts(n_actions: int | Sequence[int], least: int = 1) -> tuple[int, int]:
    """The numbers of actions (A1, A2) of the two players; one number applies to both."""
    given = n_actions if isinstance(n_actions, (Sequence, np.ndarray)) else (n_actions, n_actions)
    counts: tuple[int, ...] = tuple(given)
    if len(counts) != 2:
        raise ValueError(f"n_actions is {n_actions}, for {len(counts)} players, but {TWO_PLAYERS}")
    for count in counts:
        check_size("n_actions", count, least)
    return counts


# Checks of arrays


def _numbers(
    name: str,
    given: ArrayLike,
    axes: Sequence[str],
    limits: tuple[float, float] | None = None,
) -> Array:
    """`given` as finite float64 with these axes, none of them empty, and within the limits."""
    array = np.asarray(given)
    shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} values; it must hold real numbers")
    if array.ndim != len(axes):
        n_players = array.ndim - OTHER_AXES.get(name, array.ndim)
        remedy = ""
        if n_players in (1, 2):
            kind = ("TabularMDP", "TabularGame")[n_players - 1]
            remedy = f"; for arrays of this shape use {kind}"
        elif n_players > 2:
            remedy = f"; these are {n_players} players or one reward per player, but {TWO_PLAYERS}"
        raise ValueError(f"{name} has shape {array.shape}; it must have shape {shape}{remedy}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}; no axis of {shape} may be empty")
    array = array.astype(np.float64)
    _check_entries(name, array, ~np.isfinite(array), "every entry must be finite, correct it")
    if limits is not None:
        low, high = limits
        rule = f"rewards must lie in [{low}, {high}], rescale them all"
        _check_entries(name, array, (array < low) | (array > high), rule)
    return array


def _check_shape(name: str, array: Array, shape: tuple[int, ...], other: str) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; the shape of {other} requires {shape}")


def _check_entries(name: str, array: Array, invalid: BoolArray, rule: str) -> None:
    """Raise at the first invalid entry, with its index and value."""
    if invalid.any():
        at = np.unravel_index(int(invalid.argmax()), invalid.shape)
        raise ValueError(f"{name}[{','.join(map(str, at))}] is {array[at]:.9g}; {rule}")


def _checked_initial(given: ArrayLike | int | None, n_states: int) -> Array:
    """The distribution (S,) of the first state, from a distribution, a state, or None (state 0)."""
    if given is None or np.ndim(given) == 0:
        state = 0 if given is None else np.asarray(given).item()
        if not isinstance(state, int) or not 0 <= state < n_states:
            raise ValueError(f"initial is {state}; a first state must be one of 0..{n_states - 1}")
        return np.asarray(np.eye(1, n_states, state)[0])
    initial = _numbers("initial", given, "S")
    if len(initial) != n_states:
        raise ValueError(f"initial has {len(initial)} entries; rewards has {n_states} states")
    _check_entries("initial", initial, initial < 0, "a probability must not be negative")
    if abs(initial.sum() - 1) > TOLERANCE:
        raise ValueError(
            f"initial sums to {initial.sum():.9g}; it must sum to 1, divide it by its sum"
        )
    return np.asarray(initial / initial.sum())


def _checked_kernel(given: Array | Kernel, shape: tuple[int, ...], axes: Sequence[str]) -> Kernel:
    """The kernel over z for rewards of this shape, with rows that sum to 1 and measures of mass 1.

    With totals_j the mass of psi_j, sum_s' P(s'|z) = sum_j phi_j(z) totals_j: no table is needed.
    """
    n_steps, n_states, n_pairs = *shape[:2], int(np.prod(shape[1:]))
    name, measures = "transitions", None
    if isinstance(given, Kernel):
        if given.features.shape[:-1] != (n_steps, n_pairs):
            raise ValueError(
                f"the features of the kernel have shape {given.features.shape}; rewards {shape} "
                f"requires ({n_steps}, {n_pairs}, d)"
            )
        name = "transitions" if given.measures is None else "features"
        rows = _numbers(name, given.features.reshape(*shape, -1), (*axes, "d"))
        measures = given.measures
    else:
        rows = given
    if measures is None:
        _check_shape(name, rows, (*shape, n_states), "rewards")
    else:
        measures = _numbers("measures", measures, "HdS")
        _check_shape("measures", measures, (n_steps, rows.shape[-1], n_states), "features")
        rule = "factors must not be negative, see from_factors"
        _check_entries("measures", measures, measures < 0, rule)
        totals = measures.sum(-1)  # (H, d)
        rows = rows * totals.reshape(n_steps, *(1 for _ in axes[1:]), -1)
        measures /= np.where(totals > 0, totals, 1)[..., None]
    rule = f"a probability must not be negative, use np.maximum({name}, 0)"
    _check_entries(name, rows, rows < 0, rule)
    sums = rows.sum(-1)
    pair = {3: "s,a", 4: "s,a,b"}[len(axes)]
    rule = f"P(.|{pair}) must sum to 1 within {TOLERANCE:.0e}, divide each row by its sum"
    _check_entries(f"sum over s' of {name}", sums, abs(sums - 1) > TOLERANCE, rule)
    return Kernel((rows / sums[..., None]).reshape(n_steps, n_pairs, -1), measures)


# Files


def kind_of(path: str | Path) -> Literal["mdp", "game"]:
    """Whether an .npz file holds an MDP or a game."""
    shape = np.shape(_read_npz(path)["transitions"])
    if len(shape) not in (4, 5):
        raise ValueError(
            f"transitions in {path} has shape {shape}; it must be (H, S, A, S) for an MDP or "
            f"(H, S, A1, A2, S) for a game, and {TWO_PLAYERS}"
        )
    return "mdp" if len(shape) == 4 else "game"


def load_env(path: str | Path, *, rank: int | None = None) -> TabularMDP | TabularGame:
    """The MDP or game in an .npz file, distinguished by the axes of its `transitions`."""
    return (TabularMDP if kind_of(path) == "mdp" else TabularGame).load(path, rank=rank)


def _read_npz(path: str | Path) -> dict[str, Any]:
    """The arrays of an .npz file by name; errors include the remedy."""
    if not Path(path).is_file():
        raise ValueError(f"no file at {path}; write one with {HOW_TO_WRITE}")
    try:
        if not zipfile.is_zipfile(path):  # numpy would suggest to load it as a pickle
            raise ValueError("it is not a zip archive")
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not a readable .npz file of plain arrays ({error}); "
            f"write it with {HOW_TO_WRITE}"
        ) from error
    if missing := {"transitions", "rewards"} - set(arrays):
        raise ValueError(
            f"{path} has no array named {' and '.join(sorted(missing))} "
            f"(it has {', '.join(sorted(arrays)) or 'none'}); write it with {HOW_TO_WRITE}"
        )
    return arrays
