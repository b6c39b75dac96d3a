"""Models without learned features: LSVI-UCB is given the true ones, UCBVI uses none."""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.counts import cells
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.kernel import Kernel

TABLE_CELLS = 50_000_000  # 400 MB


class TrueFeaturesModel:
    """LSVI-UCB: least-squares regression of the value of the next state on the true phi.

    The regression weights of any V are inv(Lambda) sum phi(z) V(s'), so the regression is
    equivalent to a kernel with features phi and measures inv(Lambda) sum phi(z) e_s'.

    features  (B, H, Z, d)
    """

    def __init__(self, features: Array, n_states: int, ridge: float):
        self.features, self.ridge = features, ridge
        n_seeds, horizon, _, rank = features.shape
        self.moments = np.zeros((n_seeds, horizon, rank, n_states))  # sum phi(z) e_s'
        self.gram = np.zeros((n_seeds, horizon, rank, rank))  # sum phi(z) phi(z)'

    def add(self, tuples: Tuples) -> None:
        seed, step, pair = cells(tuples)
        phi = self.features[seed, step, pair]  # (B, n, d)
        np.add.at(self.moments.swapaxes(-1, -2), (seed, step, tuples.next_state), phi)
        np.add.at(self.gram, (seed, step), phi[..., None] * phi[..., None, :])

    def fit(self) -> Kernel:
        weights = self.gram + self.ridge * np.eye(self.gram.shape[-1])
        return Kernel(self.features, np.asarray(np.linalg.solve(weights, self.moments)))

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"moments": self.moments[seed], "gram": self.gram[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.moments[:] = [state["moments"] for state in states]
        self.gram[:] = [state["gram"] for state in states]


class TableModel:
    """UCBVI: the empirical kernel, and P^- for unvisited pairs.   counts (B, H, Z, S)"""

    def __init__(self, shape: tuple[int, int, int, int], negatives: Array):
        if (size := int(np.prod(shape))) > TABLE_CELLS:
            raise ValueError(
                f"ucbvi needs a table of {size:,} transitions, more than {TABLE_CELLS:,}; use"
                " contrastive-ucb or lsvi-ucb, or fewer states or seeds"
            )
        self.counts = np.zeros(shape)
        self.counts += 1e-9 * negatives  # matters only without data

    def add(self, tuples: Tuples) -> None:
        np.add.at(self.counts, (*cells(tuples), tuples.next_state), 1.0)

    def fit(self) -> Kernel:
        return Kernel(self.counts / self.counts.sum(-1, keepdims=True))

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"counts": self.counts[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.counts[:] = [state["counts"] for state in states]
