"""Checks of the arrays of a finite MDP or game; each stops with one line that names the entry.

`axes` are the names of the axes of the rewards: ("H", "S", "A") in an MDP, ("H", "S", "A1", "A2")
in a game. Everything else about the number of players follows from them.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.lib import format as npy
from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs.kernel import Kernel

TOLERANCE = 1e-6  # a distribution may miss 1 by this much; it is then divided by its sum
TWO_PLAYERS = (
    "a game has two players and is zero-sum, with one array rewards (H, S, A1, A2) "
    "for the row player; the column player gets its negative"
)
_N_OTHER_AXES = {"rewards": 2, "features": 3, "transitions": 3}  # axes that are no player's actions


def numbers(name: str, given: ArrayLike, axes: Sequence[str]) -> Array:
    """`given` as finite float64 with one axis a name in `axes`, none of them empty."""
    array = np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} values; give real numbers")
    check_axes(name, array, axes)
    if 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}; every axis of {_shape(axes)} must be at least 1"
        )
    array = array.astype(np.float64)
    refuse(name, array, ~np.isfinite(array), "every entry must be finite, repair it at the source")
    return array


def check_axes(name: str, given: ArrayLike, axes: Sequence[str]) -> None:
    """Stop unless `given` has these axes, and say where an array with its axes belongs."""
    shape = np.shape(given)
    if len(shape) != len(axes):
        hint = _other_kind(name, len(shape))
        raise ValueError(f"{name} has shape {shape}; it must have shape {_shape(axes)}{hint}")


def refuse(name: str, array: Array, bad: np.ndarray[Any, np.dtype[np.bool_]], why: str) -> None:
    """Stop at the first bad entry and say which it is."""
    if bad.any():
        at = np.unravel_index(int(bad.argmax()), bad.shape)
        raise ValueError(f"{name}[{','.join(map(str, at))}] is {array[at]:.9g}; {why}")


def checked_rewards(name: str, given: ArrayLike, axes: Sequence[str], least: int) -> Array:
    """Rewards with these axes, all of them from `least` to 1."""
    rewards = numbers(name, given, axes)
    outside = (rewards < least) | (rewards > 1)
    refuse(name, rewards, outside, f"it must lie in [{least}, 1], shift and scale all of them")
    return rewards


def checked_scale(
    given: ArrayLike | None, rewards: Array, axes: Sequence[str], least: int
) -> Array | None:
    """The reward that is seen with probability mean / scale; on the mean's side of 0, beyond it."""
    if given is None:
        return None
    scale = checked_rewards("reward_scale", given, axes, least)
    if scale.shape != rewards.shape:
        raise ValueError(f"reward_scale has shape {scale.shape}; rewards has {rewards.shape}")
    short = scale * np.sign(rewards) < abs(rewards)
    why = "it must be at least the mean in rewards, in size and with its sign"
    refuse("reward_scale", scale, short, why)
    return scale


def checked_initial(given: ArrayLike | int | None, n_states: int) -> Array:
    """The distribution (S,) of the first state, given as such, as a state, or not at all."""
    if given is None or np.ndim(given) == 0:
        state = 0 if given is None else np.asarray(given).item()
        if not isinstance(state, int) or not 0 <= state < n_states:
            raise ValueError(f"initial is {state}; a first state must be one of 0..{n_states - 1}")
        return np.asarray(np.eye(1, n_states, state)[0])
    initial = numbers("initial", given, "S")
    if len(initial) != n_states:
        raise ValueError(f"initial has {len(initial)} entries; rewards has {n_states} states")
    refuse("initial", initial, initial < 0, "a probability must not be negative")
    if abs(initial.sum() - 1) > TOLERANCE:
        raise ValueError(
            f"initial sums to {initial.sum():.9g}; it must sum to 1, divide it by that"
        )
    return np.asarray(initial / initial.sum())


