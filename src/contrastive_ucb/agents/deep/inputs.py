"""Inputs of the encoder: stored frames, scaled, stacked and, in updates, augmented.

| frames                           | scale                   | augmented               |
|----------------------------------|-------------------------|-------------------------|
| uint8 images of at least 36x36   | 1/255                   | shift and intensity     |
| smaller uint8 images (MinAtar)   | none: entries are 0, 1  | no: cells are objects   |
| float32 vectors                  | none                    | no                      |

The setting `frame_max` replaces the scale. Frames are views of the replay memory; uint8 is
converted to float32 as late as possible, after images are laid out channels last.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Batch
from contrastive_ucb.representation.augment import intensity, random_crop, random_shift
from contrastive_ucb.representation.encoder_shapes import SMALLEST_ATARI
from contrastive_ucb.representation.layers import channels_last

PAD = 4  # pixels of padding of a random shift
CUT, SMALL_CUT = 4, 1  # pixels removed by a random crop of large and of small images


class Inputs:
    """Converts frames of one environment to tensors.

    frame_shape  of one frame, (C, H, W) of uint8 or (dim,) of float32
    stack        frames per observation
    """

    def __init__(
        self,
        frame_shape: tuple[int, ...],
        stack: int,
        config: RainbowConfig,
        device: torch.device | str = "cpu",
    ):
        self.stack, self.device = stack, torch.device(device)
        self.shape = (stack * frame_shape[0], *frame_shape[1:])
        self.is_image = is_image = len(frame_shape) == 3
        is_large = is_image and min(frame_shape[1:]) >= SMALLEST_ATARI
        self.dtype = np.dtype(np.uint8 if is_image else np.float32)
        self.frame_max = (config.frame_max or (255.0 if is_large else 1.0)) if is_image else 1.0
        self.augments = config.augment and is_large
        self.n_offsets = config.largest_offset + 1
        self.cut = CUT if is_large else SMALL_CUT
        if config.has_curl and not (is_image and min(frame_shape[1:]) > SMALL_CUT):
            raise ValueError(
                f"CURL needs images, but observations have shape {self.shape}; choose another "
                "agent, such as der or spr"
            )

    def plain(self, observations: Frames) -> Tensor:
        """Observations (B, *shape) as floats."""
        return self._scaled(torch.from_numpy(observations).to(self.device))

    def of_batch(self, batch: Batch, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """s_t (B, *shape); s_{t+1} .. s_{t+K} of each sample, then all s_{t+n} (B K + B, *shape).

        Each stack has its own shift and intensity, drawn from `rng`.
        """
        if not self.augments:
            stacks, last = self._stacks(batch.frames), torch.from_numpy(batch.bootstrap)
            now, later = stacks[:, 0], torch.cat([stacks[:, 1:].flatten(0, 1), last])
            return self._scaled(now.to(self.device)), self._scaled(later.to(self.device))
        stacks = self._shifted(batch.frames, rng)
        last = self._shifted(self._bootstrap(batch), rng)
        # Channels last: both parts are copied once, as bytes.
        rows = stacks.movedim(2, -1)
        later = torch.cat([rows[:, 1:].flatten(0, 1), last.movedim(2, -1)[:, 0]]).movedim(-1, 1)
        return self._bright(stacks[:, 0], rng), self._bright(later, rng)

    def another_view(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """s_{t+n} (B, *shape) with a new shift and intensity."""
        return self._bright(self._shifted(self._bootstrap(batch), rng)[:, 0], rng)

    def crops(self, batch: Batch, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Two crops of every s_t, each (B, *shape), for CURL."""
        frames = batch.frames[:, : self.stack].reshape(len(batch.frames), *self.shape)
        offsets = rng.integers(0, self.cut + 1, (2, len(frames), 4))
        first, second = (random_crop(frames, part, self.cut) for part in offsets)
        return self.plain(first), self.plain(second)

    def _stacks(self, frames: Frames) -> Tensor:
        """(B, T + stack - 1, C, ...) -> (B, T, stack * C, ...), a view where stack is 1."""
        windows = torch.from_numpy(frames).unfold(1, self.stack, 1).movedim(-1, 2)
        return windows.flatten(2, 3)

    def _bootstrap(self, batch: Batch) -> Frames:
        """The bootstrap observations as stacks of frames (B, stack, C, H, W)."""
        size, (_, height, width) = len(batch.bootstrap), self.shape
        return batch.bootstrap.reshape(size, self.stack, -1, height, width)

    def _shifted(self, frames: Frames, rng: np.random.Generator) -> Tensor:
        """Every stack with its own random shift.

        frames  (B, T + stack - 1, C, H, W); returns (B, T, stack * C, H, W)
        """
        size, times = len(frames), frames.shape[1] - self.stack + 1
        offsets = rng.integers(0, self.n_offsets, (size, times, 2))
        if frames.shape[2] == 1:
            return torch.from_numpy(random_shift(frames[:, :, 0], offsets, PAD, self.stack))
        stacks = self._stacks(frames).flatten(0, 1).numpy()  # color channels share the shift
        shifted = random_shift(stacks, offsets.reshape(-1, 1, 2), PAD, self.shape[0])
        return torch.from_numpy(shifted).view(size, times, *self.shape)

    def _bright(self, frames: Tensor, rng: np.random.Generator) -> Tensor:
        """Scaled frames with random intensity."""
        noise = rng.standard_normal(len(frames), dtype=np.float32)
        floats = intensity(frames.to(self.device), torch.from_numpy(noise).to(self.device))
        return floats if self.frame_max == 255 else floats.mul_(255 / self.frame_max)

    def _scaled(self, frames: Tensor) -> Tensor:
        if self.is_image:  # relayout bytes, a quarter of the size of floats
            frames = channels_last(frames)
        floats = frames.float()
        return floats if self.frame_max == 1 else floats.mul_(1 / self.frame_max)
