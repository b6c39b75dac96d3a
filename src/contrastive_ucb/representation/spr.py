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

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import conv, linear
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.layers import rescaled, rescaled_gradient

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


class TransitionModel(nn.Module):
    """Latent and action to the next latent: layer, ReLU, batch norm, layer, ReLU, rescale.

    The layers are 3x3 convolutions on an image (C, H, W) and linear on a vector (C,). The first one
    reads the latent and one constant plane (or number) an action, 1 for the action taken; these
    planes are never made: `action_shifts` says what they add to its output.

    rounded  what the layers multiply in; None: as they are

    Batch norm takes its mean and variance from the batch of each step. It keeps no running ones,
    since nothing but training asks the model.
    """

    choices: Tensor  # (A, A), a row an action
    inside: Tensor  # (pixels, 9), which weights of a 3x3 kernel fall inside the image

    def __init__(
        self,
        latent_shape: Sequence[int],
        n_actions: int,
        rng: np.random.Generator,
        width: int | None = None,
        rounded: torch.dtype | None = None,
    ):
        super().__init__()
        self.rounded = rounded
        self.n_actions = n_actions
        self.channels = latent_shape[0]
        width = width or self.channels
        self.size = tuple(latent_shape[1:])  # (H, W), or () of a vector
        self.first: nn.Conv2d | nn.Linear
        self.second: nn.Conv2d | nn.Linear
        self.norm: nn.BatchNorm2d | nn.BatchNorm1d
        if len(latent_shape) == 3:
            self.first = conv(self.channels + n_actions, width, 3, rng, padding=1)
            self.second = conv(width, self.channels, 3, rng, padding=1)
            self.norm = nn.BatchNorm2d(width, track_running_stats=False)
        else:
            self.first = linear(self.channels + n_actions, width, rng)
            self.second = linear(width, self.channels, rng)
            self.norm = nn.BatchNorm1d(width, track_running_stats=False)
        self.register_buffer("choices", torch.eye(n_actions), persistent=False)
        self.register_buffer("inside", _inside(self.size), persistent=False)

    def forward(self, latent: Tensor, actions: Tensor) -> Tensor:
        """The latents after 1 .. K actions.

        latent   (B, *latent_shape)
        actions  (B, K)  a_t .. a_t+K-1; returns (K, B, *latent_shape)
        """
        assert self.first.bias is not None
        assert self.second.bias is not None
        weights = Weights(
            self.first.weight[:, : self.channels].contiguous(),
            self.first.bias,
            self.norm.weight,
            self.norm.bias,
            self.second.weight,
            self.second.bias,
        )
        shifts = self.action_shifts(actions)
        return unroll(latent, shifts, weights, self.norm.eps, self.rounded)

    def action_shifts(self, actions: Tensor) -> Tensor:
        """What the planes of the actions add to the output of the first layer.

        A plane of ones under a 3x3 kernel gives the sum of the weights that fall inside the image;
        at the border padding cuts some off.

        actions  (B, K); returns (K, B, width, *size), channels last
        """
        kernels = self.first.weight[:, self.channels :].movedim(0, -1)  # (A, 3, 3, width)
        if self.size:
            kernels = self.inside @ kernels.flatten(1, 2)  # (A, pixels, width)
        # A product is quicker to go back through than an index.
        chosen = self.choices[actions.mT] @ kernels.flatten(1)
        return chosen.view(*chosen.shape[:2], *self.size, -1).movedim(-1, 2)


def _inside(size: Sequence[int]) -> Tensor:
    """1 where a weight of a padded 3x3 kernel meets a pixel   (H, W) -> (pixels, 9)"""
    return F.unfold(torch.ones(1, 1, *size), 3, padding=1)[0].mT if size else torch.ones(0, 9)


class SelfPrediction(nn.Module):
    """The transition model and the predictor: everything SPR adds to the agent."""

    def __init__(self, transition: TransitionModel, size: int, rng: np.random.Generator):
        super().__init__()
        self.transition = transition
        self.predictor = linear(size, size, rng)  # P, the size of the head's projection

    def forward(self, latent: Tensor, actions: Tensor, head: DuelingHead) -> Tensor:
        """y^ of the steps 1 .. K.

        latent   (B, *latent_shape)
        actions  (B, K); returns (K, B, P)
        """
        latents: Tensor = self.transition(latent, actions)
        out: Tensor = self.predictor(head.projection(latents.flatten(0, 1)))
        return out.view(*latents.shape[:2], -1)


def spr_loss(predictions: Tensor, targets: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """mean over the batch of w * mean over k of mask * |y^/|y^| - y~/|y~||^2.

    predictions  y^  (K, B, P)  step k = 1 first
    targets      y~  (K, B, P)  no gradient flows into them
    mask             (B, K)     0 where the episode ended before step k; such a step counts as 0 in
                                the mean, it does not make the others heavier
    weights      w   (B,)       importance weights of the replay; returns ()
    """
    # The length is kept from 0 by SPR's 1e-3, which also bounds the gradient of a tiny projection.
    foreseen = F.normalize(predictions, dim=-1, eps=1e-3)
    seen = F.normalize(targets.detach(), dim=-1, eps=1e-3)
    errors = (foreseen - seen).square().sum(-1)  # (K, B)
    return (weights * mask.mT * errors).mean()
