"""Checks of the arrays of a finite MDP or game; each stops with one line that names the entry.

`axes` are the names of the axes of the rewards: ("H", "S", "A") in an MDP, ("H", "S", "A1", "A2")
in a game. Everything else about the number of players follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from contrastive_ucb.arrays import Array
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
