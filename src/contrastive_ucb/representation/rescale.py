"""Latents min-max rescaled to [0, 1], as SPR does, with a gradient of our own.

| symbol  | here    | shape    |                                             |
|---------|---------|----------|---------------------------------------------|
| x       | `latent`| (B, ...) |                                             |
| w       | `width` | (B,)     | max x - min x, 1 where a sample is constant |
| y       | `out`   | (B, ...) | (x - min x) / w                             |

Min and max pass their gradient to one entry each. torch's own would note at which entry, sample by
sample, and take longer than the layers around them; here the entries are looked for in y, where
they are 0 and 1, and only if there is a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def rescale(latent: Tensor) -> Tensor:
    """(x - min x) / (max x - min x), sample by sample; a constant sample becomes zeros.

    latent  (B, ...); returns (B, ...) in [0, 1]
    """
    out: Tensor = _Rescale.apply(latent)  # type: ignore[no-untyped-call]
    return out


def rescaled(latent: Tensor) -> tuple[Tensor, Tensor]:
    """y (B, ...) and w (B,) of latents (B, ...)."""
    rows = flatten(latent)
    low = rows.amin(1)
    width = rows.amax(1) - low
    width += width == 0
    return (latent - _beside(low, latent)).div_(_beside(width, latent)), width


def rescaled_gradient(gradient: Tensor, out: Tensor, width: Tensor) -> Tensor:
    """What flows back to x from a gradient at y, all (B, ...).

    dy/dx is 1/w at each entry; min moves all of y by (y - 1) / w, max by -y / w.
    """
    slope = gradient / _beside(width, out)
    rows, values = flatten(slope), flatten(out)
    moment = (rows * values).sum(1)
    ends = torch.stack([moment - rows.sum(1), -moment], 1)
    rows.scatter_add_(1, _where(values), ends)
    return rows.view(len(rows), *out.shape[2:], out.shape[1]).movedim(-1, 1)


def flatten(latent: Tensor) -> Tensor:
    """Latents as rows, pixel by pixel: the order in which images lie in memory, so no copy.

    latent  (B, C, H, W) or (B, C); returns (B, H W C) or (B, C)
    """
    return latent.movedim(1, -1).flatten(1)


def _where(rows: Tensor) -> Tensor:
    """Where each row (B, n) is smallest and largest (B, 2), the first of equals."""
    if rows.device.type == "cpu":  # numpy compares many numbers at a time, torch one
        array = rows.numpy()
        return torch.from_numpy(np.stack([array.argmin(1), array.argmax(1)], 1))
    return torch.stack([rows.argmin(1), rows.argmax(1)], 1)


def _beside(values: Tensor, latent: Tensor) -> Tensor:
    """One number a sample (B,), in a shape that meets latents (B, ...)."""
    return values.view(-1, *(1 for _ in latent.shape[1:]))


class _Rescale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, latent: Tensor) -> Tensor:
        out, width = rescaled(latent)
        ctx.save_for_backward(out, width)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return rescaled_gradient(gradient, *ctx.saved_tensors)
