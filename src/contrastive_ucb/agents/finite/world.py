"""What lines 1 to 10 of Algorithms 1 and 2 work on: tables, or observations.

A world collects, fits and says how little is known. It always presents finitely many states to plan
on, all S of them or M draws that stand for P^-, so that planning is one code for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from contrastive_ucb.bonus.schedule import Coefficients
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.kernel import Kernel

Streams = dict[str, list[np.random.Generator]]  # by name, one a seed


class Limits(NamedTuple):
    """What Q_h is clipped to, each (H,)."""

    low: Array
    high: Array


class Acting(Protocol):
    """Whoever collects data: pi^{k-1} as a table, and as a function of observations."""

    @property
    def roll_in(self) -> Array: ...
    def acts(self, step: int, observations: Array) -> Array: ...


class World(Protocol):
    """The parts of a round that do not choose actions."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, S, A): seeds, steps, states to plan on, joint actions."""
        ...

    @property
    def action_shape(self) -> tuple[int, ...]: ...

    @property
    def initial(self) -> Array:
        """The distribution of the first state   (B, S)"""
        ...

    @property
    def n_listed(self) -> int:
        """States that are the same in every round, so that tables of them can be kept: S or 0."""
        ...

    @property
    def figures(self) -> dict[str, Array]:
        """What is worth logging of the last fit, by its tag   (B,) each"""
        ...

    @property
    def round_trajectories(self) -> int: ...

    @property
    def round_steps(self) -> int:
        """Environment steps of a round."""
        ...

    def schedule(self, round_number: int) -> Coefficients:
        """gamma_k and lambda_k."""
        ...

    def collect(self, agent: Acting, round_number: int) -> None:
        """Line 4."""
        ...

    def fit(self, round_number: int) -> Kernel:
        """Lines 6 to 8."""
        ...

    def bonus(self, kernel: Kernel, round_number: int) -> tuple[Array, Array]:
        """Lines 9 and 10: beta (B, H, S, A), and log det Sigma summed over steps (B,)."""
        ...

    def rewards(self) -> Array:
        """r_h, known or learnt   (B, H, S, A)"""
        ...

    def settle(self, names: Sequence[str], values: Sequence[Array], limits: Limits | None) -> None:
        """Keep the policy that was just planned under these names.

        values  V-upper (B, H, S), and in games V-lower
        """
        ...

    def bounds(self, name: str, step: int, observations: Array) -> list[Array] | None:
        """Q-upper (n, A), and in games Q-lower, of a kept policy; None: nothing was planned yet."""
        ...

    def state_of(self, seed: int) -> dict[str, Any]: ...
    def load_states(self, states: list[dict[str, Any]]) -> None: ...
