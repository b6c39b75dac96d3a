"""Encoders from observations to latents, and constructors of linear and convolutional layers.

| name             | layers                                        | latent of 84x84 or 10x10     |
|------------------|-----------------------------------------------|------------------------------|
| `atari`          | conv 32@8x8/4, 64@4x4/2, 64@3x3/1 (Nature DQN) | (64, 7, 7)                   |
| `atari-same`     | the same with SAME padding (Dopamine)         | (64, 11, 11)                 |
| `data-efficient` | conv 32@5x5/5, 64@5x5/5 (CURL)                | (64, 3, 3)                   |
| `minatar`        | conv 16@3x3/1                                 | (16, 8, 8)                   |
| `mlp`            | linear layers on the flattened input          | (width of the last layer,)   |

Every layer is followed by a ReLU. Initial weights are drawn from the caller's random stream, never
from torch's global generator.

Precision of the large layers (setting `precision`):

| precision | encoder, transition model, first layer of the head   | the rest |
|-----------|------------------------------------------------------|----------|
| float32   | float32                                              | float32  |
| bfloat16  | inputs, weights, outputs and gradients in bfloat16   | float32  |

bfloat16 is a 16-bit format with 8 bits of precision and the range of float32, so nothing overflows
and losses need no scaling. Sums inside a product, stored weights, Adam, batch norms, rescaling,
logits and losses stay in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from math import prod
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.envs.frames import choose_encoder

Layer = TypeVar("Layer", bound=nn.Module)
Initializer = Literal["torch", "xavier"]
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
CONVOLUTIONS = {  # (channels, kernel, stride) of each layer, no padding unless listed in SAME
    "atari": NATURE,
    "atari-same": NATURE,
    "data-efficient": ((32, 5, 5), (64, 5, 5)),
    "minatar": ((16, 3, 1),),
}
SAME = ("atari-same",)  # zero-padded so that stride s divides a side by s, rounded up
ENCODERS = (*CONVOLUTIONS, "mlp")


class Encoder(nn.Module):
    """Observations to latents.

    shape     of one observation: (C, H, W) with the stack among the channels, or anything for `mlp`
    name      of an encoder, or "auto" to choose by shape
    rescaled  whether latents are min-max rescaled to [0, 1], as in SPR
    hidden    widths of the layers of `mlp`
    rounded   data type of the products; None: that of the input
    initializer  of the layers, see `fill`
    """

    def __init__(
        self,
        shape: Sequence[int],
        rng: np.random.Generator,
        name: str = "auto",
        rescaled: bool = False,
        hidden: Sequence[int] = (64, 64),
        rounded: torch.dtype | None = None,
        initializer: Initializer = "torch",
    ):
        super().__init__()
        self.rounded = rounded
        self.name = choose_encoder(shape) if name == "auto" else name
        self.rescaled = rescaled
        self.latent_shape = latent_shape(self.name, shape, hidden)
        self.is_image = self.name in CONVOLUTIONS
        self.layers = nn.ModuleList()
        if self.is_image:
            inputs = shape[0]
            for outputs, kernel, stride in CONVOLUTIONS[self.name]:
                layer = conv(inputs, outputs, kernel, rng, stride, initializer=initializer)
                self.layers.append(layer)
                inputs = outputs
        else:
            widths = (prod(shape), *hidden)
            for inputs, outputs in pairwise(widths):
                self.layers.append(linear(inputs, outputs, rng, initializer=initializer))

    def forward(self, observations: Tensor) -> Tensor:
        """observations (B, *shape) as floats; returns (B, *latent_shape), images channels last."""
        # Channels last is the faster layout on a CPU, and layers keep it.
        latent = channels_last(observations) if self.is_image else observations.flatten(1)
        with products_in(self.rounded, observations.device):
            for layer in self.layers:
                if self.name in SAME:
                    latent = F.pad(latent, _same_pads(latent, cast(nn.Conv2d, layer)))
                latent = layer(latent).relu_()
        latent = latent.to(observations.dtype)
        return rescale(latent) if self.rescaled else latent


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


def _same_pads(images: Tensor, layer: nn.Conv2d) -> tuple[int, int, int, int]:
    """Left, right, top and bottom SAME padding of images (B, C, H, W) before the layer."""
    (height, width), kernel, stride = images.shape[2:], layer.kernel_size[0], layer.stride[0]
    return *same_padding(width, kernel, stride), *same_padding(height, kernel, stride)


# --- Layers ----------------------------------------------------------------------------------


def conv(
    inputs: int,
    outputs: int,
    kernel: int,
    rng: np.random.Generator,
    stride: int = 1,
    padding: int = 0,
    initializer: Initializer = "torch",
) -> nn.Conv2d:
    """A convolution with weights drawn from `rng`."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, device="meta")
    return fill(layer.to_empty(device="cpu"), inputs * kernel**2, rng, initializer)


