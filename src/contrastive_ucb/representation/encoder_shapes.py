"""Table of the encoders, the choice by frame shape, and latent shapes. Does not import torch.

| name             | layers                                        | latent of 84x84 or 10x10     |
|------------------|-----------------------------------------------|------------------------------|
| `atari`          | conv 32@8x8/4, 64@4x4/2, 64@3x3/1 (Nature DQN) | (64, 7, 7)                   |
| `atari-same`     | the same with SAME padding (Dopamine)         | (64, 11, 11)                 |
| `data-efficient` | conv 32@5x5/5, 64@5x5/5 (CURL)                | (64, 3, 3)                   |
| `minatar`        | conv 16@3x3/1                                 | (16, 8, 8)                   |
| `mlp`            | linear layers on the flattened input          | (width of the last layer,)   |
"""

from __future__ import annotations

from collections.abc import Sequence

NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
CONVOLUTIONS = {  # (channels, kernel, stride) of each layer, no padding unless listed in SAME
    "atari": NATURE,
    "atari-same": NATURE,
    "data-efficient": ((32, 5, 5), (64, 5, 5)),
    "minatar": ((16, 3, 1),),
}
SAME = ("atari-same",)  # zero-padded so that stride s divides a side by s, rounded up
ENCODERS = (*CONVOLUTIONS, "mlp")
SMALLEST_ATARI = 36  # the three convolutions need frames of at least 36x36


def choose_encoder(shape: Sequence[int]) -> str:
    """The default encoder for observations of this shape: large images, small images, or others."""
    if len(shape) != 3 or min(shape[1:]) < 3:
        return "mlp"
    return "atari" if min(shape[1:]) >= SMALLEST_ATARI else "minatar"


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after a side of `size` pixels for SAME padding in TensorFlow and Flax."""
    total = max(((size - 1) // stride) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def latent_shape(name: str, shape: Sequence[int], hidden: Sequence[int]) -> tuple[int, ...]:
    """Shape of the latent of one observation; the error for an unsuitable encoder names another."""
    if name not in ENCODERS:
        raise ValueError(f"unknown encoder {name!r}; choose one of {', '.join(ENCODERS)}")
    if name == "mlp":
        if not hidden or min(*shape, *hidden) < 1:
            raise ValueError(f"encoder 'mlp' needs sizes of at least 1, got {shape} and {hidden}")
        return (hidden[-1],)
    better = choose_encoder(shape)
    if len(shape) != 3:
        raise ValueError(f"encoder {name!r} needs (C, H, W), got {tuple(shape)}; pass {better!r}")
    height, width = shape[1:]
    for _, kernel, stride in CONVOLUTIONS[name]:
        if name in SAME:
            height += sum(same_padding(height, kernel, stride))
            width += sum(same_padding(width, kernel, stride))
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        if min(height, width) < 1:
            raise ValueError(f"frames {tuple(shape)} are too small for {name!r}; pass {better!r}")
    return CONVOLUTIONS[name][-1][0], height, width
