"""The network of the deep agents: encoder, value head, and the parts of SPR and CURL."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np
import torch
from torch import Tensor, nn

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.planning.categorical import atoms, expected_value
from contrastive_ucb.representation.curl import Curl
from contrastive_ucb.representation.encoders import Encoder
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.layers import dtype_of
from contrastive_ucb.representation.spr import SelfPrediction, TransitionModel


class Network(nn.Module):
    """Observations (B, *shape) to latents to logits (B, A, N); with N = 1 scalar values.

    shape    of one observation; the frames of the stack are channels
    support  smallest and largest atom
    """

    support: Tensor  # z, (N,)

    def __init__(
        self,
        shape: Sequence[int],
        n_actions: int,
        config: RainbowConfig,
        support: tuple[float, float],
        rng: np.random.Generator,
    ):
        super().__init__()
        self.is_distribution = config.distributional
        rounded = dtype_of(config.precision)
        self.encoder = Encoder(
            shape,
            rng,
            config.encoder,
            rescaled=config.has_spr,
            hidden=config.mlp,
            rounded=rounded,
            initializer=config.initializer,
        )
        latent = self.encoder.latent_shape
        self.head = DuelingHead(
            prod(latent),
            n_actions,
            config.atoms if config.distributional else 1,
            rng,
            hidden=config.hidden,
            streams=config.streams,
            dueling=config.dueling,
            sigma0=config.noisy,
            # The gradients of both streams are averaged at the latent, except in CURL's code.
            gradient_scale=1.0 if config.has_curl else config.streams**-0.5,
            rounded=rounded,
            bias_sigma=config.bias_sigma,
            initializer=config.initializer,
        )
        self.prediction: SelfPrediction | None = None
        if config.has_spr:
            transition = TransitionModel(latent, n_actions, rng, rounded=rounded)
            self.prediction = SelfPrediction(transition, config.streams * config.hidden, rng)
        self.curl = Curl(self.encoder, rng) if config.has_curl else None
        z = atoms(*support, config.atoms) if config.distributional else torch.ones(1)
        self.register_buffer("support", z)

    def probs(self, logits: Tensor) -> Tensor:
        """Probabilities (..., N) of logits; scalar values (N = 1) are returned unchanged."""
        return logits.softmax(-1) if self.is_distribution else logits

    def q(self, probs: Tensor) -> Tensor:
        """Q (B, A) of `probs` (B, A, N); a scalar value is the mass of one atom at 1."""
        return expected_value(probs, self.support)

    def q_values(self, latent: Tensor, noisy: bool = True) -> Tensor:
        """Q (B, A) of latents (B, ...)."""
        return self.q(self.probs(self.head(latent, noisy)))

    def groups(self, limit: float) -> list[tuple[list[nn.Parameter], float]]:
        """All parameters in groups, each with its gradient clipping norm; limit 0: no clipping.

        As in SPR's code: encoder and head, the transition model, and the predictor, which is not
        clipped. The parameters of CURL belong to the first group, as in its code.
        """
        limit = limit or inf
        curl = self.curl.trainable() if self.curl is not None else []
        groups = [([*self.encoder.parameters(), *self.head.parameters(), *curl], limit)]
        if self.prediction is not None:
            groups.append((list(self.prediction.transition.parameters()), limit))
            groups.append((list(self.prediction.predictor.parameters()), inf))
        return groups
