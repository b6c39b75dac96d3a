"""A plain PyTorch implementation of SPR and SPR-UCB, as a reference point for speed.

It performs the computations of the published code in the same order, without the optimizations of
the package:

- the target network is a second network, copied by state_dict after every update, with the noise of
  that update;
- the network of the SPR targets is a third one, copied before every optimizer step;
- frames are augmented as floats, image by image, for observations and targets;
- the targets of k = 0 are computed, although their weight is 0;
- s_{t+n} is augmented twice and encoded twice, for the evaluating and for the selecting pass of
  double DQN;
- for the bonus, all 16 observations of all 32 windows pass through the network again, their
  features are added to Sigma one outer product at a time, and Sigma is inverted.

It omits the reward head of the published code, whose weight is 0, so it is slightly faster than the
published code. A test compares its losses, bonus, selected actions and weights with those of the
preset `reference`.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

STACK, SIZE = 4, 84  # frames per observation, pixels per side
N_STEP, JUMPS = 10, 5
WINDOW = N_STEP + JUMPS + 1  # observations per sampled window
DISCOUNT = 0.99
ATOMS, HIDDEN, SIGMA0 = 51, 256, 0.5
SPR_WEIGHT, CLIP_NORM = 5.0, 10.0
FLOOR = 1e-6  # of target probabilities and priorities
PAD, SPREAD = 4, 0.05  # pixels of a random shift, scale of the random intensity


@dataclass(frozen=True)
class Windows:
    """B sampled windows of T = 16 steps. A window may span several episodes.

    observations  (B, T, 4, 84, 84) uint8; after an end at step e <= K, that of e is repeated
    actions, previous  (B, T)  actions of each step and of the step before it
    rewards       (B, T)
    ends          (B, T)  whether the episode ended with this step
    weights       (B,)    importance weights
    index         (B,)    positions in the memory
    """

    observations: np.ndarray
    actions: np.ndarray
    previous: np.ndarray
    rewards: np.ndarray
    ends: np.ndarray
    weights: np.ndarray
    index: np.ndarray


class PlainReplay:
    """Frames in one array, one entry per step. Windows are assembled one observation at a time.

    frames   (n, 84, 84) uint8
    actions, rewards, ends  (n,)
    """

    def __init__(
        self,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        ends: np.ndarray,
        seed: int = 0,
    ):
        self.frames, self.actions, self.rewards, self.ends = frames, actions, rewards, ends
        self.start = np.zeros(len(frames), dtype=int)  # first step of the episode
        for t in range(1, len(frames)):
            self.start[t] = t if ends[t - 1] else self.start[t - 1]
        self.drawable = np.arange(STACK - 1, len(frames) - WINDOW)
        self.priority = np.ones(len(frames))
        self.rng = np.random.default_rng(seed)

    def sample(self, size: int = 32) -> Windows:
        mass = np.sqrt(self.priority[self.drawable])
        mass /= mass.sum()
        drawn = self.rng.choice(len(mass), size, p=mass)
        index = self.drawable[drawn]
        weights = (mass[drawn].min() / mass[drawn]) ** 0.4
        observations = np.empty((size, WINDOW, STACK, SIZE, SIZE), np.uint8)
        for i, first in enumerate(index):
            end = self.ends[first : first + JUMPS + 1].argmax()
            last = first + end if self.ends[first + end] else first + WINDOW
            for step in range(WINDOW):
                observations[i, step] = self.observation(min(first + step, last))
        times = index[:, None] + np.arange(WINDOW)
        return Windows(
            observations,
            self.actions[times],
            self.actions[times - 1],
            self.rewards[times],
            self.ends[times],
            weights,
            index,
        )

    def observation(self, t: int) -> np.ndarray:
        """The last four frames (4, 84, 84), zero before the start of the episode."""
        oldest = t + 1 - STACK
        stack = self.frames[oldest : t + 1].copy()
        stack[: max(0, self.start[t] - oldest)] = 0
        return stack

    def update_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        self.priority[index] = np.maximum(priority, 1e-6)


class NoisyLinear(nn.Module):
    """Linear layer with factorized noise, which is constant until `reset_noise`."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        bound = inputs**-0.5
        self.weight_mu = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias_mu = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), SIGMA0 * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), SIGMA0 * outputs**-0.5))
        self.register_buffer("weight_epsilon", torch.zeros(outputs, inputs))
        self.register_buffer("bias_epsilon", torch.zeros(outputs))

    def forward(self, x: Tensor, noisy: bool = True) -> Tensor:
        if not noisy:
            return F.linear(x, self.weight_mu, self.bias_mu)
        weight = self.weight_mu + self.weight_sigma * self.weight_epsilon
        return F.linear(x, weight, self.bias_mu + self.bias_sigma * self.bias_epsilon)

    def reset_noise(self) -> None:
        outputs, inputs = self.weight_mu.shape
        noise_in, noise_out = torch.randn(inputs), torch.randn(outputs)
        noise_in = noise_in.sign() * noise_in.abs().sqrt()
        noise_out = noise_out.sign() * noise_out.abs().sqrt()
        self.weight_epsilon.copy_(torch.outer(noise_out, noise_in))
        self.bias_epsilon.copy_(noise_out)


