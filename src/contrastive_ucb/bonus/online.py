"""The elliptical bonus with incremental updates, for deep agents.

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

Features that do not depend on the action, such as the last hidden layer of a Q-network, need one
block of Sigma per action: phi(s, a) is then phi(s) in the block of a and zero elsewhere.

A visit changes the Cholesky factor of its block only. For large d a few new rows update the factor
in O(d^2) each; otherwise the factor is computed again from Sigma. The last bits of an updated
factor depend on the order of the visits, so it is part of the state, in addition to Sigma.
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
from contrastive_ucb.core.checks import check_number, check_size

UPDATE_DIM = 128  # the d from which updating the factor by one row is faster


class EllipticalBonus:
    """The elliptical bonus gamma sqrt(phi' inv(Sigma) phi), updated with every visit.

    Sigma = ridge I + the sum of phi phi' over all observed features (Algorithm 1, lines 9 and 10).

    Args:
        dim: d, the dimension of the features.
        scale: gamma.
        ridge: lambda; a smaller ridge means larger bonuses before the first visits.
        cap: The largest bonus, 2H in Algorithm 1; by default there is no cap.
        blocks: Number of actions with their own block of Sigma; 1 if the features depend on the
            action.

    Attributes:
        sigma: Sigma, shape (blocks, d, d).
        chol: The Cholesky factors of Sigma, shape (blocks, d, d).
        n_seen: Number of observed features.

    Raises:
        ValueError: An argument is out of range.

    Examples:
        >>> import torch
        >>> import contrastive_ucb as cu
        >>> bonus = cu.EllipticalBonus(dim=2, scale=1.0)
        >>> phi = torch.tensor([1.0, 0.0])
        >>> bonus(phi)
        tensor(1.)
        >>> bonus.observe(phi.repeat(3, 1))  # three visits
        >>> bonus(phi)
        tensor(0.5000)
    """

    dtype = torch.float64  # of all computations

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
        check_number("ridge", ridge, positive=True)
        check_number("cap", cap, positive=True)
        check_number("scale", scale, 0, finite=True)
        self.dim, self.scale, self.ridge, self.cap, self.blocks = dim, scale, ridge, cap, blocks
        self._reset()

    def __repr__(self) -> str:
        shape = f"dim={self.dim}, scale={self.scale}, ridge={self.ridge}, blocks={self.blocks}"
        return f"EllipticalBonus({shape}, {self.n_seen:g} visits)"

    @torch.no_grad()
    def observe(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Add visits: Sigma += weight * the sum of phi phi'.

        Args:
            features: phi, shape (..., d).
            block: The action of each feature, shape (...), if there are several blocks.
            weight: Weight of each visit.

        Raises:
            ArithmeticError: A feature has a NaN or infinite entry.
        """
        check_number("weight", weight, 0, finite=True)
        rows = self._rows(features)
        for action, index in self._by_block(features, block):
            phi = rows[index]
            self.sigma[action] += weight * (phi.mT @ phi)
            self.chol[action] = self._factor(action, sqrt(weight) * phi)
        self.n_seen += weight * len(rows)

    @torch.no_grad()
    def __call__(self, features: Tensor, block: Tensor | None = None) -> Tensor:
        """Compute the bonus of each feature, without a gradient.

        Args:
            features: phi, shape (..., d).
            block: The action of each feature, shape (...), if there are several blocks.

        Returns:
            Bonuses of shape (...), in the data type of the features.
        """
        rows = self._rows(features)
        bonuses = rows.new_empty(len(rows))
        for action, index in self._by_block(features, block):
            bonuses[index] = self._bonus(rows[index], self.chol[action])
        return bonuses.reshape(features.shape[:-1]).to(features.dtype)

    @torch.no_grad()
    def of_all(self, features: Tensor) -> Tensor:
        """Compute the bonus of every action, for features that do not depend on the action.

        Args:
            features: phi(s), shape (..., d).

        Returns:
            Bonuses of shape (..., blocks).
        """
        rows = self._rows(features).expand(self.blocks, -1, -1)
        bonuses = self._bonus(rows, self.chol).mT  # (n, blocks)
        return bonuses.reshape(*features.shape[:-1], self.blocks).to(features.dtype)

    @torch.no_grad()
    def rebuild(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Replace Sigma by ridge I + weight * the sum of phi phi' over these features.

        Needed periodically if the features are learned, because Sigma sums outdated features.

        Args:
            features: phi, shape (..., d).
            block: The action of each feature, shape (...), if there are several blocks.
            weight: Weight of each visit.
        """
        self._reset()
        self.observe(features, block, weight)

    @property
    def log_det(self) -> float:
        """log det(Sigma) - log det(ridge I), the information gain of all visits."""
        start = self.sigma[0].new_tensor(self.ridge).log() * self.dim
        return float((log_det(self.chol) - start).sum())

    def state_dict(self) -> dict[str, Any]:
        """Return Sigma, its factor and the number of visits.

        Returns:
            A dictionary of tensors and numbers.
        """
        return {
            "sigma": self.sigma.clone(),
            "chol": self.chol.clone(),
            "n_seen": self.n_seen,
            "ridge": self.ridge,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned, into a bonus with the same dim, blocks and ridge.

        Args:
            state: The dictionary.

        Raises:
            ValueError: It is not the state of such a bonus.
        """
        if not isinstance(state, Mapping) or not state.keys() >= self.state_dict().keys():
            raise ValueError(f"state must be what state_dict() returned, got {state!r:.80}")
        sigma = torch.as_tensor(state["sigma"])
        if state["ridge"] != self.ridge:
            raise ValueError(
                f"the saved bonus has ridge {state['ridge']}, this one {self.ridge}; use the same"
                " ridge"
            )
        if sigma.shape != self.sigma.shape:
            raise ValueError(
                f"the saved Sigma has shape {tuple(sigma.shape)}, this one"
                f" {tuple(self.sigma.shape)}; use the same dim and blocks"
            )
        self.sigma.copy_(sigma)
        self.chol.copy_(torch.as_tensor(state["chol"]))
        self.n_seen = float(state["n_seen"])

    def _reset(self) -> None:
        identity = torch.eye(self.dim, dtype=self.dtype).repeat(self.blocks, 1, 1)
        self.sigma, self.chol = self.ridge * identity, sqrt(self.ridge) * identity
        self.n_seen = 0.0

    def _factor(self, action: int, rows: Tensor) -> Tensor:
        """The factor of the Sigma of an action, after phi phi' of the rows were added to it."""
        if len(rows) < self.dim and self.dim >= UPDATE_DIM:
            return cholesky_update(self.chol[action], rows)
        return cholesky(self.sigma[action])

    def _bonus(self, rows: Tensor, chol: Tensor) -> Tensor:
        """(..., n, d), (..., d, d) -> (..., n)"""
        return bonus(elliptical_width(rows, chol), self.scale, self.cap)

    def _rows(self, features: Tensor) -> Tensor:
        """The features as rows (n, d) in the data type of the computations, checked."""
        if not isinstance(features, Tensor):
            raise ValueError(
                f"features must be a torch.Tensor with last axis dim={self.dim}, got"
                f" {type(features).__name__}; convert them with torch.as_tensor(features)"
            )
        if features.shape[-1:] != (self.dim,):
            raise ValueError(
                f"features have shape {tuple(features.shape)}; the last axis must be dim={self.dim}"
            )
        rows = features.detach().reshape(-1, self.dim).to("cpu", self.dtype)
        if not torch.isfinite(rows).all():
            raise ArithmeticError("the features have a NaN or infinite entry")
        return rows

    def _by_block(
        self, features: Tensor, block: Tensor | None
    ) -> Iterator[tuple[int, Tensor | slice]]:
        """Every action that occurs, with the index of its rows."""
        if self.blocks == 1:
            yield 0, slice(None)
            return
        if not isinstance(block, Tensor) or block.shape != features.shape[:-1]:
            given = (
                f"has shape {tuple(block.shape)}" if isinstance(block, Tensor) else f"is {block!r}"
            )
            raise ValueError(
                f"block {given} with {self.blocks} blocks; pass the action of each feature as a"
                f" torch.Tensor of shape {tuple(features.shape[:-1])}"
            )
        chosen = block.detach().reshape(-1).to("cpu", torch.int64)
        for action in sorted(set(chosen.tolist())):
            if not 0 <= action < self.blocks:
                raise ValueError(f"block has action {action}; it must be in 0..{self.blocks - 1}")
            yield action, chosen == action
