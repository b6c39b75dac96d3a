"""The transition model of SPR unrolled over K steps, with a gradient written out.

One step, from a latent x to the next one y:

| forward                        | saved | backward                                            |
|--------------------------------|-------|-----------------------------------------------------|
| a = relu(first(x) + shift)     | x, a  | through first: to x, and to shift as it is          |
| c = batch norm(a)              | c     | `native_batch_norm_backward`, mean and scale saved  |
| r = relu(second(c))            | r     | through second                                      |
| y = rescale(r)                 | y, w  | `rescaled_gradient`                                 |

It is what autograd would do, in fewer and larger pieces: a step is too small for the work between
its layers not to matter, and the gradients of the weights are one product over all K steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive_ucb.representation.rescale import rescaled, rescaled_gradient

aten = torch.ops.aten


class Weights(NamedTuple):
    """Of the layers of one step; those of `first` see the latent only, actions come as shifts."""

    first: Tensor  # (width, C, 3, 3), or (width, C) for vectors
    first_bias: Tensor
    scale: Tensor  # (width,) of the batch norm
    offset: Tensor
    second: Tensor  # (C, width, 3, 3) or (C, width)
    second_bias: Tensor


def unroll(latent: Tensor, shifts: Tensor, weights: Weights, eps: float) -> Tensor:
    """The latents after 1 .. K steps.

    latent  (B, *latent_shape)
    shifts  (K, B, width, ...)  what the actions add to the output of the first layer
    eps     of the batch norm; returns (K, B, *latent_shape)
    """
    out: Tensor = _Unroll.apply(latent, shifts, eps, *weights)  # type: ignore[no-untyped-call]
    return out


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, latent: Tensor, shifts: Tensor, eps: float, *weights: Tensor) -> Tensor:
        first, first_bias, scale, offset, second, second_bias = weights
        ctx.eps, steps, outs = eps, [], []
        for shift in shifts:
            mixed = _layer(latent, first, first_bias).add_(shift).relu_()  # a
            normed, mean, spread = torch.native_batch_norm(
                mixed, scale, offset, None, None, True, 0.0, eps
            )
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
        steps = [saved[at : at + 8] for at in range(0, len(saved), 8)]
        at_first, at_second, norms = [], [], []
        back = torch.zeros_like(steps[0][0])  # what the later steps say of a latent
        for gradient, step in zip(reversed(gradients.unbind()), reversed(steps), strict=True):
            _, mixed, _, mean, spread, raw, out, width = step
            back = rescaled_gradient(gradient + back, out, width)
            at_second.append(aten.threshold_backward(back, raw, 0))
            back = _to_input(at_second[-1], step[2], second)
            back, *norm = aten.native_batch_norm_backward(
                back, mixed, scale, None, None, mean, spread, True, ctx.eps, [True] * 3
            )
            norms.append(torch.stack(norm))
            at_first.append(aten.threshold_backward(back, mixed, 0))
            back = _to_input(at_first[-1], step[0], first)
        inputs, normed = ([step[at] for step in reversed(steps)] for at in (0, 2))
        return (
            back,
            torch.stack([one.movedim(1, -1) for one in reversed(at_first)]).movedim(-1, 2),
            None,
            *_to_weights(at_first, inputs, first),
            *torch.stack(norms).sum(0),
            *_to_weights(at_second, normed, second),
        )


def _layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias) if x.dim() == 2 else F.conv2d(x, weight, bias, padding=1)


def _to_input(gradient: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The gradient at the input of a layer from that at its output."""
    if x.dim() == 2:
        return gradient @ weight
    back: Tensor = _conv_backward(gradient, x, weight, [True, False, False])[0]
    return back


def _to_weights(
    gradients: list[Tensor], inputs: list[Tensor], weight: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of weight and bias of a layer that was used in several steps."""
    gradient, x = (
        torch.cat([one.movedim(1, -1) for one in parts]).movedim(-1, 1)
        for parts in (gradients, inputs)
    )
    if x.dim() == 2:
        return gradient.mT @ x, gradient.sum(0)
    bias = gradient.sum((0, 2, 3))
    return _conv_backward(gradient, x, weight, [False, True, False])[1], bias


def _conv_backward(gradient: Tensor, x: Tensor, weight: Tensor, asked: list[bool]) -> Any:
    ones, none = [1, 1], [0, 0]
    return aten.convolution_backward(
        gradient, x, weight, [len(weight)], ones, ones, ones, False, none, 1, asked
    )
