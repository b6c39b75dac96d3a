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

import torch


def dtype_of(precision: str) -> torch.dtype | None:
    """What the layers round to; None leaves numbers as they are."""
    return torch.bfloat16 if precision == "bfloat16" else None


def products_in(
    rounded: torch.dtype | None, device: torch.device
) -> AbstractContextManager[object]:
    """Layers called inside round to these numbers, and what they return has them too."""
    return nullcontext() if rounded is None else torch.autocast(device.type, rounded)
