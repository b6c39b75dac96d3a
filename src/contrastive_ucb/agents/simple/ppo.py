"""Proximal policy optimization (PPO, Schulman et al. 2017) on given rollouts.

| symbol      | here          | shape   |                                                     |
|-------------|---------------|---------|-----------------------------------------------------|
| r_t         | `rewards`     | (T, B)  |                                                     |
| V(s_t)      | `values`      | (T+1, B)| the last row is for the states after the last step  |
| gamma, lambda | `discount`, `trace` |   |                                                     |
| A_t         | `advantages`  | (T, B)  | generalized advantage estimates                     |
| pi/pi_old   | `ratio`       | (n,)    | probability of the action, now and when taken       |
| epsilon     | `clip`        |         | clipping range of the ratio                         |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from contrastive_ucb.agents.deep.network import Optimized, error_location, gradient_step, not_finite
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.representation.encoders import Encoder, linear

SMALLEST_DEVIATION = 1e-8  # added to the standard deviation of advantages


def gae(rewards: Tensor, values: Tensor, ended: Tensor, discount: float, trace: float) -> Tensor:
    """A_t = sum_k (gamma lambda)^k delta_{t+k}, delta_t = r_t + gamma V(s_{t+1}) - V(s_t).

    rewards, ended  (T, B); where `ended` is 1 the next value counts as 0
    values          (T + 1, B)
    """
    alive = 1 - ended
    deltas = rewards + discount * alive * values[1:] - values[:-1]
    decay = discount * trace * alive
    advantages = torch.empty_like(deltas)
    following = torch.zeros_like(deltas[0])
    for step in range(len(deltas) - 1, -1, -1):
        following = deltas[step] + decay[step] * following
        advantages[step] = following
    return advantages


def clipped_loss(log_ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """-min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A), (n,), of log ratios (n,)."""
    ratio = log_ratio.exp()
    return -torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def standardized(advantages: Tensor) -> Tensor:
    """Advantages (n,) with mean 0 and standard deviation 1."""
    return (advantages - advantages.mean()) / (advantages.std() + SMALLEST_DEVIATION)


def action_log_probs(log_probs: Tensor, actions: Tensor) -> Tensor:
    """The log-probabilities (n,) of actions (n,), from those of all actions (n, A)."""
    return log_probs.gather(1, actions[:, None])[:, 0]


@dataclass(frozen=True)
class Experience:
    """T steps of B rollouts.

    observations  (T, B, *shape)  as stored
    log_probs     (T, B)          of the actions (T, B), under the policy that took them
    rewards, ended  (T, B)
    values        (T + 1, B)
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    ended: Tensor
    values: Tensor


class ActorCritic(nn.Module):
    """Observations (B, *shape) to logits of the actions (B, A) and values (B,)."""

    def __init__(
        self, shape: Sequence[int], n_actions: int, config: SimpleConfig, rng: np.random.Generator
    ):
        super().__init__()
        self.shape = tuple(shape)
        self.encoder = Encoder(shape, rng, config.encoder, hidden=config.mlp)
        self.body = linear(prod(self.encoder.latent_shape), config.hidden, rng)
        self.actor, self.critic = (
            linear(config.hidden, n_actions, rng),
            linear(config.hidden, 1, rng),
        )
        with torch.no_grad():
            for parameter in self.actor.parameters():
                parameter.mul_(0.01)  # the initial policy is nearly uniform

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(self.encoder(observations).flatten(1)).relu()
        return self.actor(hidden), self.critic(hidden)[:, 0]


class PPO(Optimized):
    """A policy and its optimizer."""

    def __init__(self, network: ActorCritic, config: SimpleConfig):
        self.network, self.config = network, config
        betas = config.adam_beta1, config.adam_beta2
        optimizer = torch.optim.Adam(
            network.parameters(), config.learning_rate, betas, config.adam_eps, fused=True
        )
        super().__init__(network, optimizer)

    def learn(
        self, steps: Experience, scaled: Callable[[Tensor], Tensor], rng: np.random.Generator
    ) -> dict[str, float]:
        """`config.passes` passes over the steps in batches; returns the mean losses.

        scaled  converts stored observations to inputs of the network
        """
        size, n = self.config.batch_size, steps.actions.numel()
        decay = self.config.discount, self.config.trace
        advantages = gae(steps.rewards, steps.values, steps.ended, *decay)
        observations = steps.observations.flatten(0, 1)
        columns = [
            part.flatten()
            for part in (steps.actions, steps.log_probs, advantages + steps.values[:-1])
        ]
        columns.append(standardized(advantages.flatten()))
        totals: dict[str, float] = {}
        count = 0
        for _ in range(self.config.passes):
            order = torch.from_numpy(rng.permutation(n)).to(steps.actions.device)
            for at in range(0, n, size):
                chosen = order[at : at + size]
                with error_location(self.network, f"update {self.n_updates + 1} of the policy"):
                    rows = (column[chosen] for column in columns)
                    losses = self._update(scaled(observations[chosen]), *rows)
                self.n_updates += 1
                for name, value in losses.items():
                    totals[name] = totals.get(name, 0.0) + value
                count += 1
        return {name: total / count for name, total in totals.items()}

    def _update(
        self,
        observations: Tensor,
        actions: Tensor,
        old_log_probs: Tensor,
        returns: Tensor,
        advantages: Tensor,
    ) -> dict[str, float]:
        """One update on inputs of the network (n, *shape) and columns (n,)."""
        config = self.config
        logits, values = self.network(observations)
        log_probs = logits.log_softmax(-1)
        log_ratio = action_log_probs(log_probs, actions) - old_log_probs
        policy = clipped_loss(log_ratio, advantages, config.clip).mean()
        value = (values - returns).square().mean() / 2
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        loss = policy + config.value_weight * value - config.entropy * entropy
        if not torch.isfinite(loss):
            parts = {"the observation": observations, "the advantage": advantages}
            parts |= {"the policy": logits, "the value": values, "the loss of PPO": loss}
            raise ArithmeticError(f"{not_finite(parts)} has a NaN or infinite entry")
        groups = [(list(self.network.parameters()), config.clip_norm)]
        gradient_step(self.optimizer, self.network, groups, loss)
        return {
            "losses/policy": policy.item(),
            "losses/value": value.item(),
            "losses/entropy": entropy.item(),
        }
