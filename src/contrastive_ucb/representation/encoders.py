"""Encoders from observations to latents, and constructors of linear and convolutional layers.

`encoder_shapes.py` lists the encoders. Every layer is followed by a ReLU. Initial weights are drawn
from the caller's random stream, never from torch's global generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoder_shapes import (
    CONVOLUTIONS,
    SAME,
    choose_encoder,
    latent_shape,
    same_padding,
)
from contrastive_ucb.representation.layers import channels_last, products_in, rescale

Layer = TypeVar("Layer", bound=nn.Module)
Initializer = Literal["torch", "xavier"]


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


def _same_pads(images: Tensor, layer: nn.Conv2d) -> tuple[int, int, int, int]:
    """Left, right, top and bottom SAME padding of images (B, C, H, W) before the layer."""
    (height, width), kernel, stride = images.shape[2:], layer.kernel_size[0], layer.stride[0]
    return *same_padding(width, kernel, stride), *same_padding(height, kernel, stride)


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
