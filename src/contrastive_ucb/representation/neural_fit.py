"""Minimising the contrastive loss over networks: Adam on all steps h at once (line 6).

Every round starts from new random weights, unless a warm start is asked for. Early data is mostly
of dead ends, and a softmax that was saturated on it does not come back: in a pilot warm starts
never opened the rich lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from torch import Tensor

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.negatives import Negatives
from contrastive_ucb.data.observations import Floats, ObservationData, Sampler
from contrastive_ucb.representation.neural import (
    Fitted,
    NeuralClass,
    Weights,
    inputs,
    log_phi_of,
    log_psi,
    paper_loss,
    paper_slopes,
    shared_loss,
    shared_slopes,
)

READ: dict[Sampler, tuple[str, ...]] = {  # the tables of the data that training reads
    "shared": ("observation", "action", "following"),
    "paper": ("observation", "action", "contrast", "label"),
}


@dataclass(frozen=True)
class Recipe:
    """How the networks are trained in a round; the defaults are those of `NeuralConfig`.

    least_steps   of Adam
    epochs        passes over the data that they are at least
    final_rate    of the learning rate, which falls to this part of it on a straight line
    weight_decay  part of the learning rate by which a step shrinks the weights, so that the random
                  ones they start from fade where the data does not hold them
    """

    sampler: Sampler
    least_steps: int
    epochs: float
    batch_size: int
    n_negatives: int
    learning_rate: float
    final_rate: float
    weight_decay: float
    standardise: bool

    def steps(self, n_rows: int) -> int:
        """Of Adam, for so many rows of a step h."""
        return max(self.least_steps, ceil(self.epochs * n_rows / self.batch_size))


def train(
    start: Weights,
    shape: NeuralClass,
    data: ObservationData,
    negatives: Negatives,
    recipe: Recipe,
    random: np.random.Generator,
) -> Fitted:
    """phi~ and psi~ of all steps, from the weights `start`; the gauge is not fixed yet."""
    weights = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    shift, scale = _standard(data) if recipe.standardise else _as_it_is(data)
    rate = torch.tensor(recipe.learning_rate)
    optimiser = torch.optim.AdamW(
        list(weights.values()), lr=rate, weight_decay=recipe.weight_decay, fused=True
    )
    rows, steps = _Rows(data, READ[recipe.sampler]), recipe.steps(int(data.n.max()))
    for step in range(steps):
        rate.fill_(recipe.learning_rate * (1 - (1 - recipe.final_rate) * step / steps))
        chosen = random.random((len(data.n), recipe.batch_size))
        observation, action, seen, *label = rows.take(chosen)
        phi = log_phi_of(shape, weights, inputs(shape, observation, shift, scale), action)
        if recipe.sampler == "shared":
            drawn = negatives.draw(data, recipe.n_negatives, random)
            seen = torch.cat([seen, torch.from_numpy(drawn)], 1)
        psi = log_psi(shape, weights, inputs(shape, seen, shift, scale))
        optimiser.zero_grad()
        torch.autograd.backward([phi, psi], _slopes(phi.detach(), psi.detach(), *label))
        optimiser.step()
    found = {name: tensor.detach() for name, tensor in weights.items()}
    loss = float(_loss(phi.detach(), psi.detach(), *label))
    return Fitted(shape, found, shift, scale, torch.zeros(len(data.n), shape.rank), loss)


def check_finite(fitted: Fitted, round_number: int) -> None:
    """Stop at the first tensor that is no number any more."""
    weights = {
        f"the weights {name!r} of the networks have": w for name, w in fitted.weights.items()
    }
    for found_in, tensor in {**weights, "log_mass, the mass of psi, has": fitted.log_mass}.items():
        if not torch.isfinite(tensor).all():
            raise ArithmeticError(
                f"{found_in} a NaN or infinite entry in round {round_number}; lower the"
                " learning rate"
            )


def check_features(phi: Array, round_number: int) -> None:
    """Stop where phi^ (H, n, d) is no number: finite weights can still have an infinite product."""
    broken = np.flatnonzero(~np.isfinite(phi).all((1, 2)))
    if len(broken):
        raise ArithmeticError(
            f"the features phi have a NaN or infinite entry at step {broken[0]} of round"
            f" {round_number}; lower the learning rate"
        )


class _Rows:
    """Tables of the data as tensors, for draws of so many rows a step."""

    def __init__(self, data: ObservationData, names: tuple[str, ...]):
        self.n, self.room = data.n, data.action.shape[1]
        self.flat = [torch.from_numpy(getattr(data, name)).flatten(0, 1) for name in names]

    def take(self, uniform: Array) -> list[Tensor]:
        """One row for every uniform number (H, b), each (H, b, ...)"""
        at = (uniform * self.n[:, None]).astype(np.int64)
        at += self.room * np.arange(len(self.n))[:, None]
        index = torch.from_numpy(at.ravel())
        return [flat.index_select(0, index).view(*at.shape, *flat.shape[1:]) for flat in self.flat]


def _slopes(phi: Tensor, psi: Tensor, label: Tensor | None = None) -> list[Tensor]:
    """The gradient of the loss in log phi and log psi; without labels, negatives are behind psi."""
    if label is not None:
        return list(paper_slopes(phi, psi, label))
    n = phi.shape[1]
    of_phi, positive, negative = shared_slopes(phi, psi[:, :n], psi[:, n:])
    return [of_phi, torch.cat([positive, negative], 1)]


def _loss(phi: Tensor, psi: Tensor, label: Tensor | None = None) -> Tensor:
    """The loss whose slopes these are, mean over h."""
    if label is not None:
        return paper_loss(phi, psi, label).mean()
    n = phi.shape[1]
    return shared_loss(phi, psi[:, :n], psi[:, n:]).mean()


def _as_it_is(data: ObservationData) -> tuple[Tensor, Tensor]:
    horizon, _, size = data.observation.shape
    return torch.zeros(horizon, 1, size), torch.ones(horizon, 1, size)


def _standard(data: ObservationData) -> tuple[Tensor, Tensor]:
    """Mean and spread of the observations of each step   (H, 1, D) twice"""
    steps = [_moments(data.observation[h, :n], h) for h, n in enumerate(data.n)]
    mean, spread = (torch.from_numpy(np.stack(part)) for part in zip(*steps, strict=True))
    return mean, spread


def _moments(seen: Floats, step: int) -> tuple[Floats, Floats]:
    """Both in float64: in float32 the square of 1e25 is infinite, and every input were 0.

    A coordinate that never changes, up to rounding, keeps its scale.
    """
    mean = seen.mean(0, dtype=np.float64, keepdims=True)
    spread = seen.std(0, dtype=np.float64, keepdims=True)
    reach = np.abs(seen - mean).max(0)  # what is divided by the spread
    with np.errstate(over="ignore"):
        found = [part.astype(np.float32) for part in (mean, spread, reach)]
    if not all(np.isfinite(part).all() for part in found):
        raise ArithmeticError(
            f"observations of step {step} go from {seen.min():.3g} to {seen.max():.3g}, so less"
            " their mean, or over their spread, they are not finite in float32, below 3.4e38; use"
            " standardise='off', or scale them in the environment"
        )
    changes = spread > np.maximum(1e-6, np.finfo(np.float32).eps * np.abs(mean))
    return found[0], np.where(changes, found[1], np.float32(1))
