"""P^-, where false next observations are drawn from (l.173), when there are infinitely many.

    uniform    on the bounds of the observations
    gaussian   N(center, scale^2) in every coordinate
    seen       the next observations seen at that step so far
    mixed      the same, with a part of uniform draws

The first two are fixed and known, and the uniform one has a floor on its bounds: they are the
paper's. What was seen is neither fixed nor floored; it is what makes a lock of rotated noise
learnable, since a fixed density hardly ever draws anything that looks like an observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.observations import Floats, ObservationData
from contrastive_ucb.envs.observed import ObservedEnv

Density = Literal["auto", "seen", "mixed", "uniform", "gaussian"]


@dataclass(frozen=True)
class Negatives:
    """Draws of P^- at each step."""

    env: ObservedEnv
    kind: Density
    uniform_share: float = 0.1
    center: float = 0.0
    scale: float = 1.0

    def draw(self, data: ObservationData, count: int, random: np.random.Generator) -> Floats:
        """So many draws a step   (H, count, D)"""
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
        """What stands for P^- while a round is planned: nodes of quadrature, or draws.

        returns (H, count, D), in the precision of the networks
        """
        even = self.env.uniform_nodes(count) if self.kind == "uniform" else None
        if even is None:
            return self.draw(data, count, random).astype(np.float64)
        return np.tile(even, (len(data.n), 1, 1))
