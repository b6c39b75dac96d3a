"""Minimization of the contrastive loss over networks: AdamW on all steps h together (line 6).

Every round starts from new random weights unless a warm start is requested. Early data comes mostly
from absorbing states, and a softmax that is saturated on it does not recover: in a pilot, warm
starts never solved RichLock.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from torch import Tensor

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.negatives import Negatives
from contrastive_ucb.data.observations import Floats, ObservationData
from contrastive_ucb.data.sampler import Sampler
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

READ: dict[Sampler, tuple[str, ...]] = {  # the arrays of the data that training uses
    "shared": ("observation", "action", "following"),
    "paper": ("observation", "action", "contrast", "label"),
}


@dataclass(frozen=True)
class Recipe:
    """How the networks are trained in a round; the defaults are in `NeuralConfig`.

    least_steps   minimum number of optimizer steps
    epochs        minimum number of passes over the data
    final_rate    fraction of the learning rate to which it decays linearly
    weight_decay  of AdamW; it removes the initial random weights where the data does not
                  determine the function
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
        """Number of optimizer steps for `n_rows` transitions per step h."""
        return max(self.least_steps, ceil(self.epochs * n_rows / self.batch_size))


def train(
    start: Weights,
    shape: NeuralClass,
    data: ObservationData,
    negatives: Negatives,
    recipe: Recipe,
    random: np.random.Generator,
) -> Fitted:
    """Train phi~ and psi~ of all steps from the weights `start`; the gauge is not fixed yet."""
    weights = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    shift, scale = _moments(data) if recipe.standardise else _identity(data)
    rate = torch.tensor(recipe.learning_rate)
    optimizer = torch.optim.AdamW(
        list(weights.values()), lr=rate, weight_decay=recipe.weight_decay, fused=True
    )
    rows, steps = _Rows(data, READ[recipe.sampler]), recipe.steps(int(data.n.max()))
    for step in range(steps):
        rate.fill_(recipe.learning_rate * (1 - (1 - recipe.final_rate) * step / steps))
        chosen = random.random((len(data.n), recipe.batch_size))
        observation, action, following, *label = rows.take(chosen)
        phi = log_phi_of(shape, weights, inputs(shape, observation, shift, scale), action)
        if recipe.sampler == "shared":
            drawn = negatives.draw(data, recipe.n_negatives, random)
            following = torch.cat([following, torch.from_numpy(drawn)], 1)
        psi = log_psi(shape, weights, inputs(shape, following, shift, scale))
        optimizer.zero_grad()
        torch.autograd.backward([phi, psi], _slopes(phi.detach(), psi.detach(), *label))
        optimizer.step()
    trained = {name: tensor.detach() for name, tensor in weights.items()}
    loss = float(_loss(phi.detach(), psi.detach(), *label))
    return Fitted(shape, trained, shift, scale, torch.zeros(len(data.n), shape.rank), loss)


def check_finite(fitted: Fitted, round_number: int) -> None:
    """Raise if the weights or the masses have an entry that is not finite."""
    tensors = {
        f"the weights {name!r} of the networks have": w for name, w in fitted.weights.items()
    }
    for subject, tensor in {**tensors, "log_mass, the mass of psi, has": fitted.log_mass}.items():
        if not torch.isfinite(tensor).all():
            raise ArithmeticError(
                f"{subject} a NaN or infinite entry in round {round_number}; lower the"
                " learning rate"
            )


def check_features(phi: Array, round_number: int) -> None:
    """Raise if phi^ (H, n, d) is not finite; products of finite weights can overflow."""
    broken = np.flatnonzero(~np.isfinite(phi).all((1, 2)))
    if len(broken):
        raise ArithmeticError(
            f"the features phi have a NaN or infinite entry at step {broken[0]} of round"
            f" {round_number}; lower the learning rate"
        )


class _Rows:
    """Arrays of the data as tensors, for minibatches of rows per step."""

    def __init__(self, data: ObservationData, names: tuple[str, ...]):
        self.n, self.room = data.n, data.action.shape[1]
        self.flat = [torch.from_numpy(getattr(data, name)).flatten(0, 1) for name in names]

    def take(self, uniform: Array) -> list[Tensor]:
        """One row per uniform number (H, b), each (H, b, ...)"""
        at = (uniform * self.n[:, None]).astype(np.int64)
        at += self.room * np.arange(len(self.n))[:, None]
        index = torch.from_numpy(at.ravel())
        return [flat.index_select(0, index).view(*at.shape, *flat.shape[1:]) for flat in self.flat]


def _slopes(phi: Tensor, psi: Tensor, label: Tensor | None = None) -> list[Tensor]:
    """The gradient of the loss in log phi and log psi; without labels, psi ends with negatives."""
    if label is not None:
        return list(paper_slopes(phi, psi, label))
    n = phi.shape[1]
    of_phi, positive, negative = shared_slopes(phi, psi[:, :n], psi[:, n:])
    return [of_phi, torch.cat([positive, negative], 1)]


def _loss(phi: Tensor, psi: Tensor, label: Tensor | None = None) -> Tensor:
    """The loss that belongs to `_slopes`, mean over h."""
    if label is not None:
        return paper_loss(phi, psi, label).mean()
    n = phi.shape[1]
    return shared_loss(phi, psi[:, :n], psi[:, n:]).mean()


def _identity(data: ObservationData) -> tuple[Tensor, Tensor]:
    horizon, _, size = data.observation.shape
    return torch.zeros(horizon, 1, size), torch.ones(horizon, 1, size)


def _moments(data: ObservationData) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the observations of each step   (H, 1, D) each"""
    steps = [_moments_of_step(data.observation[h, :n], h) for h, n in enumerate(data.n)]
    mean, deviation = (torch.from_numpy(np.stack(part)) for part in zip(*steps, strict=True))
    return mean, deviation


def _moments_of_step(observations: Floats, step: int) -> tuple[Floats, Floats]:
    """Computed in float64: in float32 the square of 1e25 is infinite and every input would be 0.

    A coordinate that is constant up to rounding keeps its scale.
    """
    mean = observations.mean(0, dtype=np.float64, keepdims=True)
    deviation = observations.std(0, dtype=np.float64, keepdims=True)
    largest = np.abs(observations - mean).max(0)
    with np.errstate(over="ignore"):
        moments = [part.astype(np.float32) for part in (mean, deviation, largest)]
    if not all(np.isfinite(part).all() for part in moments):
        raise ArithmeticError(
            f"observations of step {step} range from {observations.min():.3g} to"
            f" {observations.max():.3g}, so their standardization exceeds 3.4e38, the limit of"
            " float32; use standardise='off' or rescale them in the environment"
        )
    varies = deviation > np.maximum(1e-6, np.finfo(np.float32).eps * np.abs(mean))
    return moments[0], np.where(varies, moments[1], np.float32(1))
