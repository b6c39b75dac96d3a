"""The elliptical bonus as an object that grows with the data: for a deep agent, ours or yours.

    bonus = EllipticalBonus(dim=64, scale=0.1)
    bonus.observe(phi_visited)                        # Sigma += sum phi phi'
    target = reward + bonus(phi) + discount * value_next

| paper        | here       | shape             |
|--------------|------------|-------------------|
| phi^(s, a)   | `features` | (..., d)          |
| Sigma^       | `sigma`    | (blocks, d, d)    |
| L L' = Sigma^| `chol`     | (blocks, d, d)    |
| lambda       | `ridge`    |                   |
| gamma        | `scale`    |                   |

Features that do not know the action, such as the last hidden layer of a Q-network, take one block
of Sigma an action: phi(s, a) is then phi(s) in the place of a and zero elsewhere.

A visit changes the factor of its own block only. A few long rows move it, O(d^2) each; short rows,
or as many as d, give a fresh factor of the sum. The last bits of a moved factor depend on the order
of the visits, so it is part of the state, beside the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor

from contrastive_ucb.bonus.elliptical import (
    bonus,
    cholesky,
    cholesky_update,
    elliptical_width,
    log_det,
)
from contrastive_ucb.core.checks import check_size

LONG = 128  # about the d from which moving the factor by one row is faster than a fresh one


class EllipticalBonus:
    """scale * sqrt(phi' inv(Sigma) phi), Sigma = ridge I + the sum of phi phi' over what was seen.

    dim     d, the size of a feature
    scale   gamma
    ridge   lambda: how much one does not know before anything was seen
    cap     the largest bonus, 2H in Algorithm 1; there is none by default
    blocks  how many actions have a block of their own; 1 where features know the action
    """

    def __init__(
        self,
        dim: int,
        scale: float = 1.0,
        ridge: float = 1.0,
        cap: float = inf,
        blocks: int = 1,
    ):
        check_size("dim", dim)
        check_size("blocks", blocks)
        for name, value in (("ridge", ridge), ("cap", cap)):
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if not 0 <= scale < inf:
            raise ValueError(f"scale must be at least 0 and finite, got {scale}")
        self.dim, self.scale, self.ridge, self.cap = dim, scale, ridge, cap
        self._forget(blocks)

    @property
    def blocks(self) -> int:
        return len(self.sigma)

    @torch.no_grad()
    def observe(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Sigma += weight * sum phi phi'.

        features  (..., d)
        block     (...)     the action of each feature, if there are several blocks
        """
        if not 0 <= weight < inf:
            raise ValueError(f"weight must be at least 0 and finite, got {weight}")
        rows = self._rows(features)
        for action, mine in self._by_block(features, block):
            own = rows[mine]
            self.sigma[action] += weight * (own.mT @ own)
            if len(own) < self.dim and self.dim >= LONG:
                self.chol[action] = cholesky_update(self.chol[action], sqrt(weight) * own)
            else:
                self.chol[action] = cholesky(self.sigma[action])
        self.n_seen += weight * len(rows)

    @torch.no_grad()
    def __call__(self, features: Tensor, block: Tensor | None = None) -> Tensor:
        """The bonus of each feature, without a gradient.   (..., d) -> (...)"""
        rows = self._rows(features)
        found = rows.new_empty(len(rows))
        for action, mine in self._by_block(features, block):
            found[mine] = self._bonus(rows[mine], self.chol[action])
        return found.reshape(features.shape[:-1]).to(features.dtype)

    @torch.no_grad()
    def of_all(self, features: Tensor) -> Tensor:
        """The bonus of every action, for features without one.   (..., d) -> (..., blocks)"""
        rows = self._rows(features).expand(self.blocks, -1, -1)
        found = self._bonus(rows, self.chol).mT  # (n, blocks)
        return found.reshape(*features.shape[:-1], self.blocks).to(features.dtype)

    @torch.no_grad()
    def rebuild(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Forget everything and see these features instead, each as often as `weight` says.

        Features of a network move; a sum over the old ones speaks of directions that are gone.
        """
        self._forget(self.blocks)
        self.observe(features, block, weight)

    @property
    def log_det(self) -> float:
        """log det(Sigma) - log det(ridge I): how much has been seen, in all directions."""
        start = self.sigma[0].new_tensor(self.ridge).log() * self.dim
        return float((log_det(self.chol) - start).sum())

    def state_dict(self) -> dict[str, Any]:
        return {
            "sigma": self.sigma.clone(),
            "chol": self.chol.clone(),
            "n_seen": self.n_seen,
            "ridge": self.ridge,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        sigma = torch.as_tensor(state["sigma"])
        if state["ridge"] != self.ridge:
            raise ValueError(
                f"the saved bonus has ridge {state['ridge']}, this one {self.ridge}; make it with "
                "the same ridge"
            )
        if sigma.shape != self.sigma.shape:
            raise ValueError(
                f"the saved Sigma has shape {tuple(sigma.shape)}; this bonus has "
                f"{tuple(self.sigma.shape)}, make it with the same dim and blocks"
            )
        self.sigma.copy_(sigma)
        self.chol.copy_(torch.as_tensor(state["chol"]))
        self.n_seen = float(state["n_seen"])

    def _bonus(self, rows: Tensor, chol: Tensor) -> Tensor:
        """(..., n, d), (..., d, d) -> (..., n)"""
        return bonus(elliptical_width(rows, chol), self.scale, self.cap)

    def _rows(self, features: Tensor) -> Tensor:
        """The features as float64 rows (n, d), checked."""
        if features.shape[-1:] != (self.dim,):
            raise ValueError(
                f"features have shape {tuple(features.shape)}; the last axis must be dim={self.dim}"
            )
        rows = features.detach().reshape(-1, self.dim).to("cpu", torch.float64)
        if not torch.isfinite(rows).all():
            raise ArithmeticError("the features have a NaN or infinite entry")
        return rows

    def _by_block(
        self, features: Tensor, block: Tensor | None
    ) -> Iterator[tuple[int, Tensor | slice]]:
        """Every action that occurs, with the place of its rows."""
        if self.blocks == 1:
            yield 0, slice(None)
            return
        chosen = self._chosen(features, block)
        for action in sorted(set(chosen.tolist())):
            yield action, chosen == action

    def _chosen(self, features: Tensor, block: Tensor | None) -> Tensor:
        if block is None:
            raise ValueError(f"there are {self.blocks} blocks; say the action of each feature")
        if block.numel() and not 0 <= int(block.min()) <= int(block.max()) < self.blocks:
            raise ValueError(
                f"block holds actions {int(block.min())}..{int(block.max())}; there are blocks for "
                f"0..{self.blocks - 1}"
            )
        if block.shape != features.shape[:-1]:
            raise ValueError(
                f"block has shape {tuple(block.shape)}; features ask for "
                f"{tuple(features.shape[:-1])}"
            )
        return block.detach().reshape(-1).to("cpu", torch.int64)

    def _forget(self, blocks: int) -> None:
        nothing = torch.eye(self.dim, dtype=torch.float64).repeat(blocks, 1, 1)
        self.sigma, self.chol, self.n_seen = self.ridge * nothing, sqrt(self.ridge) * nothing, 0.0
