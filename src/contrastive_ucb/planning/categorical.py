"""Targets and losses of deep Q-learning, for return distributions (C51) and for scalar values.

| symbol     | here         | shape     |                                                      |
|------------|--------------|-----------|------------------------------------------------------|
| z          | `support`    | (N,)      | evenly spaced atoms                                  |
| p          | `probs`      | (..., N)  | mass on each atom                                    |
| G          | `returns`    | (B,)      | discounted sum of n rewards, up to a terminal state  |
| gamma^n    | `discounts`  | (B,)      | 0 if the episode terminated within the n steps       |
| Tz         | `target`     | (B, N)    | G + gamma^n z                                        |

C51 is Bellemare et al. 2017, Algorithm 1. Scalar values have the same shapes with N = 1:
`td_target` shifts the next value (B, 1) instead of the atoms, nothing is projected, and `huber` and
`td_priority` replace `cross_entropy` and `kl_priority`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def atoms(low: float, high: float, n_atoms: int) -> Tensor:
    """The support z (N,): `n_atoms` points from `low` to `high`."""
    if n_atoms < 2 or not low < high:
        raise ValueError(
            f"a support needs at least 2 atoms and low < high, got {n_atoms} on [{low}, {high}]; "
            "for scalar values pass n_atoms=1 to the head"
        )
    return torch.linspace(low, high, n_atoms)


def project_categorical(support: Tensor, target: Tensor, probs: Tensor) -> Tensor:
    """Move the mass `probs` from the points `target` onto the fixed grid `support` (C51).

    support z   (N,)      evenly spaced atoms
    target  Tz  (..., N)  return + discount**n * z
    probs   p   (..., N)  mass on each target point; returns m (..., N) with the same total
    """
    last = len(support) - 1
    # Scaling to [0, 1] first keeps rounding from passing the last atom, so no share is negative.
    index = ((target - support[0]) / (support[-1] - support[0])).clamp(0, 1) * last
    left = index.floor().clamp(max=last - 1).long()  # left + 1 is always an atom
    share = index - left  # fraction of the mass that moves to the right atom
    out = torch.zeros_like(probs)
    out.scatter_add_(-1, left, probs * (1 - share))
    out.scatter_add_(-1, left + 1, probs * share)
    return out


def expected_value(probs: Tensor, support: Tensor) -> Tensor:
    """Q = <z, p>.

    probs    (..., N)
    support  (N,); returns (...)
    """
    return probs @ support


def take_actions(values: Tensor, actions: Tensor) -> Tensor:
    """Select the entry of one action per sample.

    values   (B, A, N)  logits, probabilities or (N = 1) values
    actions  (B,); returns (B, N)
    """
    index = actions.view(-1, 1, 1).expand(-1, 1, values.shape[-1])
    return values.gather(1, index).squeeze(1)


def td_target(
    returns: Tensor, discounts: Tensor, points: Tensor, bonus: Tensor | float = 0.0
) -> Tensor:
    """The n-step target G + b + gamma^n z of every atom or of the next value.

    returns    (B,)
    discounts  (B,)            gamma^n, 0 if the episode terminated
    points     (N,) or (B, N)  the support, or the next values with N = 1; returns (B, N)
    bonus b    (B,)            discounted sum of the n bonuses, added to the return
    """
    return (returns + bonus).unsqueeze(-1) + discounts.unsqueeze(-1) * points


def cross_entropy(target: Tensor, log_probs: Tensor) -> Tensor:
    """-sum_i m_i log p_i, the C51 loss per sample.

    target m, log_probs log p  (..., N); returns (...)
    """
    return -(target * log_probs).sum(-1)


def kl_priority(target: Tensor, log_probs: Tensor, floor: float = 0.0) -> Tensor:
    """KL(m || p), the cross entropy minus the entropy of the target.

    target m, log_probs log p  (..., N); returns (...) at least 0
    floor  lower bound on m in the divergence; the SPR code uses 1e-6, which adds up to
           N * 1e-6 * log(1e-6 / p) if p is tiny
    """
    mass = target.clamp(min=floor)
    return (torch.xlogy(mass, mass) - mass * log_probs).sum(-1).clamp(min=0)


def huber(target: Tensor, value: Tensor, delta: float = 1.0) -> Tensor:
    """Huber loss of x = value - target: x^2 / 2 for |x| <= delta, linear beyond.

    target, value  (..., 1); returns (...)
    """
    return F.huber_loss(value, target, reduction="none", delta=delta).sum(-1)


def td_priority(target: Tensor, value: Tensor) -> Tensor:
    """|value - target|.

    target, value  (..., 1); returns (...)
    """
    return (value - target).abs().sum(-1)
