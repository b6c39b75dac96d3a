"""Finite episodic environments given by arrays: the base class, array checks and .npz files.

| array        | MDP          | game             |                                               |
|--------------|--------------|------------------|-----------------------------------------------|
| transitions  | (H, S, A, S) | (H, S, A1, A2, S)| P_h(s'|z), or a `Kernel` over z               |
| rewards      | (H, S, A)    | (H, S, A1, A2)   | mean rewards                                  |
| reward_scale | (H, S, A)    | (H, S, A1, A2)   | observed with probability rewards/reward_scale|
| initial      | (S,)         | (S,)             | distribution of the first state               |

`FiniteEnv` holds what MDPs and games share; `TabularMDP` and `TabularGame` are in `tabular.py`. The
argument `axes` of the checks names the axes of the rewards, ("H", "S", "A") or
("H", "S", "A1", "A2"). Every check raises a ValueError that names the first invalid entry.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.lib import format as npy
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.kernel import Kernel

TOLERANCE = 1e-6  # largest deviation of a sum of probabilities from 1; rows are then normalized
TWO_PLAYERS = (
    "a game has two players and is zero-sum, with one array rewards (H, S, A1, A2) "
    "for the row player; the column player receives its negative"
)
ARRAYS = ("transitions", "rewards", "initial", "reward_scale")  # names in an .npz file
HOW_TO_WRITE = "np.savez(path, transitions=P, rewards=r)"
OTHER_AXES = {"rewards": 2, "features": 3, "transitions": 3}  # axes other than actions
T = TypeVar("T")


class FiniteEnv:
    """H steps through S states; `rewards` has one action axis per player.

    A subclass defines the axes of its rewards, their lower bound, its spaces, and `step`.
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
        name: str = "file",
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
        self.name = name
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
        arrays: dict[str, Any] = _read_npz(path, partial(npy.read_array, allow_pickle=False))
        if unknown := set(arrays) - set(ARRAYS):
            raise ValueError(
                f"{path} has the array {min(unknown)!r}, not one of {', '.join(ARRAYS)}; remove it"
            )
        return cls(**arrays, rank=rank)

    @property
    def transitions(self) -> Array:
        """The dense table P_h(s'|z), shape (H, S, A, S), or (H, S, A1, A2, S) in a game; for small
        problems only.
        """
        return self.kernel.table().reshape(*self.rewards.shape, self.n_states)

    def render(self) -> str | None:
        if self.render_mode is None:
            return None
        return f"step {self._step} of {self.horizon}, state {self._state}"

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


def checked_action(name: str, given: Any, n_actions: int) -> int:
    """`given` as one of the actions 0..n_actions - 1."""
    if np.ndim(given) or given not in range(n_actions):
        raise ValueError(f"{name} is {given}; it must be one of 0..{n_actions - 1}")
    return int(given)


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
    """Whether an .npz file holds an MDP or a game; reads the headers of the arrays only."""
    shape = _read_npz(path, _shape_in_header)["transitions"]
    if len(shape) not in (4, 5):
        raise ValueError(
            f"transitions in {path} has shape {shape}; it must be (H, S, A, S) for an MDP or "
            f"(H, S, A1, A2, S) for a game, and {TWO_PLAYERS}"
        )
    return "mdp" if len(shape) == 4 else "game"


def _read_npz(path: str | Path, read: Callable[[IO[bytes]], T]) -> dict[str, T]:
    """What `read` returns for each array of an .npz file, by name; errors include the remedy."""
    if not Path(path).is_file():
        raise ValueError(f"no file at {path}; write one with {HOW_TO_WRITE}")
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as file:
                    arrays[member.removesuffix(".npy")] = read(file)
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


def _shape_in_header(file: IO[bytes]) -> tuple[int, ...]:
    is_first_version = npy.read_magic(file) == (1, 0)
    read = npy.read_array_header_1_0 if is_first_version else npy.read_array_header_2_0
    shape: tuple[int, ...] = read(file)[0]
    return shape
