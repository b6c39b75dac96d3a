"""The inputs and the network of the deep agents, and one optimizer step.

1. `Inputs` converts stored frames to tensors, with image augmentation in updates.
2. `Network` consists of encoder, value head, and the parts of SPR and CURL.
3. `gradient_step` raises an error, with its location, before a NaN reaches a weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Batch
from contrastive_ucb.envs.frames import SMALLEST_ATARI
from contrastive_ucb.planning.categorical import atoms, expected_value
from contrastive_ucb.representation.augment import intensity, random_crop, random_shift
from contrastive_ucb.representation.encoders import Encoder, channels_last
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.spr import SelfPrediction, TransitionModel

if TYPE_CHECKING:
    from contrastive_ucb.representation.curl import Curl

PAD = 4  # pixels of padding of a random shift
CUT, SMALL_CUT = 4, 1  # pixels removed by a random crop of large and of small images


class Inputs:
    """Inputs of the encoder: stored frames, scaled, stacked and, in updates, augmented.

    | frames                           | scale                   | augmented               |
    |----------------------------------|-------------------------|-------------------------|
    | uint8 images of at least 36x36   | 1/255                   | shift and intensity     |
    | smaller uint8 images (MinAtar)   | none: entries are 0, 1  | no: cells are objects   |
    | float32 vectors                  | none                    | no                      |

    The setting `frame_max` replaces the scale. Frames are views of the replay memory; uint8 is
    converted to float32 as late as possible, after images are laid out channels last.

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
        if config.curl_weight > 0 and not (is_image and min(frame_shape[1:]) > SMALL_CUT):
            raise ValueError(
                f"CURL needs images, but observations have shape {self.shape}; choose another "
                "agent, such as der or spr"
            )

    def plain(self, observations: Frames | Tensor) -> Tensor:
        """Observations (B, *shape) as floats."""
        frames = torch.as_tensor(observations).to(self.device)
        if self.is_image:  # relayout bytes, a quarter of the size of floats
            frames = channels_last(frames)
        floats = frames.float()
        return floats if self.frame_max == 1 else floats.mul_(1 / self.frame_max)

    def of_batch(self, batch: Batch, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """s_t (B, *shape); s_{t+1} .. s_{t+K} of each sample, then all s_{t+n} (B K + B, *shape).

        Each stack has its own shift and intensity, drawn from `rng`.
        """
        if not self.augments:
            stacks, last = self._stacks(batch.frames), torch.from_numpy(batch.bootstrap)
            now, later = stacks[:, 0], torch.cat([stacks[:, 1:].flatten(0, 1), last])
            return self.plain(now), self.plain(later)
        stacks = self._shifted(batch.frames, rng)
        last = self._shifted(batch.bootstrap, rng)
        # Channels last: both parts are copied once, as bytes.
        rows = stacks.movedim(2, -1)
        later = torch.cat([rows[:, 1:].flatten(0, 1), last.movedim(2, -1)[:, 0]]).movedim(-1, 1)
        return self._bright(stacks[:, 0], rng), self._bright(later, rng)

    def another_view(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """s_{t+n} (B, *shape) with a new shift and intensity."""
        return self._bright(self._shifted(batch.bootstrap, rng)[:, 0], rng)

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

    def _shifted(self, frames: Frames, rng: np.random.Generator) -> Tensor:
        """Every stack with its own random shift.

        frames  (B, T + stack - 1, C, H, W), or (B, stack * C, H, W) with T = 1; returns
                (B, T, stack * C, H, W)
        """
        size, (channels, *image) = len(frames), self.shape
        frames = frames.reshape(size, -1, channels // self.stack, *image)
        times = frames.shape[1] - self.stack + 1
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


class Network(nn.Module):
    """Observations (B, *shape) to latents to logits (B, A, N); with N = 1 scalar values.

    shape    of one observation; the frames of the stack are channels
    support  smallest and largest atom
    """

    support: Tensor  # z, (N,)

    def __init__(
        self,
        shape: Sequence[int],
        n_actions: int,
        config: RainbowConfig,
        support: tuple[float, float],
        rng: np.random.Generator,
    ):
        super().__init__()
        self.is_distribution = config.distributional
        rounded = torch.bfloat16 if config.precision == "bfloat16" else None
        self.encoder = Encoder(
            shape,
            rng,
            config.encoder,
            rescaled=config.spr_weight > 0,
            hidden=config.mlp,
            rounded=rounded,
            initializer=config.initializer,
        )
        latent = self.encoder.latent_shape
        self.head = DuelingHead(
            prod(latent),
            n_actions,
            config.atoms if config.distributional else 1,
            rng,
            hidden=config.hidden,
            streams=config.streams,
            dueling=config.dueling,
            sigma0=config.noisy,
            # The gradients of both streams are averaged at the latent, except in CURL's code.
            gradient_scale=1.0 if config.curl_weight > 0 else config.streams**-0.5,
            rounded=rounded,
            bias_sigma=config.bias_sigma,
            initializer=config.initializer,
        )
        self.prediction: SelfPrediction | None = None
        if config.spr_weight > 0:
            transition = TransitionModel(latent, n_actions, rng, rounded=rounded)
            self.prediction = SelfPrediction(transition, config.streams * config.hidden, rng)
        self.curl: Curl | None = None
        if config.curl_weight > 0:
            from contrastive_ucb.representation.curl import Curl

            self.curl = Curl(self.encoder, rng)
        z = atoms(*support, config.atoms) if config.distributional else torch.ones(1)
        self.register_buffer("support", z)

    def probs(self, logits: Tensor) -> Tensor:
        """Probabilities (..., N) of logits; scalar values (N = 1) are returned unchanged."""
        return logits.softmax(-1) if self.is_distribution else logits

    def q_values(self, latent: Tensor, noisy: bool = True) -> Tensor:
        """Q (B, A) of latents (B, ...); a scalar value is the mass of one atom at 1."""
        return expected_value(self.probs(self.head(latent, noisy)), self.support)

    def groups(self, limit: float) -> list[tuple[list[nn.Parameter], float]]:
        """All parameters in groups, each with its gradient clipping norm; limit 0: no clipping.

        As in SPR's code: encoder and head, the transition model, and the predictor, which is not
        clipped. The parameters of CURL belong to the first group, as in its code.
        """
        limit = limit or inf
        curl = self.curl.trainable() if self.curl is not None else []
        groups = [([*self.encoder.parameters(), *self.head.parameters(), *curl], limit)]
        if self.prediction is not None:
            groups.append((list(self.prediction.transition.parameters()), limit))
            groups.append((list(self.prediction.predictor.parameters()), inf))
        return groups


def gradient_step(
    optimizer: torch.optim.Optimizer,
    network: nn.Module,
    groups: Iterable[tuple[list[nn.Parameter], float]],
    loss: Tensor,
) -> None:
    """One optimizer step on `loss` (), with gradient clipping.

    groups  of parameters, each with the largest allowed norm of its gradient
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    for group, limit in groups:
        norm = get_total_norm([x.grad for x in group if x.grad is not None], foreach=True)
        if not torch.isfinite(norm):
            gradients = {k: x.grad for k, x in network.named_parameters()}
            name = not_finite({k: x for k, x in gradients.items() if x is not None})
            raise ArithmeticError(f"the gradient of {name} has a NaN or infinite entry")
        if norm > limit:
            clip_grads_with_norm_(group, limit, norm, foreach=True)
    optimizer.step()


@contextmanager
def error_location(network: nn.Module, location: str) -> Iterator[None]:
    """Add the location, and the first non-finite weight if any, to an ArithmeticError."""
    try:
        yield
    except ArithmeticError as error:
        broken = not_finite(network.state_dict())
        what = f"the weight {broken} has a NaN or infinite entry" if broken else error
        raise ArithmeticError(f"{what}, in {location}") from error


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with a NaN or infinite entry."""
    broken = (name for name, value in tensors.items() if not torch.isfinite(value).all())
    return next(broken, None)