def linear(
    inputs: int,
    outputs: int,
    rng: np.random.Generator,
    bias: bool = True,
    initializer: Initializer = "torch",
) -> nn.Linear:
    """A linear layer with weights drawn from `rng`."""
    layer = nn.Linear(inputs, outputs, bias, device="meta")
    return fill(layer.to_empty(device="cpu"), inputs, rng, initializer)


def fill(
    layer: Layer, inputs: int, rng: np.random.Generator, initializer: Initializer = "torch"
) -> Layer:
    """Initialize every parameter of the layer in place.

    inputs       fan-in of a unit
    initializer  torch: uniform on +-1/sqrt(fan-in), PyTorch's default; xavier: weights uniform on
                 +-sqrt(6 / (fan-in + fan-out)), biases 0 (Glorot and Bengio 2010)
    """
    with torch.no_grad():
        for parameter in layer.parameters():
            bound = inputs**-0.5
            if initializer == "xavier":
                fan_out = len(parameter) * parameter[0, 0].numel() if parameter.ndim > 1 else 0
                bound = (6 / (inputs + fan_out)) ** 0.5 if fan_out else 0.0
            draw = rng.uniform(-bound, bound, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(draw))
    return layer


# --- Memory layout and precision -------------------------------------------------------------


def channels_last(x: Tensor) -> Tensor:
    """Images (B, C, H, W) with the channels innermost in memory; vectors (B, C) unchanged."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim == 4 else x


def flatten(latent: Tensor) -> Tensor:
    """Latents as rows, pixel by pixel, without a copy if channels are last in memory.

    latent  (B, C, H, W) or (B, C); returns (B, H W C) or (B, C)
    """
    return latent.movedim(1, -1).flatten(1)


def products_in(
    rounded: torch.dtype | None, device: torch.device
) -> AbstractContextManager[object]:
    """Context in which layers compute, and return, this data type."""
    return nullcontext() if rounded is None else torch.autocast(device.type, rounded)


# --- Min-max rescaling of latents (SPR, following MuZero) --------------------------------------


def rescale(latent: Tensor) -> Tensor:
    """y = (x - min x) / (max x - min x) per sample; a constant sample becomes zeros.

    latent  (B, ...); returns (B, ...) in [0, 1]
    """
    out: Tensor = _Rescale.apply(latent)  # type: ignore[no-untyped-call]
    return out


def rescaled(latent: Tensor) -> tuple[Tensor, Tensor]:
    """y (B, ...) and w = max x - min x (B,), or 1 where that is 0."""
    rows = flatten(latent)
    low = rows.amin(1)
    width = rows.amax(1) - low
    width += width == 0
    return _unflatten((rows - low[:, None]).div_(width[:, None]), latent), width


def rescaled_gradient(gradient: Tensor, out: Tensor, width: Tensor) -> Tensor:
    """The gradient at x for a gradient at y, all (B, ...).

    dy/dx is 1/w at each entry; the minimum moves all of y by (y - 1) / w, the maximum by -y / w.
    """
    rows, values = flatten(gradient) / width[:, None], flatten(out)
    if values.device.type == "cpu":  # numpy's argmin is vectorized, torch's is not
        array = values.numpy()
        places = torch.from_numpy(np.stack([array.argmin(1), array.argmax(1)], 1))
    else:
        places = torch.stack([values.argmin(1), values.argmax(1)], 1)
    moment = (rows * values).sum(1)
    rows.scatter_add_(1, places, torch.stack([moment - rows.sum(1), -moment], 1))
    return _unflatten(rows, out)


def _unflatten(rows: Tensor, like: Tensor) -> Tensor:
    """Rows in the shape of `like`; the inverse of `flatten`."""
    return rows.view(len(rows), *like.shape[2:], like.shape[1]).movedim(-1, 1)


class _Rescale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, latent: Tensor) -> Tensor:
        out, width = rescaled(latent)
        ctx.save_for_backward(out, width)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return rescaled_gradient(gradient, *ctx.saved_tensors)
