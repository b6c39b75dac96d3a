"""Numbers that the large layers of a network are computed in.

| precision | encoder, transition model, first layer of the head                 | the rest |
|-----------|--------------------------------------------------------------------|----------|
| float32   | float32                                                            | float32  |
| bfloat16  | what goes in, weights, what comes out, and gradients are bfloat16  | float32  |

bfloat16 are 16-bit numbers with 8 bits of precision. Sums inside a product are float32, and so are
the weights as they are stored, Adam, batch norms, the rescaling of latents, logits and losses. The
range is that of float32, so nothing overflows and no loss has to be scaled.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor


def dtype_of(precision: str) -> torch.dtype | None:
    """What the layers round to; None leaves numbers as they are."""
    return torch.bfloat16 if precision == "bfloat16" else None


def products_in(
    rounded: torch.dtype | None, device: torch.device
) -> AbstractContextManager[object]:
    """Layers called inside round to these numbers, and what they return has them too."""
    return nullcontext() if rounded is None else torch.autocast(device.type, rounded)


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
