"""CURL (Laskin et al. 2020): contrastive loss between two random crops of an observation.

| CURL      | here            | shape     |                                                     |
|-----------|-----------------|-----------|-----------------------------------------------------|
| q         | `queries`       | (B, 128)  | online encoder and projection of one random crop    |
| k         | `keys`          | (B, 128)  | key encoder and projection of another, no gradient  |
| W         | `bilinear`      | (128, 128)|                                                     |
| .1 q' W k | logits          | (B, B)    | diagonal entries are crops of the same observation  |

As in the released code, the logits have the factor .1, layer norms have no learned gain and shift,
and the weights of the projection and W start uniform on [0, 1), biases at 0. The key networks are
moving averages of the online ones: theta_k <- m theta_k + (1 - m) theta_q.
"""

from __future__ import annotations

import copy
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import Encoder, flatten

HIDDEN, CODE = 256, 128  # units of the projection
INVERSE_TEMPERATURE = 0.1  # of the softmax


class Projection(nn.Module):
    """Latents to codes: 256, layer norm, ReLU, 128, layer norm."""

    def __init__(self, inputs: int, rng: np.random.Generator):
        super().__init__()
        self.first = positive_linear(inputs, HIDDEN, rng)
        self.second = positive_linear(HIDDEN, CODE, rng)

    def forward(self, latent: Tensor) -> Tensor:
        """latent (B, ...); returns (B, 128)."""
        hidden = F.layer_norm(self.first(flatten(latent)), (HIDDEN,)).relu()
        return F.layer_norm(self.second(hidden), (CODE,))


class Curl(nn.Module):
    """The parts that CURL adds to the network: projection, bilinear product and key networks."""

    def __init__(self, encoder: Encoder, rng: np.random.Generator):
        super().__init__()
        self.projection = Projection(prod(encoder.latent_shape), rng)
        self.bilinear = positive_linear(CODE, CODE, rng, bias=False)
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False)
        self.key_projection = copy.deepcopy(self.projection).requires_grad_(False)

    def forward(self, encoder: Encoder, first: Tensor, second: Tensor) -> Tensor:
        """The loss () of two crops (B, C, H, W) of each observation of a batch."""
        queries = self.projection(encoder(first))
        with torch.no_grad():
            keys = self.key_projection(self.key_encoder(second))
        return curl_loss(queries, self.bilinear(keys))

    def update_keys(self, encoder: Encoder, momentum: float) -> None:
        """Update the moving averages after an optimizer step."""
        momentum_update(self.key_encoder, encoder, momentum)
        momentum_update(self.key_projection, self.projection, momentum)

    def trainable(self) -> list[nn.Parameter]:
        """The parameters with a gradient."""
        return [*self.projection.parameters(), *self.bilinear.parameters()]


def positive_linear(
    inputs: int, outputs: int, rng: np.random.Generator, bias: bool = True
) -> nn.Linear:
    """A linear layer with weights uniform on [0, 1) and zero biases, as in the released code."""
    layer = nn.Linear(inputs, outputs, bias, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(rng.random((outputs, inputs), dtype=np.float32)))
        if bias:
            layer.bias.zero_()
    return layer


def curl_loss(queries: Tensor, keys: Tensor) -> Tensor:
    """InfoNCE: mean over i of -log softmax_j(.1 q_i . k_j) at j = i.

    queries  q    (B, P)
    keys     W k  (B, P); returns ()
    """
    labels = torch.arange(len(queries), device=queries.device)
    return F.cross_entropy(INVERSE_TEMPERATURE * queries @ keys.mT, labels)


@torch.no_grad()
def momentum_update(average: nn.Module, online: nn.Module, momentum: float) -> None:
    """theta <- m theta + (1 - m) theta' for all parameters of two networks of the same shape."""
    old, new = tuple(average.parameters()), tuple(online.parameters())
    torch._foreach_lerp_(old, new, 1 - momentum)
