"""Networks that predict actions and next features, for E3B, ICM and Disagreement."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.bonus.spaces import Arrays, Leaf, ObservationEncoder
from contrastive_ucb.representation.encoders import linear


class InverseDynamics(nn.Module):
    """Features phi(s) from which the action between two observations is predicted.

    Pathak et al. (2017), section 2.2. They contain what the agent can influence.

    n_actions  number of actions, or None for continuous ones
    action_dim entries of a continuous action
    unit       whether features have unit length
    """

    def __init__(
        self,
        leaves: Sequence[Leaf],
        n_actions: int | None,
        action_dim: int,
        dim: int,
        hidden: Sequence[int],
        rng: np.random.Generator,
        encoder: nn.Module | None = None,
        unit: bool = True,
    ):
        super().__init__()
        self.n_actions, self.unit = n_actions, unit
        self.encoder = ObservationEncoder(leaves, hidden, rng, deepcopy(encoder))
        self.head = linear(self.encoder.dim, dim, rng)
        self.between = linear(2 * dim, 256, rng)
        self.action = linear(256, n_actions or action_dim, rng)

    def forward(self, observations: Arrays) -> Tensor:
        """phi, (n, *shape) -> (n, d)"""
        rows: Tensor = self.head(self.encoder(observations))
        return F.normalize(rows, dim=-1) if self.unit else rows

    def loss(self, phi: Tensor, next_phi: Tensor, actions: Tensor) -> Tensor:
        """Cross-entropy of Discrete actions, squared error of continuous ones; returns ()."""
        predicted = self.action(self.between(torch.cat([phi, next_phi], 1)).relu())
        if self.n_actions is None:
            return F.mse_loss(predicted, actions.reshape(predicted.shape))
        return F.cross_entropy(predicted, actions)


class ForwardModels(nn.Module):
    """K networks of the same size that predict the next feature, evaluated together.

    outputs  number of entries of the next feature
    gain     factor of the initial weights; sqrt(6) gives those of He et al. (2015)
    """

    def __init__(
        self,
        n_models: int,
        inputs: int,
        outputs: int,
        n_actions: int | None,
        action_dim: int,
        hidden: int,
        rng: np.random.Generator,
        gain: float = 1.0,
    ):
        super().__init__()
        self.n_actions = n_actions
        sizes = (inputs + (n_actions or action_dim), hidden, outputs)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, width in pairwise(sizes):
            layers = [linear(fan_in, width, rng) for _ in range(n_models)]
            self.weights.append(torch.stack([gain * x.weight.detach().T for x in layers]))
            self.biases.append(torch.stack([x.bias.detach()[None] for x in layers]))

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        """Predict with every model, from the same rows (n, k) or from its own ones (K, n, k).

        actions (n, ...) or (K, n, ...); returns (K, n, outputs)
        """
        if self.n_actions is not None:
            actions = F.one_hot(actions, self.n_actions).float()
        rows = torch.cat([features, actions.flatten(features.ndim - 1)], -1)
        rows = rows.expand(len(self.weights[0]), *rows.shape[-2:])
        rows = torch.baddbmm(self.biases[0], rows, self.weights[0]).relu()
        return torch.baddbmm(self.biases[1], rows, self.weights[1])
