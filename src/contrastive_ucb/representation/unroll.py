"""The transition model of SPR unrolled over K steps, with a gradient written out.

One step, from a latent x to the next one y:

| forward                        | saved | backward                                            |
|--------------------------------|-------|-----------------------------------------------------|
| a = relu(first(x) + shift)     | x, a  | through first: to x, and to shift as it is          |
| c = batch norm(a)              | c     | `native_batch_norm_backward`, mean and scale saved  |
| r = relu(second(c))            | r     | through second                                      |
| y = rescale(r)                 | y, w  | `rescaled_gradient`                                 |

It is what autograd would do, in fewer pieces: steps are small, and the work between their layers
would take as long as the layers. With `rounded`, what the two layers read, their weights and what
they return are rounded, forward and backward; between the layers numbers are those of the latents.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive_ucb.representation.rescale import rescaled, rescaled_gradient

aten = torch.ops.aten
SAVED = 8  # tensors of a step that its backward pass needs


class Weights(NamedTuple):
    """Of the layers of one step; those of `first` see the latent only, actions come as shifts."""

    first: Tensor  # (width, C, 3, 3), or (width, C) for vectors
    first_bias: Tensor
    scale: Tensor  # (width,) of the batch norm
    offset: Tensor
    second: Tensor  # (C, width, 3, 3) or (C, width)
    second_bias: Tensor


def unroll(
    latent: Tensor,
    shifts: Tensor,
    weights: Weights,
    eps: float,
    rounded: torch.dtype | None = None,
) -> Tensor:
    """The latents after 1 .. K steps.

    latent   (B, *latent_shape)
    shifts   (K, B, width, ...)  what the actions add to the output of the first layer
    eps      of the batch norm
    rounded  what layers multiply in; None: as they are; returns (K, B, *latent_shape)
    """
    factors = rounded or latent.dtype
    out: Tensor = _Unroll.apply(latent, shifts, eps, factors, *weights)  # type: ignore[no-untyped-call]
    return out


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        latent: Tensor,
        shifts: Tensor,
        eps: float,
        factors: torch.dtype,
        *weights: Tensor,
    ) -> Tensor:
        first, first_bias, scale, offset, second, second_bias = weights
        first, second = first.to(factors), second.to(factors)
        ctx.eps, steps, outs = eps, [], []
        for shift in shifts:
            latent = latent.to(factors)
            mixed = _layer(latent, first, first_bias).add_(shift).relu_()  # a
            normed, mean, spread = torch.native_batch_norm(
                mixed, scale, offset, None, None, True, 0.0, eps
            )
            normed = normed.to(factors)
            raw = _layer(normed, second, second_bias).relu_()  # r
            out, width = rescaled(raw)
            steps += [latent, mixed, normed, mean, spread, raw, out, width]
            outs.append(out.movedim(1, -1))  # as it lies in memory, there and back
            latent = out
        ctx.save_for_backward(first, scale, second, *steps)
        return torch.stack(outs).movedim(-1, 2)

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, scale, second, *saved = ctx.saved_tensors
        steps = [saved[at : at + SAVED] for at in range(0, len(saved), SAVED)]
        shifts: list[Tensor] = []
        sums: list[Tensor] = []  # gradients of the weights over the steps, in their order
        back = torch.zeros_like(gradients[0])  # what the later steps say of a latent
        for gradient, step in zip(reversed(gradients.unbind()), reversed(steps), strict=True):
            latent, mixed, normed, mean, spread, raw, out, width = step
            back = rescaled_gradient(gradient + back, out, width)
            back = aten.threshold_backward(back, raw, 0)
            back, *of_second = _layer_gradients(back, normed, second)
            back, *of_norm = aten.native_batch_norm_backward(
                back, mixed, scale, None, None, mean, spread, True, ctx.eps, [True] * 3
            )
            back = aten.threshold_backward(back, mixed, 0)
            shifts.append(back.movedim(1, -1))
            back, *of_first = _layer_gradients(back, latent, first)
            own = [*of_first, *of_norm, *of_second]
            sums = [total.add_(one) for total, one in zip(sums, own, strict=True)] if sums else own
        return back, torch.stack(shifts[::-1]).movedim(-1, 2), None, None, *sums


def _layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x and weight may be rounded; what comes out has the numbers of the bias."""
    own = bias.to(x.dtype)
    out = F.linear(x, weight, own) if x.dim() == 2 else F.conv2d(x, weight, own, padding=1)
    return out.to(bias.dtype)


def _layer_gradients(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """From the gradient at the output of a layer those at its input, weight and bias."""
    own = gradient.to(x.dtype)
    if x.dim() == 2:
        to_input, to_weight = (one.to(gradient.dtype) for one in (own @ weight, own.mT @ x))
        return to_input, to_weight, gradient.sum(0)
    ones = [1, 1]
    found: tuple[Tensor, ...] = aten.convolution_backward(
        own, x, weight, [len(weight)], ones, ones, ones, False, [0, 0], 1, [True] * 3
    )
    return tuple(g.to(gradient.dtype) for g in found)