def checked_kernel(
    given: ArrayLike | Kernel, shape: tuple[int, ...], axes: Sequence[str]
) -> Kernel:
    """The kernel over z for rewards of this shape, its rows summing to 1 up to rounding."""
    n_steps, n_states = shape[:2]
    n_pairs = int(np.prod(shape[1:]))
    if not isinstance(given, Kernel):
        table = numbers("transitions", given, (*axes, "S"))
        if table.shape != (*shape, n_states):
            raise ValueError(
                f"transitions has shape {table.shape}; "
                f"rewards {shape} asks for {(*shape, n_states)}"
            )
        return Kernel(_normalised("transitions", table, axes).reshape(n_steps, n_pairs, -1))
    if given.features.shape[:-1] != (n_steps, n_pairs):
        raise ValueError(
            f"the kernel's features have shape {given.features.shape}; rewards {shape} asks for "
            f"({n_steps}, {n_pairs}, d)"
        )
    features = given.features.reshape(*shape, -1)
    if given.measures is None:
        return checked_kernel(features, shape, axes)
    return _canonical(numbers("features", features, (*axes, "d")), given.measures, axes)


def factored(
    features: ArrayLike, measures: ArrayLike, rewards: ArrayLike, axes: Sequence[str]
) -> Kernel:
    """The kernel over z with P_h(s'|z) = psi_h(s')' phi_h(z); `checked_kernel` checks the rest.

    features  phi  (H, S, *A, d)
    measures  psi  (H, d, S)
    """
    phi = numbers("features", features, (*axes, "d"))
    psi = numbers("measures", measures, "HdS")
    check_axes("rewards", rewards, axes)
    if phi.shape[:-1] != (shape := np.shape(rewards)):
        raise ValueError(f"features has shape {phi.shape}; rewards {shape} asks for {shape}+(d,)")
    return Kernel(phi.reshape(len(phi), -1, phi.shape[-1]), psi)


def _canonical(features: Array, given_measures: Array, axes: Sequence[str]) -> Kernel:
    """The factors in the canonical gauge: every measure has mass 1.

    With totals_j the mass of psi_j, sum_s' P(s'|z) = sum_j phi_j(z) totals_j: no table is needed.
    """
    n_steps, n_states, rank = *features.shape[:2], features.shape[-1]
    measures = numbers("measures", given_measures, "HdS")
    if measures.shape != (n_steps, rank, n_states):
        raise ValueError(
            f"measures has shape {measures.shape}; features {features.shape} and {n_states} states "
            f"ask for {(n_steps, rank, n_states)}"
        )
    refuse("measures", measures, measures < 0, "factors must not be negative, see from_factors")
    totals = measures.sum(-1)  # (H, d)
    over_pairs = totals.reshape(n_steps, *(1 for _ in axes[1:]), rank)
    features = _normalised("features", features * over_pairs, axes)
    measures /= np.where(totals > 0, totals, 1)[..., None]
    return Kernel(features.reshape(n_steps, -1, rank), measures)


def _normalised(name: str, rows: Array, axes: Sequence[str]) -> Array:
    """Rows (H, S, *A, n) of probabilities, divided by their sums once those are close to 1."""
    refuse(name, rows, rows < 0, f"a probability must not be negative, use np.maximum({name}, 0)")
    sums = rows.sum(-1)
    given = {3: "s,a", 4: "s,a,b"}[len(axes)]
    why = f"P(.|{given}) must sum to 1 within {TOLERANCE:.0e}, divide each row by its sum"
    refuse(f"sum over s' of {name}", sums, abs(sums - 1) > TOLERANCE, why)
    return np.asarray(rows / sums[..., None])


def _shape(axes: Sequence[str]) -> str:
    """The axes as numpy writes a shape."""
    return f"({', '.join(axes)}{',' * (len(axes) == 1)})"


def _other_kind(name: str, n_axes: int) -> str:
    """What an array of this name with so many axes is, and which class takes it."""
    n_players = n_axes - _N_OTHER_AXES.get(name, n_axes)
    if n_players == 1:
        return "; that of an MDP goes to TabularMDP"
    if n_players == 2:
        return "; that of a game of two players goes to TabularGame"
    if n_players > 2:
        what = f"a game of {n_players} players"
        what += " or has a reward for each player" if name == "rewards" else ""
        return f"; this is {what}, but {TWO_PLAYERS}"
    return ""


NAMES = ("transitions", "rewards", "initial", "reward_scale")
HOW_TO_WRITE = "np.savez(path, transitions=P, rewards=r)"


def read_npz(path: str | Path) -> dict[str, Any]:
    """The arrays that an .npz file holds, by name; nothing is ever unpickled."""
    with _readable(path), np.load(path, allow_pickle=False) as archive:
        if unknown := set(archive.files) - set(NAMES):
            raise ValueError(f"it has an array {min(unknown)!r}, not one of {', '.join(NAMES)}")
        arrays = {name: archive[name] for name in archive.files}
    _check_present(path, arrays.keys())
    return arrays


