"""A transition kernel in its factored form, P_h(s'|z) = psi_h(s')' phi_h(z)  (Assumption 2.1).

| paper  | here       | shape            |
|--------|------------|------------------|
| phi_h  | `features` | (..., H, Z, d)   |
| psi_h  | `measures` | (..., H, d, S)   |

z is the pair (s, a) as one number, z = s * A + a (in a game, a is the joint action). Leading axes
are seeds. True kernels, learned kernels and plain tables all have this form: a table has d = S and
`measures` = None, which means the identity. Only `rows` and `table` form the product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contrastive_ucb.core.arrays import Array


@dataclass(frozen=True)
class Kernel:
    """Transition kernels of all H steps, with any leading axes."""

    features: Array
    measures: Array | None = None

    def expect(self, step: int, values: Array) -> Array:
        """(P_h V)(z), the expected value of the next state.   values (..., S) -> (..., Z)"""
        weights = values
        if self.measures is not None:
            weights = np.matmul(self.measures[..., step, :, :], values[..., None])[..., 0]
        return np.asarray(np.matmul(self.features[..., step, :, :], weights[..., None])[..., 0])

    def push(self, step: int, mass: Array) -> Array:
        """The distribution of the next state for a distribution of z.   (..., Z) -> (..., S)"""
        latent = np.matmul(mass[..., None, :], self.features[..., step, :, :])  # (..., 1, d)
        if self.measures is not None:
            latent = np.matmul(latent, self.measures[..., step, :, :])
        return np.asarray(latent[..., 0, :])

    def rows(self, step: int | slice, pairs: slice = slice(None)) -> Array:
        """The rows P_h(.|z) of a range of z   (..., Z', S), or (..., H', Z', S) of several steps"""
        features = self.features[..., step, pairs, :]
        if self.measures is None:
            return features
        return np.asarray(np.matmul(features, self.measures[..., step, :, :]))

    def table(self) -> Array:
        """The dense table (..., H, Z, S); for small problems only."""
        if self.measures is None:
            return self.features
        return np.asarray(np.matmul(self.features, self.measures))


def squared_distance(true: Kernel, learned: Kernel, chunk: int = 1 << 18) -> Array:
    """||P_h(.|z) - P^_h(.|z)||_1^2 for every z   (..., H, Z)

    chunk  number of table entries per seed in memory; it does not depend on the number of seeds,
           so that sums have the same rounding in a batch and in a single run
    """
    n_steps, n_pairs = true.features.shape[-3:-1]
    n_states = (true.features if true.measures is None else true.measures).shape[-1]
    at_once = max(1, chunk // (n_steps * n_states))
    parts = []
    for first in range(0, n_pairs, at_once):
        pairs = slice(first, first + at_once)
        gap = true.rows(slice(None), pairs) - learned.rows(slice(None), pairs)  # (..., H, Z', S)
        parts.append(np.abs(gap, out=gap).sum(-1) ** 2)
    return np.concatenate(parts, axis=-1)
