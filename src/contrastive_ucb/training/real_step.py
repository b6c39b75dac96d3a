"""A step in the real environment, as every deep trainer takes it."""

from __future__ import annotations

from typing import Any

from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.frames import FrameEnv


def take_step(
    env: FrameEnv, replay: Replay, returns: list[float], action: int, **extras: Any
) -> dict[str, float]:
    """Take the action, remember what came of it and begin anew where that ended; what is noted.

    returns  of all episodes so far; an episode that is over adds its own
    extras   what the replay keeps beside the transition
    """
    step = env.step(action)
    replay.add(action, step.reward, step.frame, step.terminated, step.truncated, **extras)
    figures: dict[str, float] = {}
    if step.episode_over:
        returns.append(env.raw_return)
        figures["charts/episodic_return"] = env.raw_return
        figures["charts/episodic_length"] = env.n_steps
    if step.terminated or step.truncated:
        replay.begin(env.reset())
    return figures
