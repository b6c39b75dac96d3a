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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

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
_N_OTHER_AXES = {"rewards": 2, "features": 3, "transitions": 3}  # axes other than actions


class FiniteEnv:
    """H steps through S states; `rewards` has one action axis per player.

    A subclass defines the axes of its rewards, their lower bound, and `step`.
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
            check_axes("transitions", transitions, (*self.axes, "S"))
        self.rewards = checked_rewards("rewards", rewards, self.axes, self.least_reward)
        self.horizon: int = self.rewards.shape[0]
        self.n_states: int = self.rewards.shape[1]
        self.kernel = checked_kernel(transitions, self.rewards.shape, self.axes)
        self.initial = checked_initial(initial, self.n_states)
        self.reward_scale = checked_scale(reward_scale, self.rewards, self.axes, self.least_reward)
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

    @classmethod
    def from_factors(
        cls,
        features: ArrayLike,
        measures: ArrayLike,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        **options: Any,
    ) -> Self:
        """The environment with P_h(s'|z) = psi_h(s')' phi_h(z), for non-negative factors.

        features  phi  (H, S, *A, d)
        measures  psi  (H, d, S)
        options   reward_scale, name, render_mode as in the class
        """
        return cls(factored(features, measures, rewards, cls.axes), rewards, initial, **options)

    @classmethod
    def load(cls, path: str | Path, *, rank: int | None = None) -> Self:
        """Read an .npz file with `transitions`, `rewards` and optionally the other arrays."""
        return cls(**read_npz(path), rank=rank)

    def _set_spaces(self, observations: spaces.MultiDiscrete) -> None:
        """Set the number of actions and the spaces; observations are pairs (step, state)."""
        raise NotImplementedError(f"{type(self).__name__} must define _set_spaces")

    @property
    def transitions(self) -> Array:
        """The dense table P_h(s'|z), (H, S, *A, S); for small problems only."""
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
        reward = self._draw_reward(at)
        self._step, self._state = self._step + 1, int(self.np_random.choice(self.n_states, p=row))
        return reward

    def _draw_reward(self, at: tuple[int, ...]) -> float:
        mean = float(self.rewards[at])
        if self.reward_scale is None:
            return mean
        scale = float(self.reward_scale[at])
        # Written without a division, so that zero and negative scales need no special case.
        return scale if self.np_random.random() * abs(scale) < abs(mean) else 0.0

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


def checked_rewards(name: str, given: ArrayLike, axes: Sequence[str], least: int) -> Array:
    """Rewards with these axes, all in [least, 1]."""
    rewards = _floats(name, given, axes)
    outside = (rewards < least) | (rewards > 1)
    _check_entries(name, rewards, outside, f"rewards must lie in [{least}, 1], rescale them all")
    return rewards


def checked_scale(
    given: ArrayLike | None, rewards: Array, axes: Sequence[str], least: int
) -> Array | None:
    """The reward observed with probability mean / scale: the sign of the mean, and no smaller."""
    if given is None:
        return None
    scale = checked_rewards("reward_scale", given, axes, least)
    if scale.shape != rewards.shape:
        raise ValueError(f"reward_scale has shape {scale.shape}; rewards has {rewards.shape}")
    short = scale * np.sign(rewards) < abs(rewards)
    rule = "it must have the sign of the mean in rewards and at least its absolute value"
    _check_entries("reward_scale", scale, short, rule)
    return scale


def checked_initial(given: ArrayLike | int | None, n_states: int) -> Array:
    """The distribution (S,) of the first state, from a distribution, a state, or None (state 0)."""
    if given is None or np.ndim(given) == 0:
        state = 0 if given is None else np.asarray(given).item()
        if not isinstance(state, int) or not 0 <= state < n_states:
            raise ValueError(f"initial is {state}; a first state must be one of 0..{n_states - 1}")
        return np.asarray(np.eye(1, n_states, state)[0])
    initial = _floats("initial", given, "S")
    if len(initial) != n_states:
        raise ValueError(f"initial has {len(initial)} entries; rewards has {n_states} states")
    _check_entries("initial", initial, initial < 0, "a probability must not be negative")
    if abs(initial.sum() - 1) > TOLERANCE:
        raise ValueError(
            f"initial sums to {initial.sum():.9g}; it must sum to 1, divide it by its sum"
        )
    return np.asarray(initial / initial.sum())


def checked_kernel(
    given: ArrayLike | Kernel, shape: tuple[int, ...], axes: Sequence[str]
) -> Kernel:
    """The kernel over z for rewards of this shape, with rows normalized to 1."""
    n_steps, n_states = shape[:2]
    n_pairs = int(np.prod(shape[1:]))
    if not isinstance(given, Kernel):
        table = _floats("transitions", given, (*axes, "S"))
        if table.shape != (*shape, n_states):
            raise ValueError(
                f"transitions has shape {table.shape}; rewards {shape} requires "
                f"{(*shape, n_states)}"
            )
        return Kernel(_normalized("transitions", table, axes).reshape(n_steps, n_pairs, -1))
    if given.features.shape[:-1] != (n_steps, n_pairs):
        raise ValueError(
            f"the features of the kernel have shape {given.features.shape}; rewards {shape} "
            f"requires ({n_steps}, {n_pairs}, d)"
        )
    features = given.features.reshape(*shape, -1)
    if given.measures is None:
        return checked_kernel(features, shape, axes)
    return _canonical(_floats("features", features, (*axes, "d")), given.measures, axes)


def factored(
    features: ArrayLike, measures: ArrayLike, rewards: ArrayLike, axes: Sequence[str]
) -> Kernel:
    """The kernel over z with P_h(s'|z) = psi_h(s')' phi_h(z); `checked_kernel` checks the rest.

    features  phi  (H, S, *A, d)
    measures  psi  (H, d, S)
    """
    phi = _floats("features", features, (*axes, "d"))
    psi = _floats("measures", measures, "HdS")
    check_axes("rewards", rewards, axes)
    if phi.shape[:-1] != (shape := np.shape(rewards)):
        raise ValueError(f"features has shape {phi.shape}; rewards {shape} requires {shape}+(d,)")
    return Kernel(phi.reshape(len(phi), -1, phi.shape[-1]), psi)


def check_axes(name: str, given: ArrayLike, axes: Sequence[str]) -> None:
    """Raise unless `given` has these axes; the error names the class that accepts its axes."""
    shape = np.shape(given)
    if len(shape) != len(axes):
        hint = _class_hint(name, len(shape))
        raise ValueError(f"{name} has shape {shape}; it must have shape {_shape(axes)}{hint}")


def _canonical(features: Array, given_measures: Array, axes: Sequence[str]) -> Kernel:
    """The factors scaled so that every measure has mass 1.

    With totals_j the mass of psi_j, sum_s' P(s'|z) = sum_j phi_j(z) totals_j: no table is needed.
    """
    n_steps, n_states, rank = *features.shape[:2], features.shape[-1]
    measures = _floats("measures", given_measures, "HdS")
    if measures.shape != (n_steps, rank, n_states):
        raise ValueError(
            f"measures has shape {measures.shape}; features {features.shape} and {n_states} states "
            f"require {(n_steps, rank, n_states)}"
        )
    rule = "factors must not be negative, see from_factors"
    _check_entries("measures", measures, measures < 0, rule)
    totals = measures.sum(-1)  # (H, d)
    over_pairs = totals.reshape(n_steps, *(1 for _ in axes[1:]), rank)
    features = _normalized("features", features * over_pairs, axes)
    measures /= np.where(totals > 0, totals, 1)[..., None]
    return Kernel(features.reshape(n_steps, -1, rank), measures)


def _normalized(name: str, rows: Array, axes: Sequence[str]) -> Array:
    """Rows (H, S, *A, n) of probabilities, divided by their sums if these are close to 1."""
    rule = f"a probability must not be negative, use np.maximum({name}, 0)"
    _check_entries(name, rows, rows < 0, rule)
    sums = rows.sum(-1)
    given = {3: "s,a", 4: "s,a,b"}[len(axes)]
    rule = f"P(.|{given}) must sum to 1 within {TOLERANCE:.0e}, divide each row by its sum"
    _check_entries(f"sum over s' of {name}", sums, abs(sums - 1) > TOLERANCE, rule)
    return np.asarray(rows / sums[..., None])


def _floats(name: str, given: ArrayLike, axes: Sequence[str]) -> Array:
    """`given` as finite float64 with these axes, none of them empty."""
    array = np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} values; it must hold real numbers")
    check_axes(name, array, axes)
    if 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}; every axis of {_shape(axes)} must be at least 1"
        )
    array = array.astype(np.float64)
    _check_entries(name, array, ~np.isfinite(array), "every entry must be finite, correct it")
    return array


