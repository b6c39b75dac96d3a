"""Transitions that a bonus learns from: a uniform sample of the past, or the latest ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.bonus.spaces import Arrays, ObservationArrays
from contrastive_ucb.core.random_streams import restore_stream, stream_state


@dataclass(frozen=True)
class Transitions:
    """n transitions; each part of an observation is an array (n, *shape).

    actions  (n,) integers from 0, or (n, k) floats
    """

    obs: Arrays
    actions: NDArray[Any]
    next_obs: Arrays

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def arrays(self) -> Arrays:
        """The parts of `obs`, `actions` and the parts of `next_obs`."""
        return (*self.obs, self.actions, *self.next_obs)

    def at(self, index: Any) -> Transitions:
        """The transitions at these rows."""
        obs, next_obs = (tuple(part[index] for part in x) for x in (self.obs, self.next_obs))
        return Transitions(obs, self.actions[index], next_obs)


class TransitionMemory:
    """Stores up to `capacity` transitions.

    keep  reservoir: a uniform sample of all transitions seen (Vitter 1985, Algorithm R); latest:
          the most recent ones
    """

    def __init__(
        self,
        capacity: int,
        arrays: ObservationArrays,
        action_shape: tuple[int, ...],
        rng: np.random.Generator,
        keep: Literal["reservoir", "latest"] = "reservoir",
    ):
        def empty() -> Arrays:
            return tuple(np.zeros((capacity, *x.shape), x.dtype) for x in arrays.leaves)

        dtype = np.float32 if action_shape else np.int64
        self.stored = Transitions(empty(), np.zeros((capacity, *action_shape), dtype), empty())
        self.capacity, self.rng, self.keep = capacity, rng, keep
        self.n_seen = 0

    def __len__(self) -> int:
        return min(self.n_seen, self.capacity)

    def add(self, new: Transitions) -> None:
        times = self.n_seen + np.arange(len(new))
        self.n_seen += len(new)
        slots = times % self.capacity
        if self.keep == "reservoir":
            slots = np.where(times < self.capacity, times, self.rng.integers(0, times + 1))
        kept = slots < self.capacity
        for old, given in zip(self.stored.arrays, new.arrays, strict=True):
            old[slots[kept]] = given[kept]

    def sample(self, size: int) -> Transitions:
        """`size` stored transitions, drawn with replacement."""
        return self.stored.at(self.rng.integers(0, len(self), size))

    def all(self) -> Transitions:
        """All stored transitions."""
        return self.stored.at(slice(len(self)))

    def state_dict(self) -> dict[str, Any]:
        parts = [x.copy() for x in self.all().arrays]
        return {"parts": parts, "n_seen": self.n_seen, "rng": stream_state(self.rng)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.n_seen, self.rng = int(state["n_seen"]), restore_stream(state["rng"])
        for old, part in zip(self.all().arrays, state["parts"], strict=True):
            if len(part) != len(old):
                raise ValueError(f"{len(part)} transitions instead of {len(old)}")
            old[:] = np.asarray(part)
