"""CURL (Laskin et al. 2020): which of the batch's observations is this one, cut differently?

| CURL      | here            | shape     |                                                     |
|-----------|-----------------|-----------|-----------------------------------------------------|
| q         | `queries`       | (B, 128)  | online encoder and projection of one random crop    |
| k         | `keys`          | (B, 128)  | key encoder and projection of another, no gradient  |
| W         | `bilinear`      | (128, 128)|                                                     |
| q' W k    | logits          | (B, B)    | the pair on the diagonal is the same observation    |

The key networks follow the online ones: theta_k <- m theta_k + (1 - m) theta_q after every update.
"""

from __future__ import annotations

import copy
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import Encoder, linear
from contrastive_ucb.representation.rescale import flatten

HIDDEN, CODE = 256, 128  # units of the projection


class Projection(nn.Module):
    """Latents to codes: 256, layer norm, ReLU, 128, layer norm."""

    def __init__(self, inputs: int, rng: np.random.Generator):
        super().__init__()
        self.first, self.first_norm = linear(inputs, HIDDEN, rng), nn.LayerNorm(HIDDEN)
        self.second, self.second_norm = linear(HIDDEN, CODE, rng), nn.LayerNorm(CODE)

    def forward(self, latent: Tensor) -> Tensor:
        """latent (B, ...); returns (B, 128)."""
        hidden = self.first_norm(self.first(flatten(latent))).relu()
        out: Tensor = self.second_norm(self.second(hidden))
        return out


class Curl(nn.Module):
    """Everything CURL adds to the agent: projection, bilinear product, and the key networks."""

    def __init__(self, encoder: Encoder, rng: np.random.Generator):
        super().__init__()
        self.projection = Projection(prod(encoder.latent_shape), rng)
        self.bilinear = linear(CODE, CODE, rng, bias=False)
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False)
        self.key_projection = copy.deepcopy(self.projection).requires_grad_(False)

    def forward(self, encoder: Encoder, one: Tensor, other: Tensor) -> Tensor:
        """The loss (), of two crops (B, C, H, W) of each observation of a batch."""
        queries = self.projection(encoder(one))
        with torch.no_grad():
            keys = self.key_projection(self.key_encoder(other))
        return curl_loss(queries, self.bilinear(keys))

    def follow(self, encoder: Encoder, momentum: float) -> None:
        """Move the key networks towards the online ones."""
        follow(self.key_encoder, encoder, momentum)
        follow(self.key_projection, self.projection, momentum)

    def learned(self) -> list[nn.Parameter]:
        """The parameters that have a gradient."""
        return [*self.projection.parameters(), *self.bilinear.parameters()]


def curl_loss(queries: Tensor, keys: Tensor) -> Tensor:
    """InfoNCE: mean over i of -log softmax_j(q_i . k_j) at j = i.

    queries  q    (B, P)
    keys     W k  (B, P); returns ()
    """
    own = torch.arange(len(queries), device=queries.device)
    return F.cross_entropy(queries @ keys.mT, own)


@torch.no_grad()
def follow(behind: nn.Module, ahead: nn.Module, momentum: float) -> None:
    """theta <- m theta + (1 - m) theta' for all parameters of two networks alike."""
    old, new = tuple(behind.parameters()), tuple(ahead.parameters())
    torch._foreach_lerp_(old, new, 1 - momentum)
