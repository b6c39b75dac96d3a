"""Numbers that the large products of a network are computed in.

| precision | convolutions, transition model, first layer of the head | everything else |
|-----------|----------------------------------------------------------|-----------------|
| float32   | float32                                                  | float32         |
| bfloat16  | factors rounded to 8 bits, sums in float32               | float32         |

bfloat16 has the range of float32, so nothing overflows and no loss has to be scaled. Weights, their
sums in Adam, batch norms, logits, losses and bonuses stay float32 or better.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]


def dtype_of(precision: Precision) -> torch.dtype | None:
    """What factors are rounded to; None leaves them as they are."""
    return torch.bfloat16 if precision == "bfloat16" else None


def products_in(
    rounded: torch.dtype | None, device: torch.device
) -> AbstractContextManager[object]:
    """Layers inside multiply in these numbers, and give them; None changes nothing."""
    return nullcontext() if rounded is None else torch.autocast(device.type, rounded)
