"""A slow update of the learner: loops over samples, steps and atoms, and Adam by its formula.

It reads the weights and the noise of a `Network` of vectors, or of images with one convolution and
CURL, and shares no other code with it.
"""

from copy import deepcopy
from math import sqrt

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.network import Network
from contrastive_ucb.data.replay import Batch
from contrastive_ucb.representation.curl import Projection
from contrastive_ucb.representation.encoders import Encoder


def rescaled(x: Tensor) -> Tensor:
    if x.min() == x.max():
        return torch.zeros_like(x)
    return (x - x.min()) / (x.max() - x.min())


def encode(encoder: Encoder, x: Tensor) -> Tensor:
    """The latent (Z,) of a vector, or of an image (C, H, W), pixel by pixel."""
    for layer in encoder.layers:
        if isinstance(layer, torch.nn.Conv2d):
            x = F.conv2d(x[None], layer.weight, layer.bias)[0].permute(1, 2, 0).flatten()
        else:
            x = layer.weight @ x + layer.bias
        x = x.clamp(min=0)
    return rescaled(x) if encoder.rescaled else x


def observed(frame: np.ndarray) -> Tensor:
    x = torch.from_numpy(frame)
    return x / 255 if x.dtype == torch.uint8 else x


def noisy(layer: torch.nn.Module, x: Tensor, group: int = 0, groups: int = 1) -> Tensor:
    """Part `group` of a noisy layer: (mu + sigma eps_out eps_in') x + mu_b + sigma_b eps_out."""
    size = len(layer.bias) // groups
    rows = slice(group * size, (group + 1) * size)
    out, into = layer.noise_out[rows], layer.noise_in[group]
    weight = layer.weight[rows] + layer.weight_sigma[rows] * torch.outer(out, into)
    return weight @ x + layer.bias[rows] + layer.bias_sigma[rows] * out


def logits(network: Network, latent: Tensor) -> Tensor:
    """(A, N), with the gradient of the latent scaled by 1/sqrt(2), except with CURL."""
    share = 1.0 if network.curl is not None else 1 / sqrt(2)
    latent = share * latent + (1 - share) * latent.detach()
    head = network.head
    assert head.value is not None
    value = noisy(head.value, noisy(head.first, latent, 0, 2).clamp(min=0))
    advantage = noisy(head.advantage, noisy(head.first, latent, 1, 2).clamp(min=0))
    advantage = advantage.view(head.shape)
    return torch.stack([value + row - advantage.mean(0) for row in advantage])


def projection(network: Network, latent: Tensor) -> Tensor:
    return network.head.first.weight @ latent + network.head.first.bias


def transition(network: Network, latents: list[Tensor], actions: list[int]) -> list[Tensor]:
    """The latents of a batch after one step; batch norm uses the whole batch."""
    assert network.prediction is not None
    model, rows = network.prediction.transition, []
    for latent, action in zip(latents, actions, strict=True):
        chosen = torch.zeros(model.n_actions)
        chosen[action] = 1
        both = torch.cat([latent, chosen])
        rows.append((model.first.weight @ both + model.first.bias).clamp(min=0))
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) ** 2 for row in rows) / len(rows)
    out = []
    for row in rows:
        row = (row - mean) / (variance + 1e-5).sqrt() * model.norm.weight + model.norm.bias
        out.append(rescaled((model.second.weight @ row + model.second.bias).clamp(min=0)))
    return out


def projected(network: Network, shift: float, discount: float, probs: Tensor) -> Tensor:
    """C51 projection: the mass of each shifted atom goes to its two neighbors."""
    z = network.support.tolist()
    out = [0.0] * len(z)
    for point, mass in zip(z, probs.tolist(), strict=True):
        landed = min(max(shift + discount * point, z[0]), z[-1])
        at = (landed - z[0]) / (z[1] - z[0])
        low = min(int(at), len(z) - 2)
        out[low] += mass * (1 - (at - low))
        out[low + 1] += mass * (at - low)
    return torch.tensor(out)


