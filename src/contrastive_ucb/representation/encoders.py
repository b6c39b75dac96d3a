"""From observations to latents, and the two kinds of layers that every network is made of.

`encoder_shapes.py` lists the encoders. Every layer ends in a ReLU. Weights and biases start uniform
on +-1/sqrt(inputs), PyTorch's default, drawn from the caller's stream: nothing here touches torch's
global generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from contrastive_ucb.representation.encoder_shapes import (
    CONVOLUTIONS,
    choose_encoder,
    latent_shape,
)
from contrastive_ucb.representation.precision import products_in
from contrastive_ucb.representation.rescale import rescale

Layer = TypeVar("Layer", bound=nn.Module)


class Encoder(nn.Module):
    """Observations to latents.

    shape     of one observation: (C, H, W) with the stack among the channels, or anything for `mlp`
    name      of an encoder, or "auto" to choose by the shape
    rescaled  latents are min-max rescaled to [0, 1], which SPR needs and plain Rainbow does without
    hidden    widths of the layers of `mlp`
    rounded   what layers multiply in; None: as they are
    """

    def __init__(
        self,
        shape: Sequence[int],
        rng: np.random.Generator,
        name: str = "auto",
        rescaled: bool = False,
        hidden: Sequence[int] = (64, 64),
        rounded: torch.dtype | None = None,
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
                self.layers.append(conv(inputs, outputs, kernel, rng, stride))
                inputs = outputs
        else:
            widths = (prod(shape), *hidden)
            for inputs, outputs in pairwise(widths):
                self.layers.append(linear(inputs, outputs, rng))

    def forward(self, observations: Tensor) -> Tensor:
        """observations (B, *shape) as floats; returns (B, *latent_shape), images channels last."""
        if self.is_image:
            # Channels last is the faster order on a CPU, and layers keep the order of their input.
            latent = observations.movedim(1, -1).contiguous().movedim(-1, 1)
        else:
            latent = observations.flatten(1)
        with products_in(self.rounded, observations.device):
            for layer in self.layers:
                latent = layer(latent).relu_()
        latent = latent.to(observations.dtype)
        return rescale(latent) if self.rescaled else latent


def conv(
    inputs: int,
    outputs: int,
    kernel: int,
    rng: np.random.Generator,
    stride: int = 1,
    padding: int = 0,
) -> nn.Conv2d:
    """A convolution with weights from `rng`."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, device="meta")
    return fill(layer.to_empty(device="cpu"), inputs * kernel**2, rng)


def linear(inputs: int, outputs: int, rng: np.random.Generator, bias: bool = True) -> nn.Linear:
    """A linear layer with weights from `rng`."""
    layer = nn.Linear(inputs, outputs, bias, device="meta")
    return fill(layer.to_empty(device="cpu"), inputs, rng)


def fill(layer: Layer, inputs: int, rng: np.random.Generator) -> Layer:
    """Every parameter uniform on +-1/sqrt(inputs)."""
    bound = inputs**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            draw = rng.uniform(-bound, bound, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(draw))
    return layer
