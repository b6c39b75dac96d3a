"""The neural function class: phi and psi as networks with positive outputs, for all steps h.

| paper        | here          | shape         |                                               |
|--------------|---------------|---------------|-----------------------------------------------|
| phi~_h(o,a)  | `log_phi`     | (H, n, A, d)  | simplex or softplus head                      |
| psi~_h(o')   | `log_psi`     | (H, n, d)     | exp or softplus head                          |
| f = psi'phi  | `log_ratio`   | (H, n, m)     | as a logarithm, which is the logit            |
| L_h          | `shared_loss` | (H,)          | positives against common negatives            |
| L_h          | `paper_loss`  | (H,)          | one label per tuple, as in the paper          |
| phi^, psi^   | `Fitted`      |               | trained networks in the gauge of erratum E3   |
| argmin of L  | `train`       |               | AdamW on all steps h together                 |

Weights have a leading axis H, so a layer is one batched product for all steps. 1/f is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, nan, pi, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.observations import Floats, Negatives, ObservationData
from contrastive_ucb.data.sampler import Sampler

Weights = dict[str, Tensor]
Observations = Array | Floats
SAFE = 40.0  # the product of two exponentials of at most this exponent is normal in float32
TINY = 1e-30  # lower bound on sums of exponentials before the logarithm


@dataclass(frozen=True)
class NeuralClass:
    """The architecture of the networks.

    size        D, the dimension of the observations
    extra       number of additional inputs of psi, such as the reward
    hidden      number of tanh units beside the linear part; 0: logits are linear in the input
    harmonics   number of cosines and sines per coordinate that replace bounded observations
    low, high   (D,) bounds, for the harmonics
    simplex     softmax head of phi instead of softplus
    exponential exp head of psi instead of softplus
    """

    size: int
    n_actions: int
    rank: int
    extra: int = 0
    hidden: int = 0
    harmonics: int = 0
    simplex: bool = True
    exponential: bool = True
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def n_inputs(self) -> int:
        """F: the coordinates or their harmonics, and a constant 1."""
        return 1 + self.size * (2 * self.harmonics or 1)


@dataclass(frozen=True)
class Fitted:
    """Trained networks of all steps, with the normalization of their inputs and outputs.

    shift, scale  (H, 1, D)  standardization of the inputs
    log_mass      (H, d)     log E[psi~_j] under P^-, which fixes the gauge
    loss                     contrastive loss of the last batch, mean over h; NaN if not known
    """

    shape: NeuralClass
    weights: Weights
    shift: Tensor
    scale: Tensor
    log_mass: Tensor
    loss: float = nan

    @torch.no_grad()
    def gauged(self, nodes: Observations) -> Fitted:
        """Line 7: fix the gauge so that every measure has mass 1 on the nodes (H, m, D)."""
        psi = log_psi(self.shape, self.weights, self._read(nodes))
        return replace(self, log_mass=torch.logsumexp(psi, 1) - float(np.log(nodes.shape[1])))

    @torch.no_grad()
    def features(self, observations: Observations) -> Array:
        """phi^_h(o, a) at every step   (H, n, D) -> (H, n, A, d)"""
        phi = log_phi(self.shape, self.weights, self._read(observations))
        return _float64(normalized(phi, self.log_mass))

    @torch.no_grad()
    def features_of(self, observations: Observations, actions: IntArray) -> Array:
        """phi^_h(z) of the given pairs   (H, n, D), (H, n) -> (H, n, d)"""
        read = self._read(observations)
        phi = log_phi_of(self.shape, self.weights, read, torch.from_numpy(actions))
        return _float64(normalized(phi[:, :, None], self.log_mass)[:, :, 0])

    @torch.no_grad()
    def measures(self, observations: Observations) -> Array:
        """psi^_h,j(o') P^-(o') if each o' represents an equal share of P^-

        (H, m, D) -> (H, d, m); on the nodes of the gauge every measure has mass 1
        """
        psi = log_psi(self.shape, self.weights, self._read(observations))
        return _float64((psi - self.log_mass[:, None]).exp().mT / observations.shape[1])

    def at(self, step: int) -> Fitted:
        """The networks of one step."""
        at = slice(step, step + 1)
        weights = {name: tensor[at] for name, tensor in self.weights.items()}
        return Fitted(self.shape, weights, self.shift[at], self.scale[at], self.log_mass[at])

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "shape"}

    def _read(self, observations: Observations) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(observations, dtype=np.float32))
        return inputs(self.shape, tensor, self.shift, self.scale)


def initial_weights(shape: NeuralClass, horizon: int, random: np.random.Generator) -> Weights:
    """Small random weights; latents with equal weights would remain equal."""
    n_inputs = shape.n_inputs
    sizes = {
        "phi": (n_inputs, shape.n_actions * shape.rank),
        "psi": (n_inputs + shape.extra, shape.rank),
    }
    weights: Weights = {}
    for head, (width, count) in sizes.items():
        weights[head] = _normal(random, (horizon, width, count), width)
        if shape.hidden:
            inner = (horizon, width, shape.hidden)
            weights[f"{head}_in"] = _normal(random, inner, 1)
            weights[f"{head}_out"] = _normal(random, (horizon, shape.hidden, count), shape.hidden)
    return weights


def inputs(shape: NeuralClass, observations: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """The inputs (H, n, F) of the networks for observations (H, n, D) and extra inputs.

    shift, scale  (H, 1, D)  standardization; 0 and 1 for none
    """
    observations, extra = observations[..., : shape.size], observations[..., shape.size :]
    if shape.harmonics:
        low, high = observations.new_tensor(shape.low), observations.new_tensor(shape.high)
        turns = 2 * pi * (observations - low) / (high - low)
        angles = turns.unsqueeze(-1) * torch.arange(1.0, shape.harmonics + 1)
        read = torch.cat([angles.cos(), angles.sin()], -1).flatten(-2)
    else:
        read = (observations - shift) / scale
    return torch.cat([read, extra, torch.ones_like(read[..., :1])], -1)


def log_phi(shape: NeuralClass, weights: Weights, read: Tensor) -> Tensor:
    """log phi~_h(o, a) for all actions   read (H, n, F) -> (H, n, A, d)"""
    logits = _phi_logits(shape, weights, read)
    return logits.log_softmax(-1) if shape.simplex else _log_softplus(logits)


def log_phi_of(shape: NeuralClass, weights: Weights, read: Tensor, actions: Tensor) -> Tensor:
    """log phi~_h of one action per row.   read (H, n, F), actions (H, n) -> (H, n, d)"""
    logits = _phi_logits(shape, weights, read)
    chosen = logits.gather(2, actions[..., None, None].expand(-1, -1, 1, shape.rank)).squeeze(2)
    return chosen.log_softmax(-1) if shape.simplex else _log_softplus(chosen)


def log_psi(shape: NeuralClass, weights: Weights, read: Tensor) -> Tensor:
    """log psi~_h(o')   read (H, n, F) -> (H, n, d)"""
    logits = _logits(shape, weights, "psi", read)
    return logits if shape.exponential else _log_softplus(logits)


def log_ratio(phi: Tensor, psi: Tensor) -> Tensor:
    """log f of every pair of rows: logsumexp_j(log phi_j + log psi_j).

    phi (H, n, d), psi (H, m, d), both logarithms; returns (H, n, m). With the maximum of each row
    subtracted, the sum of exponentials is a batched product.
    """
    top, peak = phi.detach().amax(-1, keepdim=True), psi.detach().amax(-1, keepdim=True)
    total = torch.bmm((phi - top).exp(), (psi - peak).exp().mT)
    return total.clamp_min(TINY).log() + top + peak.mT


def shared_loss(phi: Tensor, psi: Tensor, psi_negative: Tensor) -> Tensor:
    """Every positive against the same draws of P^-: cross-entropy with the logit log f.

    phi, psi      (H, n, d)  logarithms at the positives (z, s')
    psi_negative  (H, m, d)  logarithms at the draws; returns (H,), the mean over positives plus
                             the mean over all pairs of a z and a draw
    """
    positive = torch.logsumexp(phi + psi, -1)
    negative = log_ratio(phi, psi_negative)
    return softplus(-positive).mean(-1) + softplus(negative).mean((-2, -1))


def paper_loss(phi: Tensor, psi: Tensor, labels: Tensor) -> Tensor:
    """y log(1 + 1/f) + (1 - y) log(1 + f), mean over tuples (eq. contra-loss).

    phi, psi  (H, n, d)  logarithms at (z, s'), where s' is drawn from P^- if the label is 0
    labels    (H, n)     y; returns (H,)
    """
    logit = torch.logsumexp(phi + psi, -1)
    return (softplus(logit) - labels * logit).mean(-1)


def shared_slopes(phi: Tensor, psi: Tensor, psi_negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the sum of `shared_loss` in its three arguments, in closed form.

    With e the exponentials after subtraction of the maxima, a pair contributes
    e_phi e_psi / (1 + f) = e_phi e_psi / (exp(-top - peak) + sum_j e_phi e_psi): two products and
    one division for all pairs, where autograd needs six passes.
    """
    n, m = phi.shape[1], psi_negative.shape[1]
    both = _responsibilities(phi, psi, torch.ones_like(phi[..., 0])) / n
    top, peak = phi.amax(-1, keepdim=True), psi_negative.amax(-1, keepdim=True)
    rows, columns = (phi - top).exp(), (psi_negative - peak).exp()
    odds = torch.bmm(rows, columns.mT).add_(_inverse(top, peak.mT))
    share = odds.clamp_min_(TINY).reciprocal_().div_(n * m)
    negative = rows * torch.bmm(share, columns)
    return negative + both, both, columns * torch.bmm(share.mT, rows)


def paper_slopes(phi: Tensor, psi: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the sum of `paper_loss` in its first two arguments, which are equal."""
    both = _responsibilities(phi, psi, labels) / phi.shape[1]
    return both, both


def normalized(phi: Tensor, log_mass: Tensor) -> Tensor:
    """phi^ in the gauge of erratum E3, in the simplex.

    phi       (H, n, A, d)  logarithms
    log_mass  (H, d)        log E[psi~_j] under P^-; divided by it, every psi^_j has mass 1
    """
    return (phi + log_mass[:, None, None]).softmax(-1)


def _phi_logits(shape: NeuralClass, weights: Weights, read: Tensor) -> Tensor:
    logits = _logits(shape, weights, "phi", read)
    return logits.view(*logits.shape[:2], shape.n_actions, shape.rank)


def _responsibilities(phi: Tensor, psi: Tensor, labels: Tensor) -> Tensor:
    """(sigmoid(log f) - y) phi_j psi_j / f, the gradient of the cross-entropy   (H, n, d)"""
    logit = torch.logsumexp(phi + psi, -1, keepdim=True)
    return (phi + psi - logit).exp() * (logit.sigmoid() - labels[..., None])


def _inverse(top: Tensor, peak: Tensor) -> Tensor:
    """exp(-top - peak) for every pair   (H, n, 1), (H, 1, m) -> (H, n, m)

    The product of two exponentials makes a fit 10% faster, but it is inf * 0 if phi is tiny and
    psi is huge.
    """
    if bool(top.abs().max() < SAFE) and bool(peak.abs().max() < SAFE):
        return (-top).exp() * (-peak).exp()
    return (-top - peak).exp_()


def _logits(shape: NeuralClass, weights: Weights, head: str, read: Tensor) -> Tensor:
    logits = torch.bmm(read, weights[head])
    if shape.hidden:
        inner = torch.bmm(read, weights[f"{head}_in"]).tanh()
        logits = logits + torch.bmm(inner, weights[f"{head}_out"])
    return logits


def _log_softplus(logits: Tensor) -> Tensor:
    """log(log(1 + e^x)); for very negative x, where log(1 + e^x) underflows, it is close to x."""
    return torch.where(logits < -15, logsigmoid(logits), softplus(logits).clamp_min(TINY).log())


def _normal(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    drawn = random.standard_normal(shape, dtype=np.float32) / np.float32(sqrt(fan_in))
    return torch.from_numpy(np.asarray(drawn, dtype=np.float32))


def _float64(tensor: Tensor) -> Array:
    return tensor.double().numpy()


# Training: AdamW on all steps h together (line 6)
#
# Every round starts from new random weights unless a warm start is requested. Early data comes
# mostly from absorbing states, and a softmax that is saturated on it does not recover: in a pilot,
# warm starts never solved RichLock.

READ: dict[Sampler, tuple[str, ...]] = {  # the arrays of the data that training uses
    "shared": ("observation", "action", "following"),
    "paper": ("observation", "action", "contrast", "label"),
}


@dataclass(frozen=True)
class Recipe:
    """How the networks are trained in a round; names and defaults as in `NeuralConfig`.

    fit_steps     minimum number of optimizer steps
    epochs        minimum number of passes over the data
    final_rate    fraction of the learning rate to which it decays linearly
    weight_decay  of AdamW; it removes the initial random weights where the data does not
                  determine the function
    """

    sampler: Sampler
    fit_steps: int
    epochs: float
    batch_size: int
    n_negatives: int
    learning_rate: float
    final_rate: float
    weight_decay: float
    standardise: str


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
    shift, scale = _moments(data, recipe.standardise == "on")
    rate = torch.tensor(recipe.learning_rate)
    optimizer = torch.optim.AdamW(
        list(weights.values()), lr=rate, weight_decay=recipe.weight_decay, fused=True
    )
    horizon, room = data.action.shape
    count, is_shared = recipe.batch_size, recipe.sampler == "shared"
    loss, slopes = (shared_loss, shared_slopes) if is_shared else (paper_loss, paper_slopes)
    tables = [torch.from_numpy(getattr(data, name)).flatten(0, 1) for name in READ[recipe.sampler]]
    steps = max(recipe.fit_steps, ceil(recipe.epochs * int(data.n.max()) / count))
    for step in range(steps):
        rate.fill_(recipe.learning_rate * (1 - (1 - recipe.final_rate) * step / steps))
        rows = (random.random((horizon, count)) * data.n[:, None]).astype(np.int64)
        index = torch.from_numpy((rows + room * np.arange(horizon)[:, None]).ravel())
        observation, action, following, *label = (
            table.index_select(0, index).view(horizon, count, *table.shape[1:]) for table in tables
        )
        phi = log_phi_of(shape, weights, inputs(shape, observation, shift, scale), action)
        if is_shared:
            drawn = negatives.draw(data, recipe.n_negatives, random)
            following = torch.cat([following, torch.from_numpy(drawn)], 1)
        psi = log_psi(shape, weights, inputs(shape, following, shift, scale))
        optimizer.zero_grad()
        parts = [phi.detach(), psi[:, :count].detach(), *(label or [psi[:, count:].detach()])]
        of_phi, *of_psi = slopes(*parts)
        torch.autograd.backward([phi, psi], [of_phi, torch.cat(of_psi, 1)])
        optimizer.step()
    trained = {name: tensor.detach() for name, tensor in weights.items()}
    log_mass = torch.zeros(horizon, shape.rank)
    return Fitted(shape, trained, shift, scale, log_mass, float(loss(*parts).mean()))


def _moments(data: ObservationData, standardizes: bool) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the observations of each step, or 0 and 1   (H, 1, D) each"""
    if not standardizes:
        horizon, _, size = data.observation.shape
        return torch.zeros(horizon, 1, size), torch.ones(horizon, 1, size)
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