def _check_entries(name: str, array: Array, invalid: BoolArray, rule: str) -> None:
    """Raise at the first invalid entry, with its index and value."""
    if invalid.any():
        at = np.unravel_index(int(invalid.argmax()), invalid.shape)
        raise ValueError(f"{name}[{','.join(map(str, at))}] is {array[at]:.9g}; {rule}")


def _shape(axes: Sequence[str]) -> str:
    """The axes in NumPy's notation of shapes."""
    return f"({', '.join(axes)}{',' * (len(axes) == 1)})"


def _class_hint(name: str, n_axes: int) -> str:
    """The class that accepts an array of this name with this number of axes."""
    n_players = n_axes - _N_OTHER_AXES.get(name, n_axes)
    if n_players == 1:
        return "; for an MDP use TabularMDP"
    if n_players == 2:
        return "; for a game of two players use TabularGame"
    if n_players > 2:
        what = f"a game of {n_players} players"
        what += " or one reward per player" if name == "rewards" else ""
        return f"; this is {what}, but {TWO_PLAYERS}"
    return ""


# Files


def read_npz(path: str | Path) -> dict[str, Any]:
    """The arrays of an .npz file by name; nothing is unpickled."""
    with _readable(path), np.load(path, allow_pickle=False) as archive:
        if unknown := set(archive.files) - set(ARRAYS):
            raise ValueError(f"unknown array {min(unknown)!r}, not one of {', '.join(ARRAYS)}")
        arrays = {name: archive[name] for name in archive.files}
    _check_present(path, arrays.keys())
    return arrays


