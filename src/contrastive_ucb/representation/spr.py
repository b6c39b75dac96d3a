"""Self-predictive representations (SPR, Schwarzer et al. 2021): foresee one's own latents.

| SPR      | here                | shape         |                                            |
|----------|---------------------|---------------|--------------------------------------------|
| z_t      | `latent`            | (B, C, H, W)  | or (B, C) of a vector encoder              |
| z^_t+k   | `TransitionModel`   | (K, B, ...)   | z_t moved on by the actions a_t .. a_t+k-1 |
| g        | `head.projection`   | (..., P)      | first layer of the head, noise off         |
| q        | `predictor`         | (..., P)      | linear, on the predicting side only        |
| y^, y~   | `predictions`, `targets` | (K, B, P) | q(g(z^_t+k)) and g(z_t+k)                  |

The term k = 0 has weight 0 in SPR and is not computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import conv, linear
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.unroll import Weights, unroll


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
