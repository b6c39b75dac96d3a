"""Stochastic bits: what a world model says about the part of the future that nobody can foresee.

| symbol       | here             | shape      |                                                  |
|--------------|------------------|------------|--------------------------------------------------|
| z            | `bits`           | (B, n)     | 0 or 1, drawn                                    |
| q(z)         | `logits`         | (B, n)     | posterior: the bits are independent              |
| p(z)         | `BitPrior`       | (B, 2**8)  | prior of 8 bits together, given those before     |
| h            | `context`        | (B, width) | what is known before the future is seen          |

Bits are drawn from the posterior, and their gradient is the one of its probabilities (straight
through). The prior is an LSTM that foresees 8 bits at a time, as in Kaiser et al. 2020; here prior
and posterior meet in the KL divergence of a variational autoencoder, where the publication adds
noise to rounded activations and trains the LSTM beside them.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import fill, linear
from contrastive_ucb.representation.heads import scale_gradient

GROUP = 8  # bits that the prior foresees at once


def draw_bits(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Independent bits, 1 with probability sigmoid(logits), with the gradient of that probability.

    logits    (B, n)
    uniforms  (B, n)  in [0, 1); returns (B, n)
    """
    probs = logits.sigmoid()
    slope = probs - probs.detach()  # 0, but not its gradient
    return (uniforms < probs).to(probs.dtype) + (slope - slope.mean(0))


def log_codes(logits: Tensor) -> Tensor:
    """Log-probabilities of all values that independent bits have together.

    logits   (B, n)
    returns  (B, 2**n)  value v has bit i where `v >> (n - 1 - i) & 1`
    """
    both = torch.stack([F.logsigmoid(-logits), F.logsigmoid(logits)], dim=-1)  # (B, n, 2)
    codes = both[:, 0]
    for bit in range(1, both.shape[1]):
        codes = (codes[:, :, None] + both[:, bit, None, :]).flatten(1)
    return codes


def kl_codes(logits: Tensor, log_prior: Tensor) -> Tensor:
    """KL(q || p) (B,) of independent bits q from their joint prior p.

    logits     (B, n)
    log_prior  (B, 2**n)  in the order of `log_codes`
    """
    log_q = log_codes(logits)
    return (log_q.exp() * (log_q - log_prior)).sum(-1)


def bits_of(codes: Tensor, n_bits: int) -> Tensor:
    """The bits (B, n) of values (B,), the first one the heaviest."""
    weights = torch.arange(n_bits - 1, -1, -1, device=codes.device)
    return ((codes[:, None] >> weights) & 1).float()


def draw_codes(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """One value (B,) for each row of probabilities (B, K), at the point `uniforms` (B,) of them."""
    points = log_probs.exp().cumsum(-1)
    # Rounding may leave the last sum a little below 1.
    return (uniforms[:, None] * points[:, -1:] >= points).sum(-1).clamp(max=points.shape[1] - 1)


class BitPrior(nn.Module):
    """p(z | context): an LSTM over groups of 8 bits, each as one of 256 values.

    n_bits   at least 1; the last group may be smaller
    context  width of what it is told at the beginning
    state    width of the LSTM
    """

    def __init__(self, n_bits: int, context: int, state: int, rng: np.random.Generator):
        super().__init__()
        sizes = [min(GROUP, n_bits - at) for at in range(0, n_bits, GROUP)]
        self.sizes = sizes
        self.begin = linear(context, state, rng)
        self.cell: nn.LSTMCell | None = None
        if len(sizes) > 1:  # with one group there is nothing to remember
            cell = nn.LSTMCell(GROUP, state, device="meta").to_empty(device="cpu")
            self.cell = fill(cell, state, rng)
        self.heads = nn.ModuleList(linear(state, 2**size, rng) for size in sizes)

    @property
    def n_groups(self) -> int:
        return len(self.sizes)

    def kl(self, context: Tensor, logits: Tensor, bits: Tensor, pull: float = 1.0) -> Tensor:
        """KL(q || p) (B,), the bits of earlier groups as they were drawn.

        context  (B, width)
        logits   (B, n)  of the posterior
        bits     (B, n)  drawn from it
        pull     how much of the gradient the posterior gets; the prior gets all of it. Held to the
                 prior from the beginning, a posterior would never say anything
        """
        logits = scale_gradient(logits, pull)
        state = self._first(context)
        total = logits.new_zeros(len(logits))
        parts = torch.split(logits, self.sizes, 1), torch.split(bits, self.sizes, 1)
        for group, (mine, drawn) in enumerate(zip(*parts, strict=True)):
            log_prior = self.heads[group](state[0]).log_softmax(-1)
            total = total + kl_codes(mine, log_prior)
            state = self._next(state, drawn.detach(), group)
        return total

    def sample(self, context: Tensor, uniforms: Tensor) -> Tensor:
        """Bits (B, n) drawn from the prior.

        context   (B, width)
        uniforms  (B, groups)  in [0, 1)
        """
        state = self._first(context)
        found = []
        for group, size in enumerate(self.sizes):
            log_prior = self.heads[group](state[0]).log_softmax(-1)
            bits = bits_of(draw_codes(log_prior, uniforms[:, group]), size)
            found.append(bits)
            state = self._next(state, bits, group)
        return torch.cat(found, dim=1)

    def _first(self, context: Tensor) -> tuple[Tensor, Tensor]:
        start: Tensor = self.begin(context).tanh()
        return start, torch.zeros_like(start)

    def _next(
        self, state: tuple[Tensor, Tensor], bits: Tensor, group: int
    ) -> tuple[Tensor, Tensor]:
        if self.cell is None or group + 1 == len(self.sizes):
            return state
        hidden, memory = self.cell(F.pad(bits, (0, GROUP - bits.shape[1])), state)
        return hidden, memory