def kind_of(path: str | Path) -> Literal["mdp", "game"]:
    """Whether an .npz file holds an MDP or a game; reads the headers of the arrays only."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        shapes = {name.removesuffix(".npy"): _shape_in_header(archive, name) for name in members}
    _check_present(path, shapes.keys())
    shape = shapes["transitions"]
    if len(shape) not in (4, 5):
        raise ValueError(
            f"transitions in {path} has shape {shape}; it must be (H, S, A, S) for an MDP or "
            f"(H, S, A1, A2, S) for a game, and {TWO_PLAYERS}"
        )
    return "mdp" if len(shape) == 4 else "game"


def _shape_in_header(archive: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    with archive.open(member) as file:
        first = npy.read_magic(file) == (1, 0)
        read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape: tuple[int, ...] = read(file)[0]
    return shape


def _check_present(path: str | Path, names: Collection[str]) -> None:
    if missing := {"transitions", "rewards"} - set(names):
        raise ValueError(
            f"{path} has no array named {' and '.join(sorted(missing))} "
            f"(it has {', '.join(sorted(names)) or 'none'}); write it with {HOW_TO_WRITE}"
        )


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Convert every error of reading a file into one line that includes the remedy."""
    if not Path(path).is_file():
        raise ValueError(f"no file at {path}; write one with {HOW_TO_WRITE}")
    try:
        yield
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not a readable .npz file of plain arrays ({error}); "
            f"write it with {HOW_TO_WRITE}"
        ) from error
