"""Rollouts of the policy in the world model.

Every rollout starts from a stored observation. When the model predicts the end of the episode, the
rollout restarts from another stored observation. (In Kaiser et al. 2020, rollouts do not end early:
they last 50 steps.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contrastive_ucb.agents.simple.ppo import ActorCritic, action_log_probs
from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.representation.world_model import WorldModel, sample_categorical


@dataclass(frozen=True)
class Rollouts:
    """T steps of B rollouts.

    observations  (T, B, *shape)  of the policy, as stored
    actions, log_probs, rewards, ended  (T, B)
    values        (T + 1, B)
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    ended: Tensor
    values: Tensor


@torch.no_grad()
def rollouts(
    model: WorldModel,
    policy: ActorCritic,
    support: Tensor,
    replay: Replay,
    rng: np.random.Generator,
    steps: int,
    count: int,
) -> Rollouts:
    """`count` rollouts of `steps` steps. Rewards are the expected rewards of the model.

    support  (N,)  atoms of the reward
    """
    device, (channels, *_) = support.device, model.frame_shape
    times = replay.drawable()
    starts = times[(rng.random((steps + 1, count)) * len(times)).astype(np.int64)]
    draws = torch.from_numpy(rng.random((steps, 2 + model.prior.n_groups, count), dtype=np.float32))
    history = _observations(replay, starts[0], device)
    recorded: list[tuple[Tensor, ...]] = []
    values: list[Tensor] = []
    for step, (for_action, for_end, *for_bits) in enumerate(draws.to(device)):
        observation = history[:, -policy.shape[0] :]
        logits, value = policy(model.scaled(observation))
        log_probs = logits.log_softmax(-1)
        actions = sample_categorical(log_probs, for_action)
        outcome = model.predict(history, actions, torch.stack(for_bits, dim=1))
        ended = for_end < outcome.end.sigmoid()
        rewards = outcome.reward.softmax(-1) @ support
        taken = action_log_probs(log_probs, actions)
        recorded.append((observation, actions, taken, rewards, ended.float()))
        values.append(value)
        frame = model.draw_frame(outcome, history)
        history = torch.cat([history[:, channels:], frame], dim=1)
        if over := ended.cpu().numpy().nonzero()[0].tolist():
            history[over] = _observations(replay, starts[step + 1, over], device)
    values.append(policy(model.scaled(history[:, -policy.shape[0] :]))[1])
    columns = [list(part) for part in zip(*recorded, strict=True)]
    return Rollouts(*(torch.stack(part) for part in (*columns, values)))


def _observations(replay: Replay, times: IntArray, device: torch.device) -> Tensor:
    return torch.from_numpy(replay.observations(times)).to(device)
