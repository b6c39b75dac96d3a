"""Image augmentation: random shifts and intensities (DrQ, Kostrikov et al. 2021; also in SPR), and
random crops (CURL, Laskin et al. 2020).

A shift pads a frame with `pad` pixels that repeat its border and crops it to the old size. The
frames of a stack get the same shift, which preserves their motion.

The caller draws the random numbers. Shifts work on uint8 and copy rows from one padded copy of each
frame, which is faster than padding and cropping floats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Frames = NDArray[np.uint8]


def random_shift(
    frames: Frames, offsets: NDArray[np.integer], pad: int = 4, stack: int = 4
) -> Frames:
    """Stacks of frames, each stack shifted by its own integer number of pixels.

    frames   (B, T + stack - 1, H, W)    every frame once, oldest first
    offsets  (B, T, 2)                   0 .. 2 pad, row and column of the crop; `pad` is no shift
    returns  (B, T, stack, H, W)         with the stack innermost in memory (channels last)
    """
    batch, length, height, width = frames.shape
    times = length - stack + 1
    if offsets.min() < 0 or offsets.max() > 2 * pad:
        raise ValueError(
            f"offsets must lie in 0 .. {2 * pad} for pad {pad}, got {offsets.min()} .. "
            f"{offsets.max()}; draw them with rng.integers(0, 2 * pad + 1, (B, T, 2))"
        )
    row, column = offsets[..., 0], offsets[..., 1]
    sample, time = np.ogrid[:batch, :times]
    windows = np.lib.stride_tricks.sliding_window_view(
        replicate(frames, pad), (height, width), axis=(2, 3)
    )  # (B, T + stack - 1, 2 pad + 1, 2 pad + 1, H, W), a view
    out = np.empty((batch, times, height, width, stack), np.uint8)
    for depth in range(stack):
        out[..., depth] = windows[sample, time + depth, row, column]
    return np.moveaxis(out, -1, 2)


def random_crop(frames: Frames, offsets: NDArray[np.integer], cut: int = 4) -> Frames:
    """Crop each stack by `cut` rows and columns, pad by `cut`, and crop it to the old size.

    frames   (B, stack, H, W)
    offsets  (B, 4)  0 .. cut: row and column of the first cut, row and column of the second
    returns  (B, stack, H, W)
    """
    height, width = frames.shape[2:]
    out = np.empty_like(frames)
    for sample, (row, column, low, left) in enumerate(offsets.tolist()):
        inner = frames[
            sample : sample + 1, :, row : row + height - cut, column : column + width - cut
        ]
        out[sample] = replicate(inner, cut)[0, :, low : low + height, left : left + width]
    return out


def intensity(frames: Tensor, noise: Tensor, spread: float = 0.05) -> Tensor:
    """Frames scaled to [0, 1], each stack multiplied by 1 + spread * clip(noise, -2, 2).

    frames  (..., C, H, W)  uint8
    noise   (...)           standard normal, one number per stack; zeros for no change
    returns (..., C, H, W)  float32 in the memory order of `frames`
    """
    factor = (1 + spread * noise.clamp(-2, 2)) / 255  # scale and intensity in one pass
    return frames.float().mul_(factor[..., None, None, None])


def replicate(frames: Frames, pad: int) -> Frames:
    """Frames padded by `pad` pixels on each side that repeat the border.

    frames  (B, T, H, W); returns (B, T, H + 2 pad, W + 2 pad)
    """
    height, width = frames.shape[2:]
    bottom, right = pad + height, pad + width
    out = np.empty((*frames.shape[:2], bottom + pad, right + pad), np.uint8)
    out[:, :, pad:bottom, pad:right] = frames
    out[:, :, pad:bottom, :pad] = frames[..., :1]
    out[:, :, pad:bottom, right:] = frames[..., -1:]
    out[:, :, :pad] = out[:, :, pad : pad + 1]
    out[:, :, bottom:] = out[:, :, bottom - 1 : bottom]
    return out
