"""P^-, the distribution of negative next observations (l.173), for infinitely many states.

    uniform    on the bounds of the observations
    gaussian   N(center, scale^2) in every coordinate
    seen       the next observations of that step in the data so far
    mixed      the same, with a share of uniform draws

The paper assumes a fixed, known density with a positive floor, as the uniform one has on bounded
observations. The density `seen` is neither fixed nor bounded from below, but it makes RichLock
learnable: a fixed density almost never draws a vector that resembles an observation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.observations import Floats, ObservationData
from contrastive_ucb.data.sampler import Density
from contrastive_ucb.envs.observed import ObservedEnv


@dataclass(frozen=True)
class Negatives:
    """Draws of P^- at each step."""

    env: ObservedEnv
    kind: Density
    uniform_share: float = 0.1
    center: float = 0.0
    scale: float = 1.0

    def draw(self, data: ObservationData, count: int, random: np.random.Generator) -> Floats:
        """`count` draws per step   (H, count, D)"""
        horizon, size = len(data.n), self.env.size
        if self.kind == "uniform":
            drawn = self.env.uniform(horizon * count, random)
        elif self.kind == "gaussian":
            drawn = self.center + self.scale * random.standard_normal((horizon * count, size))
        else:
            chosen = (random.random((horizon, count)) * data.n[:, None]).astype(np.int64)
            seen = data.following[np.arange(horizon)[:, None], chosen]
            if self.kind == "seen":
                return seen
            even = self.env.uniform(horizon * count, random).reshape(seen.shape)
            takes = random.random((horizon, count, 1)) < self.uniform_share
            return np.where(takes, even, seen).astype(np.float32)
        return drawn.reshape(horizon, count, size).astype(np.float32)

    def nodes(self, data: ObservationData, count: int, random: np.random.Generator) -> Array:
        """The points that represent P^- in planning: quadrature nodes if there are any, else draws.

        returns (H, count, D)
        """
        even = self.env.uniform_nodes(count) if self.kind == "uniform" else None
        if even is None:
            return self.draw(data, count, random).astype(np.float64)
        return np.tile(even, (len(data.n), 1, 1))