def kind_of(path: str | Path) -> Literal["mdp", "game"]:
    """Whether an .npz file holds an MDP or a game, from the shapes in its headers alone."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        shapes = {name.removesuffix(".npy"): _shape_in_header(archive, name) for name in members}
    _check_present(path, shapes.keys())
    shape = shapes["transitions"]
    if len(shape) not in (4, 5):
        raise ValueError(
            f"transitions in {path} has shape {shape}; that of an MDP is (H, S, A, S), that of a "
            f"game (H, S, A1, A2, S), and {TWO_PLAYERS}"
        )
    return "mdp" if len(shape) == 4 else "game"


def _shape_in_header(archive: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    """The shape of an array, from the few bytes in front of its numbers."""
    with archive.open(member) as file:
        first = npy.read_magic(file) == (1, 0)
        read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape: tuple[int, ...] = read(file)[0]
    return shape


def _check_present(path: str | Path, found: Collection[str]) -> None:
    if missing := {"transitions", "rewards"} - set(found):
        raise ValueError(
            f"{path} has no array named {' and '.join(sorted(missing))} "
            f"(it has {', '.join(sorted(found)) or 'nothing'}); write it with {HOW_TO_WRITE}"
        )


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn every way in which a file can be unreadable into one line that says what to do."""
    if not Path(path).is_file():
        raise ValueError(f"no file at {path}; write one with {HOW_TO_WRITE}")
    try:
        yield
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not a readable .npz file of plain arrays ({error}); "
            f"write it with {HOW_TO_WRITE}"
        ) from error


class FiniteEnv:
    """H steps through S states, with one action axis in `rewards` for each player.

    A subclass names the axes of its rewards and their least value, and steps with its own actions.
    """

    axes: ClassVar[Sequence[str]]
    least_reward: ClassVar[int]

    # Gymnasium declares this an instance variable and yet reads it from the class.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    np_random: np.random.Generator
    n_actions: int | tuple[int, int]

    reveals_reward: bool = True  # False: knowing the reward gives the answer away, learn it (E15)
    suggested_alpha: float = 0.3  # size of the practical bonus, gamma = alpha H, that suits it
    # What a solution may lose: a policy of an MDP a part of V*, both players of a game together an
    # exploitability. None: nobody says when this one counts as solved.
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
        if not isinstance(transitions, Kernel):  # first, since its axes tell the kinds apart
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
        self._open()

    def _open(self) -> None:
        """What a subclass adds to be an environment of its library: actions and spaces."""
        raise NotImplementedError(f"{type(self).__name__} is no environment of any library")

    @property
    def transitions(self) -> Array:
        """The table P_h(s'|z) (H, S, *A, S), multiplied out; only for small problems."""
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
        """Where the episode is and what the random numbers will be, as JSON values."""
        random = self.np_random.bit_generator.state
        return {"step": self._step, "state": self._state, "random": random}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._state = int(state["step"]), int(state["state"])
        self.np_random.bit_generator.state = state["random"]

    def _begin(self) -> None:
        """Draw the first state of an episode."""
        self._step, self._state = 0, int(self.np_random.choice(self.n_states, p=self.initial))

    def _move(self, actions: Sequence[int]) -> float:
        """Take one action a player; returns the reward and goes to the next state."""
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
        # Without a division, a scale of 0 and a negative one need no case of their own.
        return scale if self.np_random.random() * abs(scale) < abs(mean) else 0.0

    def _is_over(self) -> bool:
        return self._step == self.horizon

    def _check_running(self) -> None:
        if self._is_over():
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")

    def _observation(self) -> IntArray:
        return np.array([self._step, self._state], dtype=np.int64)

    def _observations(self) -> spaces.MultiDiscrete:
        """The space of all pairs (step, state)."""
        return spaces.MultiDiscrete([self.horizon + 1, self.n_states])


def checked_action(name: str, given: Any, n_actions: int) -> int:
    """`given` as one of the actions 0..n_actions - 1."""
    if np.ndim(given) or given not in range(n_actions):
        raise ValueError(f"{name} is {given}; it must be one of 0..{n_actions - 1}")
    return int(given)
