"""Inputs of an update against a loop over samples and steps."""

import numpy as np
import pytest
import torch
from agents.deep_play import draw, learner, started

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.network import PAD, Inputs
from contrastive_ucb.agents.deep.presets import configure
from contrastive_ucb.data.replay import Batch

B, K, STACK, SIZE = 3, 2, 2, 40


def batch(seed: int = 0) -> Batch:
    """A batch of different frames."""
    rng = np.random.default_rng(seed)
    none = np.zeros(0, dtype=np.float32)
    return Batch(
        index=np.arange(B),
        frames=rng.integers(0, 256, (B, K + STACK, 1, SIZE, SIZE), dtype=np.uint8),
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
    """A stack (STACK, SIZE, SIZE), padded, cropped at the offset, with changed intensity."""
    row, column = offset
    padded = np.pad(stack, ((0, 0), (PAD, PAD), (PAD, PAD)), mode="edge")
    cut = padded[:, row : row + SIZE, column : column + SIZE].astype(np.float32)
    return cut / 255 * (1 + 0.05 * np.clip(noise, -2, 2))


def test_augmented_inputs_equal_loop() -> None:
    """Also the order of the targets, and the augmentation of s_t+n."""
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


def test_inputs_without_augmentation() -> None:
    config = RainbowConfig(spr_weight=1.0, augment=False)
    given = batch()
    now, later = Inputs((1, SIZE, SIZE), STACK, config).of_batch(given, np.random.default_rng(0))
    frames = torch.from_numpy(given.frames[:, :, 0]).float() / 255
    torch.testing.assert_close(now, frames[:, :STACK])
    steps = torch.stack([frames[:, k : k + STACK] for k in range(1, K + 1)], 1).flatten(0, 1)
    torch.testing.assert_close(later[: B * K], steps)
    torch.testing.assert_close(later[B * K :], torch.from_numpy(given.bootstrap).float() / 255)


def test_scale_of_inputs() -> None:
    config = configure("spr", {})
    screen = np.full((1, 4, 84, 84), 255, dtype=np.uint8)
    grid, vector = np.ones((1, 6, 10, 10), dtype=np.uint8), np.full((1, 3), 7, dtype=np.float32)
    assert Inputs((1, 84, 84), 4, config).plain(screen).unique().tolist() == pytest.approx([1.0])
    assert Inputs((6, 10, 10), 1, config).plain(grid).unique().tolist() == [1.0]
    assert Inputs((3,), 1, config).plain(vector).unique().tolist() == [7.0]
    scaled = Inputs((6, 10, 10), 1, configure("spr", {"frame_max": 4.0})).plain(grid)
    assert scaled.unique().tolist() == [0.25]
    assert not Inputs((6, 10, 10), 1, config).augments
    assert not Inputs((1, 84, 84), 4, configure("spr", {"augment": False})).augments


@pytest.mark.parametrize(("channels", "stack"), [(1, 4), (3, 2)])
def test_frames_of_a_stack_share_shift_and_intensity(channels: int, stack: int) -> None:
    """With identical frames, all channels of an augmented stack are equal."""
    agent = learner(shape=(channels, 40, 40), stack=stack, spr_weight=1.0, hidden=4)
    replay, rng = started(agent)
    picture = rng.integers(100, 256, (40, 40), dtype=np.uint8)
    replay.history.frame[:-1] = picture
    first = replay.history.at("start", np.arange(replay.history.now))
    sampled = draw(agent, replay, rng)
    now, later = agent.inputs.of_batch(sampled, rng)
    assert now.shape == (6, stack * channels, 40, 40)
    assert len(later) == 6 * 2 + 6
    old = sampled.index - first[sampled.index] >= stack  # stacks without zero frames
    assert old.any()
    for seen in now[torch.from_numpy(old)]:
        assert torch.equal(seen, seen[:1].expand_as(seen))
        assert seen.max() <= 1.1
    assert len({float(seen[-1].sum()) for seen in now}) == 6  # stacks differ
