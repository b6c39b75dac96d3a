"""Self-predictive representations (SPR, Schwarzer et al. 2021).

From the latent z_t and the actions a_t .. a_{t+K-1}, a transition model predicts the latents of the
next K steps. Predictions and targets are compared after the first layer of the head (projection).

| symbol | here              | shape           |                                                  |
|--------|-------------------|-----------------|--------------------------------------------------|
| z_t    | `latent`          | (B, *latent)    | output of the encoder, rescaled to [0, 1]        |
| h      | `TransitionModel` | (K, B, *latent) | predicted latents                                |
| y^     | `predictions`     | (K, B, P)       | predictor of the projection of predicted latents |
| y~     | `targets`         | (K, B, P)       | projection of the latents of s_{t+1} .. s_{t+K}  |

The gradient of the K steps is written out at the end of the file, for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import conv, linear, rescaled, rescaled_gradient
from contrastive_ucb.representation.heads import DuelingHead

aten = torch.ops.aten
SAVED = 8  # tensors per step that the backward pass needs


class TransitionModel(nn.Module):
    """Latent and action to the next latent: layer, ReLU, batch norm, layer, ReLU, rescale.

    The layers are 3x3 convolutions on an image (C, H, W) and linear on a vector (C,). The input of
    the first layer is the latent and one constant plane (or number) per action, 1 for the action
    taken. These planes are not materialized: `action_shifts` computes their contribution.

    rounded  data type of the products; None: that of the latent

    Batch norm uses the mean and variance of each step's batch. It has no running averages because
    the model is used in training only.
    """

    choices: Tensor  # (A, A), the identity
    inside: Tensor  # (pixels, 9), 1 where a weight of a 3x3 kernel is inside the image

    def __init__(
        self,
        latent_shape: Sequence[int],
        n_actions: int,
        rng: np.random.Generator,
        rounded: torch.dtype | None = None,
    ):
        super().__init__()
        self.rounded, self.n_actions = rounded, n_actions
        self.channels = channels = latent_shape[0]
        self.size = tuple(latent_shape[1:])  # (H, W), or () for a vector
        layer: Callable[[int, int], nn.Conv2d | nn.Linear] = partial(linear, rng=rng)
        if self.size:
            layer = partial(conv, kernel=3, rng=rng, padding=1)
        self.first = layer(channels + n_actions, channels)
        self.second = layer(channels, channels)
        norm = nn.BatchNorm2d if self.size else nn.BatchNorm1d
        self.norm = norm(channels, track_running_stats=False)
        self.register_buffer("choices", torch.eye(n_actions), persistent=False)
        inside = torch.ones(0, 9)
        if self.size:
            inside = F.unfold(torch.ones(1, 1, *self.size), 3, padding=1)[0].mT
        self.register_buffer("inside", inside, persistent=False)

    def forward(self, latent: Tensor, actions: Tensor) -> Tensor:
        """The latents after 1 .. K actions.

        latent   (B, *latent_shape)
        actions  (B, K)  a_t .. a_t+K-1; returns (K, B, *latent_shape)
        """
        out: Tensor = _Unroll.apply(  # type: ignore[no-untyped-call]
            latent,
            self.action_shifts(actions),
            self.norm.eps,
            self.rounded or latent.dtype,
            self.first.weight[:, : self.channels].contiguous(),
            self.first.bias,
            self.norm.weight,
            self.norm.bias,
            self.second.weight,
            self.second.bias,
        )
        return out

    def action_shifts(self, actions: Tensor) -> Tensor:
        """The contribution of the action planes to the output of the first layer.

        A plane of ones under a 3x3 kernel gives the sum of the weights inside the image; at the
        border, padding removes some of them.

        actions  (B, K); returns (K, B, C, *size), channels last
        """
        kernels = self.first.weight[:, self.channels :].movedim(0, -1)  # (A, 3, 3, C)
        if self.size:
            kernels = self.inside @ kernels.flatten(1, 2)  # (A, pixels, C)
        # The backward pass of a product is faster than that of an index.
        chosen = self.choices[actions.mT] @ kernels.flatten(1)
        return chosen.view(*chosen.shape[:2], *self.size, -1).movedim(-1, 2)


class SelfPrediction(nn.Module):
    """Transition model and predictor: the parts that SPR adds to the network."""

    def __init__(self, transition: TransitionModel, size: int, rng: np.random.Generator):
        super().__init__()
        self.transition = transition
        self.predictor = linear(size, size, rng)  # P, the width of the head's projection

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
    mask             (B, K)     0 where the episode ended before step k; masked steps count as 0 in
                                the mean over k
    weights      w   (B,)       importance weights of the replay; returns ()
    """
    # eps as in SPR's code; it also bounds the gradient of a small projection.
    predicted = F.normalize(predictions, dim=-1, eps=1e-3)
    expected = F.normalize(targets.detach(), dim=-1, eps=1e-3)
    errors = (predicted - expected).square().sum(-1)  # (K, B)
    return (weights * mask.mT * errors).mean()


