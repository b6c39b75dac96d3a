"""A pair of policies, one a player, with the round it comes from and what vouches for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.arrays import Array, BoolArray, IntArray


@dataclass(frozen=True)
class Profile:
    """The policies of both players, one pair a seed.

    row          pi            (B, H, S, A1)
    column       nu            (B, H, S, A2)
    certificate  V_up - V_low  (B,)  at the first state: how exploitable the pair may be
    number       k             (B,)  the round that planned it, 0 before the first
    """

    row: Array
    column: Array
    certificate: Array
    number: IntArray

    @staticmethod
    def uniform(shape: tuple[int, ...], n_actions: tuple[int, int]) -> Profile:
        """Where all seeds start; shape is (B, H, S)."""
        row, column = (np.full((*shape, count), 1 / count) for count in n_actions)
        return Profile(row, column, np.full(shape[0], np.inf), np.zeros(shape[0], dtype=np.int64))

    def updated(self, seeds: BoolArray, other: Profile) -> Profile:
        """The pairs of `other` where `seeds` (B,) is true, and these elsewhere.

        A new one: whoever kept the old arrays keeps what they were.
        """
        wide = seeds[:, None, None, None]
        return Profile(
            np.where(wide, other.row, self.row),
            np.where(wide, other.column, self.column),
            np.where(seeds, other.certificate, self.certificate),
            np.where(seeds, other.number, self.number),
        )

    def state_of(self, seed: int) -> dict[str, Any]:
        at = slice(seed, seed + 1)
        return {
            "row": self.row[at],
            "column": self.column[at],
            "certificate": self.certificate[at],
            "number": self.number[at],
        }

    @staticmethod
    def of_states(states: list[dict[str, Any]]) -> Profile:
        names = ("row", "column", "certificate", "number")
        return Profile(*(np.concatenate([state[name] for state in states]) for name in names))
