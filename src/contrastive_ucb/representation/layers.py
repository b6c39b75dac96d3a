"""Operations shared by the networks: memory layout, reduced precision, min-max rescaling.

Precision of the large layers (setting `precision`):

| precision | encoder, transition model, first layer of the head   | the rest |
|-----------|------------------------------------------------------|----------|
| float32   | float32                                              | float32  |
| bfloat16  | inputs, weights, outputs and gradients in bfloat16   | float32  |

bfloat16 is a 16-bit format with 8 bits of precision and the range of float32, so nothing overflows
and losses need no scaling. Sums inside a product, stored weights, Adam, batch norms, rescaling,
logits and losses stay in float32.

Min-max rescaling of latents is part of SPR (Schwarzer et al. 2021, following MuZero).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

# --- Memory layout ---------------------------------------------------------------------------


def channels_last(x: Tensor) -> Tensor:
    """Images (B, C, H, W) with the channels innermost in memory; vectors (B, C) unchanged."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim == 4 else x


def flatten(latent: Tensor) -> Tensor:
    """Latents as rows, pixel by pixel, without a copy if channels are last in memory.

    latent  (B, C, H, W) or (B, C); returns (B, H W C) or (B, C)
    """
    return latent.movedim(1, -1).flatten(1)


# --- Precision -------------------------------------------------------------------------------


def products_in(
    rounded: torch.dtype | None, device: torch.device
) -> AbstractContextManager[object]:
    """Context in which layers compute, and return, this data type."""
    return nullcontext() if rounded is None else torch.autocast(device.type, rounded)


# --- Min-max rescaling -----------------------------------------------------------------------


def rescale(latent: Tensor) -> Tensor:
    """y = (x - min x) / (max x - min x) per sample; a constant sample becomes zeros.

    latent  (B, ...); returns (B, ...) in [0, 1]
    """
    out: Tensor = _Rescale.apply(latent)  # type: ignore[no-untyped-call]
    return out


def rescaled(latent: Tensor) -> tuple[Tensor, Tensor]:
    """y (B, ...) and w = max x - min x (B,), or 1 where that is 0."""
    rows = flatten(latent)
    low = rows.amin(1)
    width = rows.amax(1) - low
    width += width == 0
    return _unflatten((rows - low[:, None]).div_(width[:, None]), latent), width


def rescaled_gradient(gradient: Tensor, out: Tensor, width: Tensor) -> Tensor:
    """The gradient at x for a gradient at y, all (B, ...).

    dy/dx is 1/w at each entry; the minimum moves all of y by (y - 1) / w, the maximum by -y / w.
    """
    rows, values = flatten(gradient) / width[:, None], flatten(out)
    if values.device.type == "cpu":  # numpy's argmin is vectorized, torch's is not
        array = values.numpy()
        places = torch.from_numpy(np.stack([array.argmin(1), array.argmax(1)], 1))
    else:
        places = torch.stack([values.argmin(1), values.argmax(1)], 1)
    moment = (rows * values).sum(1)
    rows.scatter_add_(1, places, torch.stack([moment - rows.sum(1), -moment], 1))
    return _unflatten(rows, out)


def _unflatten(rows: Tensor, like: Tensor) -> Tensor:
    """Rows in the shape of `like`; the inverse of `flatten`."""
    return rows.view(len(rows), *like.shape[2:], like.shape[1]).movedim(-1, 1)


class _Rescale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, latent: Tensor) -> Tensor:
        out, width = rescaled(latent)
        ctx.save_for_backward(out, width)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return rescaled_gradient(gradient, *ctx.saved_tensors)