class Network(nn.Module):
    """Encoder, dueling head, transition model and predictor with the sizes of SPR."""

    def __init__(self, n_actions: int):
        super().__init__()
        self.n_actions = n_actions
        self.encoder = nn.Sequential(
            nn.Conv2d(STACK, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(),
        )
        self.value_hidden = NoisyLinear(64 * 7 * 7, HIDDEN)
        self.value = NoisyLinear(HIDDEN, ATOMS)
        self.advantage_hidden = NoisyLinear(64 * 7 * 7, HIDDEN)
        self.advantage = NoisyLinear(HIDDEN, n_actions * ATOMS)
        self.transition = nn.Sequential(
            nn.Conv2d(64 + n_actions, 64, 3, padding=1),
            nn.ReLU(),
            nn.BatchNorm2d(64),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
        )
        self.predictor = nn.Linear(2 * HIDDEN, 2 * HIDDEN)

    def encode(self, images: Tensor) -> Tensor:
        """(B, 4, 84, 84) -> (B, 64, 7, 7)"""
        return rescale(self.encoder(images))

    def logits(self, latent: Tensor) -> Tensor:
        """(B, 64, 7, 7) -> (B, A, 51); the gradient into the latent is scaled by 1/sqrt 2."""
        x = latent.flatten(1)
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient / 2**0.5)
        value = self.value(F.relu(self.value_hidden(x)))
        advantage = self.advantage(F.relu(self.advantage_hidden(x)))
        advantage = advantage.view(-1, self.n_actions, ATOMS)
        return value.unsqueeze(1) + advantage - advantage.mean(1, keepdim=True)

    def project(self, latent: Tensor) -> Tensor:
        """(B, 64, 7, 7) -> (B, 512), without noise."""
        x = latent.flatten(1)
        parts = [self.value_hidden(x, noisy=False), self.advantage_hidden(x, noisy=False)]
        return torch.cat(parts, 1)

    def step(self, latent: Tensor, actions: Tensor) -> Tensor:
        """The predicted latent after one action."""
        planes = F.one_hot(actions, self.n_actions).float()
        planes = planes[:, :, None, None].expand(-1, -1, *latent.shape[2:])
        return rescale(self.transition(torch.cat([latent, planes], 1)))

    def noisy_layers(self) -> list[NoisyLinear]:
        return [layer for layer in self.modules() if isinstance(layer, NoisyLinear)]


