"""The bonus with the numerics of the published code: float32, an explicit inverse, NaN -> 0.

`EllipticalBonus` is what one should use. This one exists so that the figures of the release can be
compared: with its ridge of 1e-5, a float32 sum loses the ridge after some thousand features, the
inverse gets negative eigenvalues, and the square root of what comes out of it is not a number. The
release makes such a bonus 0, and so does this class; nothing else in the package hides a NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class PublishedBonus:
    """scale * sqrt(phi' inv(Sigma) phi) in float32, with the methods of `EllipticalBonus`.

    dim     d, the size of a feature
    blocks  how many actions have a block of their own; 1 where features know the action
    """

    def __init__(self, dim: int, scale: float = 1.0, ridge: float = 1e-5, blocks: int = 1):
        self.dim, self.scale, self.ridge = dim, scale, ridge
        self.sigma = self._empty(blocks)
        self._inverse: Tensor | None = None

    @property
    def blocks(self) -> int:
        return len(self.sigma)

    def observe(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Sigma += weight * sum phi phi'.   features (..., d), block (...) their actions"""
        rows = features.detach().reshape(-1, self.dim).cpu().float()
        if not torch.isfinite(rows).all():
            raise ArithmeticError("the features have a NaN or infinite entry")
        at = self._block(block, len(rows))
        for action in range(self.blocks):
            own = rows[at == action]
            self.sigma[action] += weight * (own.mT @ own)
        self._inverse = None

    def __call__(self, features: Tensor, block: Tensor | None = None) -> Tensor:
        """(..., d) -> (...)"""
        widths = self.of_all(features).flatten(0, -2)  # (n, blocks)
        return widths.gather(1, self._block(block, len(widths))[:, None]).view(features.shape[:-1])

    def of_all(self, features: Tensor) -> Tensor:
        """The bonus of every action, for features without one.   (..., d) -> (..., blocks)"""
        if self._inverse is None:
            self._inverse = torch.linalg.inv_ex(self.sigma).inverse
        rows = features.detach().reshape(-1, self.dim).cpu().float()
        width = ((rows @ self._inverse) * rows).sum(-1).sqrt()  # (blocks, n)
        width = torch.where(width.isnan(), 0.0, width)
        return self.scale * width.mT.reshape(*features.shape[:-1], self.blocks)

    def rebuild(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Forget everything and see these features instead, each as often as `weight` says."""
        self.sigma = self._empty(self.blocks)
        self.observe(features, block, weight)

    def state_dict(self) -> dict[str, Any]:
        return {"sigma": self.sigma.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        sigma = torch.as_tensor(state["sigma"])
        if sigma.shape != self.sigma.shape:
            raise ValueError(
                f"the saved Sigma has shape {tuple(sigma.shape)}; this bonus has "
                f"{tuple(self.sigma.shape)}, make it with the same dim and blocks"
            )
        self.sigma, self._inverse = sigma.clone(), None

    def _block(self, block: Tensor | None, count: int) -> Tensor:
        return torch.zeros(count, dtype=torch.int64) if block is None else block.reshape(-1).cpu()

    def _empty(self, blocks: int) -> Tensor:
        return self.ridge * torch.eye(self.dim).repeat(blocks, 1, 1)
