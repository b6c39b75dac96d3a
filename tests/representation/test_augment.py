"""Shifts, crops and intensities against slow implementations in torch and numpy."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from contrastive_ucb.representation.augment import (
    Frames,
    intensity,
    random_crop,
    random_shift,
)

B, T, STACK, PAD = 3, 4, 4, 4


def stacked(source: Frames) -> Frames:
    """The stacks (B, T, STACK, H, W) without a shift."""
    return np.stack([source[:, t : t + STACK] for t in range(T)], axis=1)


def frames(height: int = 12, width: int = 9, length: int = T + STACK - 1) -> Frames:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (B, length, height, width), dtype=np.uint8)


def offsets(seed: int = 1, pad: int = PAD) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 2 * pad + 1, (B, T, 2))


def shift_slowly(source: Frames, moves: NDArray[np.int64], pad: int, stack: int) -> Frames:
    """Pad and crop floats, stack by stack."""
    height, width = source.shape[2:]
    out = np.empty((*moves.shape[:2], stack, height, width), np.uint8)
    for b, t in np.ndindex(*moves.shape[:2]):
        floats = torch.from_numpy(source[b, t : t + stack]).float()
        padded = F.pad(floats, (pad, pad, pad, pad), mode="replicate")
        row, column = moves[b, t]
        out[b, t] = padded[:, row : row + height, column : column + width].numpy()
    return out


@pytest.mark.parametrize(("height", "width"), [(84, 84), (3, 5)])
@pytest.mark.parametrize(("pad", "stack"), [(4, 4), (1, 4), (4, 1), (2, 3), (0, 2)])
def test_shift_is_replicate_padding_and_crop(pad: int, stack: int, height: int, width: int) -> None:
    source = frames(height, width, length=T + stack - 1)
    moves = offsets(pad=pad)
    shifted = random_shift(source, moves, pad, stack)
    np.testing.assert_array_equal(shifted, shift_slowly(source, moves, pad, stack))


def test_offsets_outside_the_padding_raise() -> None:
    with pytest.raises(ValueError, match=r"0 \.\. 8 for pad 4, got 9"):
        random_shift(frames(), np.full((B, T, 2), 9))
    with pytest.raises(ValueError, match="got -1"):
        random_shift(frames(), np.full((B, T, 2), -1))


def test_intensity_scales_each_stack_by_clipped_noise() -> None:
    stacks = stacked(frames())
    noise = np.random.default_rng(2).standard_normal((B, T)).astype(np.float32)
    noise[0, 0], noise[1, 1] = 7, -7
    factor = 1 + 0.05 * noise.clip(-2, 2)
    expected = stacks / 255 * factor[..., None, None, None]
    got = intensity(torch.from_numpy(stacks.copy()), torch.from_numpy(noise))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@given(st.integers(0, 1000), st.integers(1, 3))
def test_crop_is_crop_pad_crop(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 256, (3, 2, 7, 6), dtype=np.uint8)
    corners = rng.integers(0, cut + 1, (3, 4))
    cropped = random_crop(source, corners, cut)
    for sample in range(3):
        row, column, low, left = corners[sample]
        for plane in range(2):
            inner = source[sample, plane][row : row + 7 - cut, column : column + 6 - cut]
            padded = np.pad(inner, cut, mode="edge")
            expected = padded[low : low + 7, left : left + 6]
            assert np.array_equal(cropped[sample, plane], expected)
