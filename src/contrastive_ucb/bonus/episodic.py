"""Novelty within an episode, for each environment separately.

`EpisodicEllipses` is the bonus of E3B (Henaff et al. 2022), phi' inv(C) phi with
C = ridge I + sum of phi phi' over the current episode. `EpisodicVisits` is 1 at the first visit of
an episode and 0 later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray


class Episodes(Protocol):
    """What an episodic part of a bonus provides; `features` are rows of any kind."""

    def compute(self, features: Any, env_ids: IntArray) -> Array: ...
    def observe(self, features: Any, env_ids: IntArray) -> None: ...
    def end(self, env_ids: IntArray) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class EpisodicEllipses:
    """One matrix inv(C) per environment, updated for all environments at once.

    inverse  (n_envs, d, d)
    """

    def __init__(self, n_envs: int, dim: int, ridge: float = 0.1):
        self.ridge = ridge
        self.inverse = np.tile(np.eye(dim) / ridge, (n_envs, 1, 1))

    def compute(self, features: Array, env_ids: IntArray) -> Array:
        """phi' inv(C) phi of each row.   features (n, d), env_ids (n,) -> (n,)"""
        return np.asarray((self._whitened(features, env_ids) * features).sum(1))

    def observe(self, features: Array, env_ids: IntArray) -> None:
        """C += phi phi', with the formula of Sherman and Morrison; env_ids are distinct.

        A step of an episode adds one row to each C, so the update costs O(d^2) where a
        factorization costs O(d^3). C >= ridge I, so the denominator is at least 1.
        """
        u = self._whitened(features, env_ids)
        scale = 1 + (u * features).sum(1)
        self.inverse[self._rows(env_ids)] -= (u / scale[:, None])[:, :, None] * u[:, None, :]

    def end(self, env_ids: IntArray) -> None:
        """Start new episodes in these environments."""
        if len(env_ids):
            self.inverse[env_ids] = np.eye(self.inverse.shape[1]) / self.ridge

    def state_dict(self) -> dict[str, Any]:
        return {"inverse": self.inverse.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inverse[:] = np.asarray(state["inverse"])

    def _whitened(self, features: Array, env_ids: IntArray) -> Array:
        """inv(C) phi, (n, d)"""
        inverse = self.inverse[self._rows(env_ids)]
        return np.asarray(np.matmul(inverse, features[:, :, None])[:, :, 0])

    def _rows(self, env_ids: IntArray) -> slice | IntArray:
        """The environments as an index, without a copy of the matrices if it is all of them."""
        all_of_them = len(env_ids) == len(self.inverse) and bool((np.diff(env_ids) == 1).all())
        return slice(None) if all_of_them else env_ids


class EpisodicVisits:
    """The set of keys that each environment visited in its episode."""

    def __init__(self, n_envs: int):
        self.visited: list[set[bytes]] = [set() for _ in range(n_envs)]

    def compute(self, features: list[bytes], env_ids: IntArray) -> Array:
        rows = zip(features, env_ids, strict=True)
        return np.array([float(key not in self.visited[env]) for key, env in rows])

    def observe(self, features: list[bytes], env_ids: IntArray) -> None:
        for key, env in zip(features, env_ids, strict=True):
            self.visited[env].add(key)

    def end(self, env_ids: IntArray) -> None:
        for env in env_ids:
            self.visited[env].clear()

    def state_dict(self) -> dict[str, Any]:
        return {"visited": [sorted(key.hex() for key in keys) for keys in self.visited]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.visited = [{bytes.fromhex(key) for key in keys} for keys in state["visited"]]
