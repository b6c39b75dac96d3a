"""What the network reads in an update, against a loop over samples and steps."""

import numpy as np
import torch

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.inputs import PAD, Inputs
from contrastive_ucb.data.replay import Batch

B, K, STACK, SIZE = 3, 2, 2, 40


def batch(seed: int = 0) -> Batch:
    """Frames that are all different."""
    rng = np.random.default_rng(seed)
    none = np.zeros(0, dtype=np.float32)
    return Batch(
        index=np.arange(B),
        frames=rng.integers(0, 256, (B, K + STACK, 1, SIZE, SIZE), dtype=np.uint8),
        stack=STACK,
        actions=np.zeros((B, K), dtype=np.int64),
        mask=none,
        steps=np.zeros((B, 1), dtype=np.int64),
        step_weights=none,
        returns=none,
        bootstrap=rng.integers(0, 256, (B, STACK, SIZE, SIZE), dtype=np.uint8),
        discounts=none,
        weights=none,
    )


def augmented(stack: np.ndarray, offset: np.ndarray, noise: float) -> np.ndarray:
    """A stack (STACK, SIZE, SIZE): padded by its border, cut at the offset, brightened."""
    row, column = offset
    padded = np.pad(stack, ((0, 0), (PAD, PAD), (PAD, PAD)), mode="edge")
    cut = padded[:, row : row + SIZE, column : column + SIZE].astype(np.float32)
    return cut / 255 * (1 + 0.05 * np.clip(noise, -2, 2))


def test_augmented_images_are_those_of_a_loop_over_samples_and_steps() -> None:
    """Which step each target is of, and that s_t+n and the targets are augmented too."""
    inputs, given = Inputs((1, SIZE, SIZE), STACK, RainbowConfig(spr_weight=1.0)), batch()
    now, later = inputs.of_batch(given, np.random.default_rng(7))
    rng = np.random.default_rng(7)
    moves = rng.integers(0, 2 * PAD + 1, (B, K + 1, 2))
    last_moves = rng.integers(0, 2 * PAD + 1, (B, 1, 2))
    noise = rng.standard_normal(B, dtype=np.float32)
    later_noise = rng.standard_normal(B * K + B, dtype=np.float32)
    for i in range(B):
        seen = [given.frames[i, k : k + STACK, 0] for k in range(K + 1)]  # s_t .. s_t+K
        expected = augmented(seen[0], moves[i, 0], noise[i])
        np.testing.assert_allclose(now[i].numpy(), expected, atol=1e-6)
        for k in range(1, K + 1):
            at = i * K + k - 1
            expected = augmented(seen[k], moves[i, k], later_noise[at])
            np.testing.assert_allclose(later[at].numpy(), expected, atol=1e-6)
        expected = augmented(given.bootstrap[i], last_moves[i, 0], later_noise[B * K + i])
        np.testing.assert_allclose(later[B * K + i].numpy(), expected, atol=1e-6)


def test_without_augmentation_they_are_the_frames() -> None:
    config = RainbowConfig(spr_weight=1.0, augment=False)
    given = batch()
    now, later = Inputs((1, SIZE, SIZE), STACK, config).of_batch(given, np.random.default_rng(0))
    frames = torch.from_numpy(given.frames[:, :, 0]).float() / 255
    torch.testing.assert_close(now, frames[:, :STACK])
    steps = torch.stack([frames[:, k : k + STACK] for k in range(1, K + 1)], 1).flatten(0, 1)
    torch.testing.assert_close(later[: B * K], steps)
    torch.testing.assert_close(later[B * K :], torch.from_numpy(given.bootstrap).float() / 255)
