"""Where networks are."""

from __future__ import annotations

import torch

from contrastive_ucb.errors import UserError


def choose_device(asked: str) -> str:
    """`cpu` or `cuda` of what was asked for; `auto` takes CUDA where there is any."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise UserError("torch finds no CUDA here; choose the device 'cpu' or 'auto'")
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"