# --- Unrolling the transition model, with an explicit gradient ---------------------------------


class _Unroll(torch.autograd.Function):
    """The latents after 1 .. K steps. One step, from a latent x to the next one y:

    | forward                        | saved | backward                                            |
    |--------------------------------|-------|-----------------------------------------------------|
    | a = relu(first(x) + shift)     | x, a  | through first to x; to shift unchanged              |
    | c = batch norm(a)              | c     | `native_batch_norm_backward`, with mean and scale   |
    | r = relu(second(c))            | r     | through second                                      |
    | y = rescale(r)                 | y, w  | `rescaled_gradient`                                 |

    The result equals that of autograd, with fewer operations between the small layers.

    latent   (B, *latent_shape)
    shifts   (K, B, C, ...)  `TransitionModel.action_shifts`
    eps      of the batch norm
    factors  data type of the inputs, weights and outputs of the two layers, forward and backward
    weights  weight and bias of `first` for the latent alone, (C, C, 3, 3) or (C, C) for vectors,
             and (C,); gain and offset of the batch norm, (C,); weight and bias of `second`; returns
             (K, B, *latent_shape)
    """

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
            outs.append(out.movedim(1, -1))  # channels last, as in memory
            latent = out
        ctx.save_for_backward(first, scale, second, *steps)
        return torch.stack(outs).movedim(-1, 2)

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, scale, second, *saved = ctx.saved_tensors
        steps = [saved[at : at + SAVED] for at in range(0, len(saved), SAVED)]
        shifts: list[Tensor] = []
        sums: list[Tensor] = []  # gradients of the weights, summed over the steps
        back = torch.zeros_like(gradients[0])  # gradient from later steps
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
            new = [*of_first, *of_norm, *of_second]
            sums = [total.add_(x) for total, x in zip(sums, new, strict=True)] if sums else new
        return back, torch.stack(shifts[::-1]).movedim(-1, 2), None, None, *sums


def _layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x and weight may be rounded; the output has the data type of the bias."""
    rounded = bias.to(x.dtype)
    if x.dim() == 2:
        return F.linear(x, weight, rounded).to(bias.dtype)
    out = F.conv2d(x, weight, rounded, padding=1)
    return out.to(bias.dtype)


def _layer_gradients(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """The gradients at input, weight and bias of a layer from that at its output."""
    rounded = gradient.to(x.dtype)
    if x.dim() == 2:
        products = (rounded @ weight, rounded.mT @ x)
        to_input, to_weight = (product.to(gradient.dtype) for product in products)
        return to_input, to_weight, gradient.sum(0)
    ones = [1, 1]
    gradients: tuple[Tensor, ...] = aten.convolution_backward(
        rounded, x, weight, [len(weight)], ones, ones, ones, False, [0, 0], 1, [True] * 3
    )
    return tuple(g.to(gradient.dtype) for g in gradients)
