"""Rollouts inside a world model: the policy plays, the model answers.

Every rollout begins with real frames. Where the model says that the episode is over, the rollout
begins again with others, so that no step is spent behind an end. (Kaiser et al. 2020 know no ends:
their rollouts go on for 50 steps whatever happens.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contrastive_ucb.agents.simple.ppo import ActorCritic, taken
from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.representation.world_model import WorldModel, sample_categorical


@dataclass(frozen=True)
class Dream:
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
def dream(
    model: WorldModel,
    policy: ActorCritic,
    support: Tensor,
    replay: Replay,
    rng: np.random.Generator,
    steps: int,
    count: int,
) -> Dream:
    """`count` rollouts of `steps` steps from frames of the memory.

    support  (N,)  the rewards that the model tells apart; what it expects is paid
    """
    device, (channels, *_) = support.device, model.frame_shape
    times = replay.drawable()
    begins = times[(rng.random((steps + 1, count)) * len(times)).astype(np.int64)]
    draws = torch.from_numpy(rng.random((steps, 2 + model.prior.n_groups, count), dtype=np.float32))
    history = _observations(replay, begins[0], device)
    kept: list[tuple[Tensor, ...]] = []
    values: list[Tensor] = []
    for step, (for_action, for_end, *for_bits) in enumerate(draws.to(device)):
        seen = history[:, -policy.shape[0] :]
        logits, value = policy(model.scaled(seen))
        log_probs = logits.log_softmax(-1)
        actions = sample_categorical(log_probs, for_action)
        outcome = model.predict(history, actions, torch.stack(for_bits, dim=1))
        ended = for_end < outcome.end.sigmoid()
        rewards = outcome.reward.softmax(-1) @ support
        kept.append((seen, actions, taken(log_probs, actions), rewards, ended.float()))
        values.append(value)
        frame = model.draw_frame(outcome, history)
        history = torch.cat([history[:, channels:], frame], dim=1)
        if over := ended.cpu().numpy().nonzero()[0].tolist():
            history[over] = _observations(replay, begins[step + 1, over], device)
    values.append(policy(model.scaled(history[:, -policy.shape[0] :]))[1])
    seen, actions, log_probs, rewards, ends = (
        torch.stack(part) for part in zip(*kept, strict=True)
    )
    return Dream(seen, actions, log_probs, rewards, ends, torch.stack(values))


def _observations(replay: Replay, times: IntArray, device: torch.device) -> Tensor:
    return torch.from_numpy(replay.observations(times)).to(device)
