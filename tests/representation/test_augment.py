"""Shifts against padding and slicing with torch, intensities against numpy."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from contrastive_ucb.representation.augment import (
    Frames,
    intensity,
    random_shift,
    replicate,
)

B, T, STACK, PAD = 3, 4, 4, 4


def stacked(source: Frames) -> Frames:
    """The stacks (B, T, STACK, H, W) of frames that do not move."""
    return np.stack([source[:, t : t + STACK] for t in range(T)], axis=1)


def frames(height: int = 12, width: int = 9, length: int = T + STACK - 1) -> Frames:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (B, length, height, width), dtype=np.uint8)


def offsets(seed: int = 1, pad: int = PAD) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 2 * pad + 1, (B, T, 2))


def shift_slowly(source: Frames, moves: NDArray[np.int64], pad: int, stack: int) -> Frames:
    """Pad floats, crop them, one stack after the other."""
    height, width = source.shape[2:]
    out = np.empty((*moves.shape[:2], stack, height, width), np.uint8)
    for b, t in np.ndindex(*moves.shape[:2]):
        floats = torch.from_numpy(source[b, t : t + stack]).float()
        padded = F.pad(floats, (pad, pad, pad, pad), mode="replicate")
        row, column = moves[b, t]
        out[b, t] = padded[:, row : row + height, column : column + width].numpy()
    return out


@pytest.mark.parametrize(("height", "width"), [(12, 9), (84, 84), (10, 10), (3, 5)])
def test_shift_is_replicate_padding_and_a_crop(height: int, width: int) -> None:
    source = frames(height, width)
    expected = shift_slowly(source, offsets(), PAD, STACK)
    np.testing.assert_array_equal(random_shift(source, offsets()), expected)


@pytest.mark.parametrize(("pad", "stack"), [(1, 4), (4, 1), (2, 3), (0, 2)])
def test_other_pads_and_stacks(pad: int, stack: int) -> None:
    source = frames(length=T + stack - 1)
    moves = offsets(pad=pad)
    shifted = random_shift(source, moves, pad, stack)
    np.testing.assert_array_equal(shifted, shift_slowly(source, moves, pad, stack))


def test_one_offset_a_sample_moves_all_its_stacks() -> None:
    moves = offsets()[:, 0]
    everywhere = np.repeat(moves[:, None], T, axis=1)
    np.testing.assert_array_equal(random_shift(frames(), moves), random_shift(frames(), everywhere))


def test_the_frames_of_a_stack_move_together() -> None:
    still = np.repeat(frames()[:, :1], T + STACK - 1, axis=1)  # nothing moves between the frames
    shifted = random_shift(still, offsets())
    assert (shifted == shifted[:, :, :1]).all()
    assert not (shifted == shifted[:, :1]).all()  # while each stack went its own way


def test_the_middle_offset_changes_nothing() -> None:
    source = frames()
    before = source.copy()
    shifted = random_shift(source, np.full((B, T, 2), PAD))
    np.testing.assert_array_equal(shifted, stacked(source))
    np.testing.assert_array_equal(source, before)
    np.testing.assert_array_equal(stacked(source)[1, 2], source[1, 2 : 2 + STACK])


def test_stacks_come_channels_last_and_stay_so_as_floats() -> None:
    shifted = torch.from_numpy(random_shift(frames(), offsets()))
    images = intensity(shifted, torch.zeros(B, T)).flatten(0, 1)
    assert images.dtype == torch.float32
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_offsets_outside_the_padding_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0 \.\. 8 for pad 4, got 9"):
        random_shift(frames(), np.full((B, T, 2), 9))
    with pytest.raises(ValueError, match="got -1"):
        random_shift(frames(), np.full((B, 2), -1))


def test_replicate_repeats_the_border() -> None:
    source = frames()
    expected = np.pad(source, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="edge")
    np.testing.assert_array_equal(replicate(source, 2), expected)


def test_intensity_scales_each_stack_by_its_own_clipped_number() -> None:
    stacks = stacked(frames())
    noise = np.random.default_rng(2).standard_normal((B, T)).astype(np.float32)
    noise[0, 0], noise[1, 1] = 7, -7
    factor = 1 + 0.05 * noise.clip(-2, 2)
    expected = stacks / 255 * factor[..., None, None, None]
    got = intensity(torch.from_numpy(stacks.copy()), torch.from_numpy(noise))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_no_noise_is_the_plain_conversion() -> None:
    stacks = torch.from_numpy(stacked(frames()).copy())
    plain = intensity(stacks, torch.zeros(B, T))
    np.testing.assert_allclose(plain, stacks.numpy() / 255, rtol=1e-6)
    assert plain.min() >= 0
    assert plain.max() <= 1
