"""The body of a world model: frames and an action in, features of the next frame out.

| frames   | down                                 | middle        | up                            |
|----------|--------------------------------------|---------------|-------------------------------|
| images   | 3x3 convolutions, each halves a side | 3x3, residual | a cell becomes four, linear   |
| vectors  | linear layers                        | linear        | linear layers                 |

On the way up, what the way down said at the same size is added. At every size the action scales and
shifts the channels. (In Kaiser et al. 2020 it scales them on the way up only; here what is foreseen
about the bits depends on the action too.)

Images lie channels last, which is faster on a CPU; a layer for each cell is then a plain product.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import conv, fill, linear


class Trunk(nn.Module):
    """Layers of an hourglass.

    inputs     shape of what is seen: (C, H, W) or (dim,)
    width      channels of the first layer
    halvings   layers on the way down, each of which halves an image (rounded up), and on the way up
    doublings  how many of them double the channels
    middle     layers at the narrowest place
    """

    def __init__(
        self,
        inputs: Sequence[int],
        n_actions: int,
        rng: np.random.Generator,
        *,
        width: int,
        halvings: int,
        doublings: int,
        middle: int,
    ):
        super().__init__()
        self.is_image = len(inputs) == 3
        channels = [width * 2 ** min(step, doublings) for step in range(halvings + 1)]
        size = tuple(-(-n // 2**halvings) for n in inputs[1:])
        if self.is_image and min(inputs[1:]) < 2**halvings:
            raise ValueError(
                f"frames {tuple(inputs)} cannot be halved {halvings} times; set halvings lower"
            )
        self.width, self.narrow = width, (channels[-1], *size)
        self.down = nn.ModuleList([self._layer(inputs[0], width, rng)])
        for before, after in pairwise(channels):
            self.down.append(self._layer(before, after, rng, stride=2))
        self.middle = nn.ModuleList(
            self._layer(channels[-1], channels[-1], rng) for _ in range(middle)
        )
        cells = 4 if self.is_image else 1
        self.up = nn.ModuleList(
            linear(after, cells * before, rng) for after, before in pairwise(reversed(channels))
        )
        self.gates = Gates(n_actions, [*channels, *reversed(channels[:-1])], rng)

    @property
    def narrow_size(self) -> int:
        return prod(self.narrow)

    def descend(self, seen: Tensor, gates: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """What every layer on the way down says, the narrowest last.

        seen   (B, *inputs)
        gates  of the actions, as `self.gates` gives them
        """
        x = channels_last(seen)
        found: list[Tensor] = []
        for layer, gate in zip(self.down, gates, strict=False):
            x = gated(layer(x), gate).relu_()
            found.append(x)
        return found

    def ascend(
        self, found: list[Tensor], told: Tensor, gates: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Features (B, width, ...) of the next frame.

        found  as `descend` gives it
        told   (B, narrow_size)  added at the narrowest place
        """
        *shortcuts, x = found
        x = (x + self._spread(told)).relu_()
        for layer in self.middle:
            x = x + layer(x).relu_()
        for layer, gate, shortcut in zip(
            self.up, gates[len(found) :], reversed(shortcuts), strict=True
        ):
            x = (gated(self._wider(layer, x, shortcut), gate) + shortcut).relu_()
        return x

    def _spread(self, told: Tensor) -> Tensor:
        """(B, narrow_size) -> (B, *narrow), channels last."""
        channels, *size = self.narrow
        return told.view(-1, *size, channels).movedim(-1, 1)

    def _wider(self, layer: nn.Module, x: Tensor, like: Tensor) -> Tensor:
        if not self.is_image:
            wide: Tensor = layer(x)
            return wide
        cells = F.pixel_shuffle(layer(x.movedim(1, -1)).movedim(-1, 1), 2)
        return channels_last(cells[:, :, : like.shape[2], : like.shape[3]])

    def _layer(
        self, inputs: int, outputs: int, rng: np.random.Generator, stride: int = 1
    ) -> nn.Module:
        if self.is_image:
            return conv(inputs, outputs, 3, rng, stride=stride, padding=1)
        return linear(inputs, outputs, rng)


class Gates(nn.Module):
    """A gain and a shift for every channel of some layers, by the action; gains start near 1."""

    def __init__(self, n_actions: int, channels: Sequence[int], rng: np.random.Generator):
        super().__init__()
        self.channels = list(channels)
        table = nn.Linear(n_actions, 2 * sum(channels), bias=False, device="meta")
        self.table = fill(table.to_empty(device="cpu"), max(channels), rng)
        with torch.no_grad():
            self.table.weight[: sum(channels)] += 1

    def forward(self, actions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Actions (B, A) one-hot to gains and shifts (B, C) of each layer."""
        gains, shifts = self.table(actions).chunk(2, dim=1)
        parts = torch.split(gains, self.channels, 1), torch.split(shifts, self.channels, 1)
        return list(zip(*parts, strict=True))


def gated(x: Tensor, gate: tuple[Tensor, Tensor]) -> Tensor:
    """x * gain + shift, channel by channel.

    x     (B, C, ...)
    gate  gain and shift (B, C)
    """
    gain, shift = (one.view(*one.shape, *(1,) * (x.ndim - 2)) for one in gate)
    return torch.addcmul(shift, x, gain)


def channels_last(x: Tensor) -> Tensor:
    """The same numbers (B, C, H, W), laid out with the channels together; vectors as they are."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim == 4 else x


def flat(x: Tensor) -> Tensor:
    """(B, C, ...) -> (B, n) in the order of memory, without a copy where channels are last."""
    return x.movedim(1, -1).flatten(1)