class Yardstick:
    """SPR, or SPR-UCB with the bonus. The benchmark times `step`."""

    def __init__(
        self,
        n_actions: int,
        bonus: bool,
        *,
        seed: int = 0,
        augment: bool = True,
        ridge: float = 1e-5,
    ):
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.has_bonus, self.augments = bonus, augment
        self.online = Network(n_actions)
        self.target = copy.deepcopy(self.online)
        self.lagged = copy.deepcopy(self.online)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-4, eps=1.5e-4)
        self.support = torch.linspace(-10, 10, ATOMS)
        self.sigma = ridge * torch.eye(ATOMS)

    def step(self, replay: PlainReplay, size: int = 32) -> dict[str, float]:
        """Sample a batch, update, and write the new priorities."""
        batch = replay.sample(size)
        figures = self.update(batch)
        replay.update_priorities(batch.index, figures.pop("priorities"))
        return figures

    def update(self, batch: Windows) -> dict[str, Any]:
        """One gradient step. Returns the losses, the bonus and the new priorities (B,)."""
        bonus = torch.zeros(len(batch.index))
        if self.has_bonus:
            bonus = self.bonus(batch)
        self.reset_noise()
        weights = torch.from_numpy(batch.weights).float()
        latent = self.online.encode(self.images(batch.observations[:, 0]))
        losses, priorities = self.value_losses(batch, latent, bonus)
        value_loss = (weights * losses).mean()
        spr_loss = (weights * self.spr_losses(batch, latent)).mean()
        self.lagged.load_state_dict(self.online.state_dict())
        self.descend(value_loss + SPR_WEIGHT * spr_loss)
        self.target.load_state_dict(self.online.state_dict())
        return {
            "losses/value": value_loss.item(),
            "losses/spr": spr_loss.item(),
            "bonus/mean": bonus.mean().item(),
            "priorities": priorities.numpy(),
        }

    def reset_noise(self) -> None:
        for layer in self.online.noisy_layers():
            layer.reset_noise()

    def images(self, frames: np.ndarray) -> Tensor:
        """Frames (B, 4, 84, 84) in [0, 1], with one random shift and intensity per stack."""
        images = torch.from_numpy(frames).float() / 255
        if not self.augments:
            return images
        images = F.pad(images, (PAD, PAD, PAD, PAD), mode="replicate")
        augmented = []
        for image in images:
            row, column = self.rng.integers(0, 2 * PAD + 1, 2)
            image = image[:, row : row + SIZE, column : column + SIZE]
            augmented.append(image * (1 + SPREAD * np.clip(self.rng.normal(), -2, 2)))
        return torch.stack(augmented)

    @torch.no_grad()
    def bonus(self, batch: Windows) -> Tensor:
        """Discounted sum (B,) of the bonuses of n steps, after adding all T steps to Sigma."""
        size = len(batch.index)
        frames = batch.observations.reshape(-1, STACK, SIZE, SIZE)
        images = torch.from_numpy(frames).float() / 255
        probs = F.softmax(self.online.logits(self.online.encode(images)), -1)  # (B T, A, 51)
        previous = torch.from_numpy(batch.previous.reshape(-1))
        features = probs[torch.arange(len(probs)), previous]
        for feature in features:
            self.sigma += torch.outer(feature, feature)
        inverse = torch.inverse(self.sigma)
        features = features.view(size, WINDOW, ATOMS)
        total = torch.zeros(size)
        for step in range(N_STEP):
            feature = features[:, step]
            width = torch.sqrt(((feature @ inverse) * feature).sum(-1))
            width[torch.isnan(width)] = 0
            total += DISCOUNT**step * width
        return total * torch.from_numpy(~batch.ends[:, 0])

    def value_losses(self, batch: Windows, latent: Tensor, bonus: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of C51 and the priority, each (B,)."""
        with torch.no_grad():
            images = self.images(batch.observations[:, N_STEP])
            probs = F.softmax(self.target.logits(self.target.encode(images)), -1)
            images = self.images(batch.observations[:, N_STEP])
            online = F.softmax(self.online.logits(self.online.encode(images)), -1)
            self.selected = (online * self.support).sum(-1).argmax(-1)
            chosen = probs[torch.arange(len(probs)), self.selected]
            target = self.projected(batch, chosen, bonus)
        actions = torch.from_numpy(batch.actions[:, 0])
        logits = self.online.logits(latent)[torch.arange(len(actions)), actions]
        log_probs = F.log_softmax(logits, -1)
        losses = -(target * log_probs).sum(-1)
        clamped = target.clamp(min=FLOOR)
        divergence = (clamped * (clamped.log() - log_probs.detach())).sum(-1)
        return losses, divergence.clamp(min=FLOOR)

    def projected(self, batch: Windows, probs: Tensor, bonus: Tensor) -> Tensor:
        """n-step target on the atoms (B, 51). No bootstrap if the first step ends."""
        returns, alive = np.zeros(len(batch.index)), np.ones(len(batch.index), dtype=bool)
        for step in range(N_STEP):
            returns += DISCOUNT**step * alive * batch.rewards[:, step]
            alive &= ~batch.ends[:, step]
        discounts = torch.from_numpy(DISCOUNT**N_STEP * ~batch.ends[:, 0]).float()
        shift = torch.from_numpy(returns).float() + bonus
        points = (shift[:, None] + discounts[:, None] * self.support).clamp(-10, 10)
        gap = self.support[1] - self.support[0]
        distance = (points[:, None, :] - self.support[None, :, None]).abs()  # (B, atom, point)
        share = (1 - distance / gap).clamp(0, 1)
        return (share * probs[:, None, :]).sum(-1)

    def spr_losses(self, batch: Windows, latent: Tensor) -> Tensor:
        """Loss of self-prediction (B,), averaged over k = 1 .. 5; k = 0 has weight 0."""
        predictions = [self.online.predictor(self.online.project(latent))]
        actions = torch.from_numpy(batch.actions)
        for k in range(JUMPS):
            latent = self.online.step(latent, actions[:, k])
            predictions.append(self.online.predictor(self.online.project(latent)))
        with torch.no_grad():
            frames = batch.observations[:, : JUMPS + 1].reshape(-1, STACK, SIZE, SIZE)
            targets = self.lagged.project(self.lagged.encode(self.images(frames)))
            targets = targets.view(len(latent), JUMPS + 1, -1)
        losses = torch.zeros(len(latent))
        alive = ~batch.ends[:, 0]
        for k, prediction in enumerate(predictions):
            predicted = F.normalize(prediction, dim=-1, eps=1e-3)
            target = F.normalize(targets[:, k], dim=-1, eps=1e-3)
            error = (predicted - target).pow(2).sum(-1)
            weight = 0.0 if k == 0 else 1 / JUMPS
            alive = alive & ~batch.ends[:, k]
            losses = losses + weight * torch.from_numpy(alive) * error
        return losses

    def descend(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        clipped = [
            parameter
            for name, parameter in self.online.named_parameters()
            if not name.startswith(("transition", "predictor"))
        ]
        nn.utils.clip_grad_norm_(clipped, CLIP_NORM)
        nn.utils.clip_grad_norm_(self.online.transition.parameters(), CLIP_NORM)
        self.optimizer.step()


def rescale(latent: Tensor) -> Tensor:
    """Rescale each sample to [0, 1]. A constant sample becomes zero."""
    flat = latent.flatten(1)
    low = flat.min(1, keepdim=True)[0]
    width = flat.max(1, keepdim=True)[0] - low
    width = torch.where(width == 0, torch.ones_like(width), width)
    return ((flat - low) / width).view_as(latent)
