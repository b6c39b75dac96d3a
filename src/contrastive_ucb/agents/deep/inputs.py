"""From stored frames to what the encoder reads: scaled, stacked and, in an update, augmented.

| frames                           | scale                   | augmented               |
|----------------------------------|-------------------------|-------------------------|
| uint8 images, 36x36 and more     | 1/255: brightness       | shift and intensity     |
| uint8 images below (MinAtar)     | none: marks on a grid   | no: 4 pixels are a move |
| float32 vectors                  | none                    | no                      |

`frame_max` of the configuration replaces the scale. Memory of the replay is looked at, not copied;
uint8 becomes float32 as late as possible, and images lie channels last before they do.
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

PAD = 4  # pixels of a random shift
CUT, SMALL_CUT = 4, 1  # pixels of a random crop of big and of small images


class Inputs:
    """Frames of one environment as tensors.

    frame_shape  of one frame, (C, H, W) of uint8 or (dim,) of float32
    stack        frames an observation
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
        is_big = is_image and min(frame_shape[1:]) >= SMALLEST_ATARI
        self.dtype = np.dtype(np.uint8 if is_image else np.float32)
        self.frame_max = (config.frame_max or (255.0 if is_big else 1.0)) if is_image else 1.0
        self.augments = config.augment and is_big
        self.n_offsets = config.largest_offset + 1
        self.cut = CUT if is_big else SMALL_CUT
        if config.has_curl and not (is_image and min(frame_shape[1:]) > SMALL_CUT):
            raise ValueError(
                f"CURL crops images, and observations here have shape {self.shape}; choose another "
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
            seen, last = self._stacks(batch.frames), torch.from_numpy(batch.bootstrap)
            now, later = seen[:, 0], torch.cat([seen[:, 1:].flatten(0, 1), last])
            return self._scaled(now.to(self.device)), self._scaled(later.to(self.device))
        seen, last = self._shifted(batch.frames, rng), self._shifted(self._whole(batch), rng)
        # Channels last here too: both parts are copied once, as bytes.
        rows = seen.movedim(2, -1)
        later = torch.cat([rows[:, 1:].flatten(0, 1), last.movedim(2, -1)[:, 0]]).movedim(-1, 1)
        return self._bright(seen[:, 0], rng), self._bright(later, rng)

    def another_view(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """s_{t+n} (B, *shape) with a shift and an intensity different from those of `of_batch`."""
        return self._bright(self._shifted(self._whole(batch), rng)[:, 0], rng)

    def crops(self, batch: Batch, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Two crops of every s_t, each (B, *shape), for CURL."""
        frames = batch.frames[:, : self.stack].reshape(len(batch.frames), *self.shape)
        offsets = rng.integers(0, self.cut + 1, (2, len(frames), 4))
        one, other = (random_crop(frames, each, self.cut) for each in offsets)
        return self.plain(one), self.plain(other)

    def _stacks(self, frames: Frames) -> Tensor:
        """(B, T + stack - 1, C, ...) -> (B, T, stack * C, ...), a view where stack is 1."""
        windows = torch.from_numpy(frames).unfold(1, self.stack, 1).movedim(-1, 2)
        return windows.flatten(2, 3)

    def _whole(self, batch: Batch) -> Frames:
        """The bootstrap observations as stacks of frames (B, stack, C, H, W)."""
        size, (_, height, width) = len(batch.bootstrap), self.shape
        return batch.bootstrap.reshape(size, self.stack, -1, height, width)

    def _shifted(self, frames: Frames, rng: np.random.Generator) -> Tensor:
        """Every stack moved by its own offset.

        frames  (B, T + stack - 1, C, H, W); returns (B, T, stack * C, H, W)
        """
        size, times = len(frames), frames.shape[1] - self.stack + 1
        offsets = rng.integers(0, self.n_offsets, (size, times, 2))
        if frames.shape[2] == 1:
            return torch.from_numpy(random_shift(frames[:, :, 0], offsets, PAD, self.stack))
        stacks = self._stacks(frames).flatten(0, 1).numpy()  # colours move together
        moved = random_shift(stacks, offsets.reshape(-1, 1, 2), PAD, self.shape[0])
        return torch.from_numpy(moved).view(size, times, *self.shape)

    def _bright(self, frames: Tensor, rng: np.random.Generator) -> Tensor:
        noise = rng.standard_normal(len(frames), dtype=np.float32)
        floats = intensity(frames.to(self.device), torch.from_numpy(noise).to(self.device))
        return floats if self.frame_max == 255 else floats.mul_(255 / self.frame_max)

    def _scaled(self, frames: Tensor) -> Tensor:
        if self.is_image:  # the channels move as bytes, a quarter of what floats would be
            frames = frames.movedim(1, -1).contiguous().movedim(-1, 1)
        floats = frames.float()
        return floats if self.frame_max == 1 else floats.mul_(1 / self.frame_max)