def value_loss(
    network: Network, target: Network, config: RainbowConfig, batch: Batch, i: int, latent: Tensor
) -> tuple[Tensor, float]:
    """Loss and priority of sample i; `target` has the old noise, `network` the new one."""
    shift, discount = float(batch.returns[i]), float(batch.discounts[i])
    with torch.no_grad():
        seen = observed(batch.bootstrap[i])
        values = logits(target, encode(target.encoder, seen))  # (A, N)
        chooser = logits(network, encode(network.encoder, seen)) if config.double else values
        if config.distributional:
            values = values.softmax(-1)
            best = int((chooser.softmax(-1) * network.support).sum(-1).argmax())
            goal = projected(network, shift, discount, values[best])
        else:
            best = int(chooser[:, 0].argmax())
            goal = shift + discount * values[best]
    taken = logits(network, latent)[int(batch.actions[i, 0])]
    if not config.distributional:
        error = (taken - goal).abs()[0]
        return (0.5 * error**2 if error < 1 else error - 0.5), float(error.detach())
    loss = -(goal * taken.log_softmax(-1)).sum()
    if config.priority == "loss":
        return loss, float(loss.detach())
    if config.priority == "clamped-kl":
        log_probs = taken.detach().log_softmax(-1).tolist()
        terms = [(max(m, 1e-6), p) for m, p in zip(goal.tolist(), log_probs, strict=True)]
        return loss, sum(m * (np.log(m) - p) for m, p in terms)
    entropy = -sum(mass * np.log(mass) for mass in goal.tolist() if mass > 0)
    return loss, float(loss.detach()) - entropy


def normalized(x: Tensor) -> Tensor:
    return (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt()


def contrastive_loss(network: Network, crops: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The loss of CURL for two crops of every observation of a batch."""
    curl = network.curl
    assert curl is not None

    def code(projection: Projection, latent: Tensor) -> Tensor:
        x = normalized(projection.first.weight @ latent + projection.first.bias).clamp(min=0)
        return normalized(projection.second.weight @ x + projection.second.bias)

    queries = [code(curl.projection, encode(network.encoder, first)) for first, _ in crops]
    with torch.no_grad():
        keys = [code(curl.key_projection, encode(curl.key_encoder, second)) for _, second in crops]
    total = torch.zeros(())
    for i, query in enumerate(queries):
        logits = torch.stack([0.1 * query @ curl.bilinear.weight @ key for key in keys])
        total = total - (logits[i] - logits.logsumexp(0)) / len(crops)
    return total


def total_loss(
    network: Network,
    target: Network,
    lagged: Network,
    config: RainbowConfig,
    batch: Batch,
    crops: list[tuple[Tensor, Tensor]],
) -> tuple[Tensor, list[float]]:
    size, priorities, total = len(batch.index), [], torch.zeros(())
    latents = [encode(network.encoder, observed(batch.frames[i, 0])) for i in range(size)]
    shared = config.curl_weight * contrastive_loss(network, crops) if crops else torch.zeros(())
    for i in range(size):
        loss, priority = value_loss(network, target, config, batch, i, latents[i])
        total = total + float(batch.weights[i]) * (loss + shared) / size
        priorities.append(priority + float(shared.detach()))
    if network.prediction is None:
        return total, priorities
    moved = latents
    for k in range(config.jumps):
        moved = transition(network, moved, batch.actions[:, k].tolist())
        for i in range(size):
            foreseen = network.prediction.predictor(projection(network, moved[i]))
            with torch.no_grad():
                seen = encode(lagged.encoder, observed(batch.frames[i, k + 1]))
                goal = projection(lagged, seen)
            error = (foreseen / foreseen.norm() - goal / goal.norm()).square().sum()
            weight = float(batch.weights[i] * batch.mask[i, k]) / (size * config.jumps)
            total = total + config.spr_weight * weight * error
    return total, priorities


def first_update(
    network: Network,
    target: Network,
    lagged: Network,
    config: RainbowConfig,
    batch: Batch,
    crops: list[tuple[Tensor, Tensor]],
) -> tuple[dict[str, Tensor], list[float]]:
    """The trained weights after the first update, and the priorities.

    network  with the noise that the update draws
    target   evaluates s_{t+n}, with its own noise
    lagged   computes the targets of SPR
    crops    two of every observation, for CURL
    """
    network = deepcopy(network)
    loss, priorities = total_loss(network, target, lagged, config, batch, crops)
    loss.backward()
    trained = {name: x for name, x in network.named_parameters() if x.requires_grad}
    groups: dict[str, list[str]] = {"own": [], "prediction.transition": []}
    for name in trained:
        if not name.startswith("prediction.predictor"):
            own = name.startswith(("encoder.", "head.", "curl."))
            groups["own" if own else "prediction.transition"].append(name)
    gradient = {name: x.grad.clone() for name, x in trained.items()}
    for names in groups.values():
        norm = sqrt(sum(float((gradient[name] ** 2).sum()) for name in names))
        for name in names:
            gradient[name] *= min(1.0, config.clip_norm / (norm + 1e-6))
    after = {}
    for name, x in trained.items():
        g = gradient[name]  # Adam's averages of one gradient, corrected, are itself and its square
        after[name] = x.detach() - config.learning_rate * g / (g.abs() + config.adam_eps)
    return after, priorities
