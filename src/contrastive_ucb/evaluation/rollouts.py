"""Scores of a deep agent: whole episodes with raw rewards, many of them at once.

Episode k of n is played in environment k mod 100, with random numbers of that environment only, so
that long and short episodes count alike and the scores depend on nothing but the seed and n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.checks import check_size
from contrastive_ucb.data.history import Frames
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.training.streams import stream

AT_ONCE = 100
LONGEST = 27_000  # steps, Atari's limit: a game that has none of its own would go on for ever


class Player(Protocol):
    """Whoever is evaluated."""

    def best(self, observations: Frames) -> Any:
        """Actions (B,) for observations (B, stack * C, ...)."""
        ...


def evaluate(agent: Player, env_name: str, seed: int, episodes: int, epsilon: float) -> Array:
    """The raw scores (episodes,) of the agent, with the part `epsilon` of uniform actions."""
    check_size("episodes", episodes)
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must be in [0, 1], got {epsilon}")
    envs = make_eval_envs(env_name, seed=seed, count=min(episodes, AT_ONCE))
    seats = [
        _Seat(env, stream(seed, f"eval/{at}"), range(at, episodes, len(envs)))
        for at, env in enumerate(envs)
    ]
    scores = np.zeros(episodes)
    while seats:
        actions = agent.best(np.stack([seat.observation() for seat in seats]))
        for seat, action in zip(seats, actions, strict=True):
            seat.play(int(action), epsilon, scores)
        seats = [seat for seat in seats if seat.episodes]
    return scores


def digest(scores: Array) -> dict[str, Any]:
    """What a summary says of the scores (episodes,)."""
    return {
        "mean": float(scores.mean()),
        "median": float(np.median(scores)),
        "episodes": len(scores),
    }


class _Seat:
    """An environment, its newest frames, and the numbers of the episodes it has yet to play."""

    def __init__(self, env: FrameEnv, random: np.random.Generator, episodes: Sequence[int]):
        self.env, self.random, self.episodes = env, random, episodes
        first = env.reset()
        self.frames: Frames = np.zeros((env.stack, *env.frame_shape), first.dtype)
        self.frames[-1] = first  # as in replay, blanks stand for what was before the episode

    def observation(self) -> Frames:
        """(stack * C, ...), oldest frame first"""
        return self.frames.reshape(-1, *self.frames.shape[2:])

    def play(self, best: int, epsilon: float, scores: Array) -> None:
        """One step; the score of an episode that it ends goes to its place in `scores`."""
        uniform = self.random.random(2)
        action = int(uniform[1] * self.env.n_actions) if uniform[0] < epsilon else best
        step = self.env.step(action)
        cut = self.env.n_steps >= LONGEST
        if step.episode_over or cut:
            scores[self.episodes[0]] = self.env.raw_return
            self.episodes = self.episodes[1:]
        if step.terminated or step.truncated or cut:
            self.frames[:] = 0
            self.frames[-1] = self.env.reset()
        else:
            self.frames[:-1] = self.frames[1:]
            self.frames[-1] = step.frame
