"""The neural function class: phi and psi as networks with positive outputs, for all steps h.

| paper        | here          | shape         |                                               |
|--------------|---------------|---------------|-----------------------------------------------|
| phi~_h(o,a)  | `log_phi`     | (H, A, d, n)  | simplex or softplus head                      |
| psi~_h(o')   | `log_psi`     | (H, d, n)     | exp or softplus head                          |
| f = psi'phi  | `log_ratio`   | (H, n, m)     | as a logarithm, which is the logit            |
| L_h          | `shared_loss` | (H,)          | positives against common negatives            |
| L_h          | `paper_loss`  | (H,)          | one label per tuple, as in the paper          |
| gradient     | `loss_slopes` |               | in closed form, in all weights                |
| phi^, psi^   | `Fitted`      |               | trained networks in the gauge of erratum E3   |
| argmin of L  | `train`       |               | AdamW on all steps h together                 |

Weights have a leading axis H: each layer is one batched product for all steps. Rows of the data are
the last axis inside the networks: sums over inputs and latents then add whole vectors. 1/f is never
formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, nan, pi, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad, softplus

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.observations import Floats, Negatives, ObservationData
from contrastive_ucb.data.sampler import Sampler

Weights = dict[str, Tensor]
Observations = Array | Floats
SAFE = 34.0  # the product of two exponentials of at least -SAFE is above TINY, hence normal
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
    loss                     contrastive loss on the last batch, mean over h; NaN if not known
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
        return replace(self, log_mass=torch.logsumexp(psi, -1) - float(np.log(nodes.shape[1])))

    @torch.no_grad()
    def features(self, observations: Observations) -> Array:
        """phi^_h(o, a) at every step   (H, n, D) -> (H, n, A, d)"""
        phi = log_phi(self.shape, self.weights, self._read(observations))
        return _float64(normalized(phi, self.log_mass[:, None, :, None]).permute(0, 3, 1, 2))

    @torch.no_grad()
    def features_of(self, observations: Observations, actions: IntArray) -> Array:
        """phi^_h(z) of the given pairs   (H, n, D), (H, n) -> (H, n, d)"""
        read = self._read(observations)
        phi = log_phi_of(self.shape, self.weights, read, torch.from_numpy(actions))
        return _float64(normalized(phi, self.log_mass[..., None]).mT)

    @torch.no_grad()
    def measures(self, observations: Observations) -> Array:
        """psi^_h,j(o') P^-(o') if each o' represents an equal share of P^-

        (H, m, D) -> (H, d, m); on the nodes of the gauge every measure has mass 1
        """
        psi = log_psi(self.shape, self.weights, self._read(observations))
        return _float64((psi - self.log_mass[..., None]).exp() / observations.shape[1])

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
    """The inputs (H, F, n) of the networks for observations (H, n, D) and extra inputs.

    shift, scale  (H, 1, D)  standardization; 0 and 1 for none
    """
    observations, extra = observations[..., : shape.size], observations[..., shape.size :]
    if shape.harmonics:
        low, high = observations.new_tensor(shape.low), observations.new_tensor(shape.high)
        turns = 2 * pi * (observations - low) / (high - low)
        angles = turns.unsqueeze(-1) * torch.arange(1.0, shape.harmonics + 1)
        read = torch.cat([angles.cos(), angles.sin()], -1).flatten(-2)
    else:
        read = (observations - shift).div_(scale)
    if shape.extra:
        read = torch.cat([read, extra], -1)
    return pad(read, (0, 1), value=1.0).mT


def log_phi(shape: NeuralClass, weights: Weights, read: Tensor) -> Tensor:
    """log phi~_h(o, a) for all actions   read (H, F, n) -> (H, A, d, n)"""
    return _log_phi(shape, _by_action(shape, network(weights, "phi", read)[0]))


def log_phi_of(shape: NeuralClass, weights: Weights, read: Tensor, actions: Tensor) -> Tensor:
    """log phi~_h of one action per row.   read (H, F, n), actions (H, n) -> (H, d, n)"""
    logits = _by_action(shape, network(weights, "phi", read)[0])
    return _log_phi(shape, logits.gather(1, _index(shape, actions)).squeeze(1))


def log_psi(shape: NeuralClass, weights: Weights, read: Tensor) -> Tensor:
    """log psi~_h(o')   read (H, F, n) -> (H, d, n)"""
    logits, _ = network(weights, "psi", read)
    return logits if shape.exponential else _log_softplus(logits)


def network(weights: Weights, head: str, read: Tensor) -> tuple[Tensor, Tensor | None]:
    """The logits of a network and the outputs of its tanh units, if there are any.

    read (H, F, n) -> (H, outputs, n), (H, hidden, n)
    """
    logits = torch.bmm(weights[head].mT, read)
    if f"{head}_in" not in weights:
        return logits, None
    inner = torch.bmm(weights[f"{head}_in"].mT, read).tanh_()
    return logits + torch.bmm(weights[f"{head}_out"].mT, inner), inner


def network_slopes(
    weights: Weights, head: str, read: Tensor, inner: Tensor | None, of_logits: Tensor
) -> Weights:
    """The gradient in the weights of a network; of_logits (H, outputs, n) is that in its logits."""
    slopes = {head: _outer(read, of_logits)}
    if inner is not None:
        of_inner = torch.bmm(weights[f"{head}_out"], of_logits) * (1 - inner * inner)
        slopes[f"{head}_in"] = _outer(read, of_inner)
        slopes[f"{head}_out"] = _outer(inner, of_logits)
    return slopes


def log_ratio(phi: Tensor, psi: Tensor) -> Tensor:
    """log f of every pair of rows: logsumexp_j(log phi_j + log psi_j).

    phi (H, d, n), psi (H, d, m), both logarithms; returns (H, n, m). With the maximum of each row
    subtracted, the sum of exponentials is a batched product.
    """
    top, peak = phi.detach().amax(1, keepdim=True), psi.detach().amax(1, keepdim=True)
    total = torch.bmm((phi - top).exp().mT, (psi - peak).exp())
    return total.clamp_min(TINY).log() + top.mT + peak


def shared_loss(phi: Tensor, psi: Tensor, psi_negative: Tensor) -> Tensor:
    """Every positive against the same draws of P^-: cross-entropy with the logit log f.

    phi, psi      (H, d, n)  logarithms at the positives (z, s')
    psi_negative  (H, d, m)  logarithms at the draws; returns (H,), the mean over positives plus
                             the mean over all pairs of a z and a draw
    """
    positive = torch.logsumexp(phi + psi, 1)
    negative = log_ratio(phi, psi_negative)
    return softplus(-positive).mean(-1) + softplus(negative).mean((-2, -1))


def paper_loss(phi: Tensor, psi: Tensor, labels: Tensor) -> Tensor:
    """y log(1 + 1/f) + (1 - y) log(1 + f), mean over tuples (eq. contra-loss).

    phi, psi  (H, d, n)  logarithms at (z, s'), where s' is drawn from P^- if the label is 0
    labels    (H, n)     y; returns (H,)
    """
    logit = torch.logsumexp(phi + psi, 1)
    return (softplus(logit) - labels * logit).mean(-1)


def shared_slopes(phi: Tensor, psi: Tensor, psi_negative: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the sum of `shared_loss` in phi and in [psi, psi_negative], in closed form.

    With e the exponentials after subtraction of the maxima, a pair contributes
    e_phi e_psi / (1 + f) = e_phi e_psi / (exp(-top - peak) + sum_j e_phi e_psi): three products and
    one division for all pairs, where autograd needs six passes.
    """
    n, m = phi.shape[-1], psi_negative.shape[-1]
    both = _responsibilities(phi, psi, 1.0)
    joint = pad(torch.cat([phi, psi_negative], -1), (0, 0, 0, 1))
    top = joint[:, :-1].amax(1, keepdim=True)
    scaled = (joint - top).exp_()  # and exp(-top) in the last row
    share = _odds(scaled, top, n).reciprocal_()
    rows, columns = scaled[:, :-1, :n], scaled[:, :-1, n:]
    of_phi = torch.addcmul(both, torch.bmm(columns, share.mT), rows, value=1 / (n * m))
    of_negative = torch.bmm(rows, share).mul_(columns).div_(n * m)
    return of_phi, torch.cat([both, of_negative], -1)


def paper_slopes(phi: Tensor, psi: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the sum of `paper_loss` in its first two arguments, which are equal."""
    both = _responsibilities(phi, psi, labels[:, None])
    return both, both


@dataclass(frozen=True)
class Batch:
    """A minibatch of every step h, as inputs of the networks.

    before  (H, F, n)      of phi at z
    actions (H, n)         of z
    after   (H, F', n)     of psi at s', or with shared negatives (H, F', n + m): the next
                           observations, then the draws of P^-
    labels  (H, n)         of the paper's sampler; None: shared negatives
    """

    before: Tensor
    actions: Tensor
    after: Tensor
    labels: Tensor | None = None


def batch_loss(shape: NeuralClass, weights: Weights, batch: Batch) -> Tensor:
    """L_h on a minibatch   (H,)"""
    phi = log_phi_of(shape, weights, batch.before, batch.actions)
    psi, n = log_psi(shape, weights, batch.after), phi.shape[-1]
    if batch.labels is not None:
        return paper_loss(phi, psi, batch.labels)
    return shared_loss(phi, psi[..., :n], psi[..., n:])


def loss_slopes(shape: NeuralClass, weights: Weights, batch: Batch) -> Weights:
    """The gradient of the sum of `batch_loss` over h in all weights, in closed form."""
    all_logits, phi_inner = network(weights, "phi", batch.before)
    by_action, index = _by_action(shape, all_logits), _index(shape, batch.actions)
    phi_logits, n = by_action.gather(1, index).squeeze(1), batch.actions.shape[1]
    psi_logits, psi_inner = network(weights, "psi", batch.after)
    phi = _log_phi(shape, phi_logits)
    psi = psi_logits if shape.exponential else _log_softplus(psi_logits)
    if batch.labels is None:
        of_phi, of_psi = shared_slopes(phi, psi[..., :n], psi[..., n:])
    else:
        of_phi, of_psi = paper_slopes(phi, psi, batch.labels)
    if shape.simplex:
        of_phi = torch.addcmul(of_phi, phi.exp(), of_phi.sum(1, keepdim=True), value=-1)
    else:
        of_phi = of_phi * _log_softplus_slope(phi_logits)
    if not shape.exponential:
        of_psi = of_psi * _log_softplus_slope(psi_logits)
    by_action.zero_().scatter_(1, index, of_phi[:, None])  # now the gradient in `all_logits`
    return {
        **network_slopes(weights, "phi", batch.before, phi_inner, all_logits),
        **network_slopes(weights, "psi", batch.after, psi_inner, of_psi),
    }


def normalized(phi: Tensor, log_mass: Tensor) -> Tensor:
    """phi^ in the gauge of erratum E3, in the simplex.

    phi       (..., d, n)  logarithms
    log_mass  (..., d, 1)  log E[psi~_j] under P^-; divided by it, every psi^_j has mass 1
    """
    return (phi + log_mass).softmax(-2)


def _outer(left: Tensor, right: Tensor) -> Tensor:
    """The sum of outer products over the rows   (H, i, n), (H, j, n) -> (H, i, j)

    On CPU the product takes up to four times as long if the longer factor is the first.
    """
    if left.shape[1] > right.shape[1]:
        return torch.bmm(right, left.mT).mT
    return torch.bmm(left, right.mT)


def _by_action(shape: NeuralClass, logits: Tensor) -> Tensor:
    """The logits of phi   (H, A d, n) -> (H, A, d, n)"""
    return logits.view(len(logits), shape.n_actions, shape.rank, -1)


def _index(shape: NeuralClass, actions: Tensor) -> Tensor:
    """Actions as an index of `_by_action`   (H, n) -> (H, 1, d, n)"""
    return actions[:, None, None].expand(-1, -1, shape.rank, -1)


def _log_phi(shape: NeuralClass, logits: Tensor) -> Tensor:
    """The head of phi   (..., d, n) -> (..., d, n)"""
    return logits.log_softmax(-2) if shape.simplex else _log_softplus(logits)


def _responsibilities(phi: Tensor, psi: Tensor, labels: Tensor | float) -> Tensor:
    """(sigmoid(log f) - y) phi_j psi_j / f / n, the gradient of the cross-entropy   (H, d, n)

    labels y, broadcast over latents. Where f overflows or underflows, its sigmoid is 1 or 0.
    """
    terms = phi + psi
    error = terms.exp().sum(1, keepdim=True).log_().sigmoid_().sub_(labels).div_(phi.shape[-1])
    return terms.softmax(1).mul_(error)


def _odds(scaled: Tensor, top: Tensor, n: int) -> Tensor:
    """(1 + f) / exp(top + top') for every pair of the first n rows and the others   (H, n, m)

    scaled  (H, d + 1, n + m)  exp(log phi - top) and exp(log psi - top), then exp(-top)
    top     (H, 1, n + m)

    The product of two exponentials, 1 as one more latent of the sum, is inf * 0 if phi is tiny and
    psi is huge.
    """
    rows, columns = scaled[..., :n], scaled[..., n:]
    if bool(top.abs().max() < SAFE):
        return torch.bmm(rows.mT, columns)
    inverse = (-top[..., :n].mT - top[..., n:]).exp_()
    return torch.bmm(rows[:, :-1].mT, columns[:, :-1]).add_(inverse).clamp_min_(TINY)


def _log_softplus(logits: Tensor) -> Tensor:
    """log(log(1 + e^x)); for very negative x, where log(1 + e^x) underflows, it is close to x."""
    return torch.where(logits < -15, logsigmoid(logits), softplus(logits).clamp_min(TINY).log())


def _log_softplus_slope(logits: Tensor) -> Tensor:
    """The derivative of `_log_softplus`."""
    ratio = logits.sigmoid() / softplus(logits).clamp_min(TINY)
    return torch.where(logits < -15, (-logits).sigmoid(), ratio)


def _normal(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    drawn = random.standard_normal(shape, dtype=np.float32) / np.float32(sqrt(fan_in))
    return torch.from_numpy(np.asarray(drawn, dtype=np.float32))


def _float64(tensor: Tensor) -> Array:
    return tensor.contiguous().double().numpy()


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


@torch.no_grad()
def train(
    start: Weights,
    shape: NeuralClass,
    data: ObservationData,
    negatives: Negatives,
    recipe: Recipe,
    random: np.random.Generator,
) -> Fitted:
    """Train phi~ and psi~ of all steps from the weights `start`; the gauge is not fixed yet."""
    shift, scale = _moments(data, recipe.standardise == "on")
    flat = torch.cat([tensor.flatten() for tensor in start.values()])
    sizes = [tensor.numel() for tensor in start.values()]
    parts = zip(start.items(), torch.split_with_sizes(flat, sizes), strict=True)
    weights = {name: part.view_as(tensor) for (name, tensor), part in parts}
    mean, square = torch.zeros_like(flat), torch.zeros_like(flat)
    steps = max(recipe.fit_steps, ceil(recipe.epochs * int(data.n.max()) / recipe.batch_size))
    for step in range(steps):
        batch = draw_batch(shape, data, negatives, recipe, (shift, scale), random)
        rate = recipe.learning_rate * (1 - (1 - recipe.final_rate) * step / steps)
        slopes = loss_slopes(shape, weights, batch)
        slope = torch.cat([slopes[name].flatten() for name in weights])
        adamw_step(flat, slope, mean, square, step + 1, rate, recipe.weight_decay)
    loss = float(batch_loss(shape, weights, batch).mean())
    trained = {name: tensor.clone() for name, tensor in weights.items()}
    return Fitted(shape, trained, shift, scale, torch.zeros(len(data.n), shape.rank), loss)


def draw_batch(
    shape: NeuralClass,
    data: ObservationData,
    negatives: Negatives,
    recipe: Recipe,
    moments: tuple[Tensor, Tensor],
    random: np.random.Generator,
) -> Batch:
    """A minibatch of uniformly drawn rows; `moments` are the shift and the scale of the inputs."""
    horizon, count = len(data.n), recipe.batch_size
    rows = (random.random((horizon, count)) * data.n[:, None]).astype(np.int64)
    read = (data.take(name, rows) for name in READ[recipe.sampler])
    observation, actions, following, *labels = read
    if recipe.sampler == "shared":
        drawn = negatives.draw(data, recipe.n_negatives, random)
        following = np.concatenate([following, drawn], 1)
    before, after = (
        inputs(shape, torch.from_numpy(read), *moments) for read in (observation, following)
    )
    return Batch(before, torch.from_numpy(actions), after, *map(torch.from_numpy, labels))


def adamw_step(
    weights: Tensor,
    slope: Tensor,
    mean: Tensor,
    square: Tensor,
    step: int,
    rate: float,
    decay: float,
) -> None:
    """One step of AdamW (Loshchilov and Hutter, 2019), in place, with the constants of torch.

    weights, slope, mean, square  all of the same shape; the last two are the running moments of
                                  the gradient `slope`, zero before step 1
    """
    beta, beta_square = 0.9, 0.999
    mean.lerp_(slope, 1 - beta)
    square.mul_(beta_square).addcmul_(slope, slope, value=1 - beta_square)
    deviation = square.sqrt().div_(sqrt(1 - beta_square**step)).add_(1e-8)
    weights.mul_(1 - rate * decay).addcdiv_(mean, deviation, value=-rate / (1 - beta**step))


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
