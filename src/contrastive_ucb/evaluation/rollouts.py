"""Evaluate a policy on whole episodes with raw rewards, many episodes in parallel.

Episode k of n is played in environment k mod 100 and uses only the random streams of that
environment. Long and short episodes therefore count alike, and the scores depend only on the seed,
the number of episodes and the evaluation's index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.checks import check_size
from contrastive_ucb.data.history import Frames
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.training.streams import stream

AT_ONCE = 100
LONGEST = 27_000  # steps per episode (Atari's limit), for environments without a time limit


class Player(Protocol):
    """A policy that can be evaluated."""

    def best(self, observations: Frames) -> Any:
        """Actions (B,) for observations (B, stack * C, ...)."""
        ...


class ConstantPolicy:
    """Always takes the same action."""

    def __init__(self, action: int):
        self.action = action

    def best(self, observations: Frames) -> IntArray:
        return np.full(len(observations), self.action, dtype=np.int64)


class RandomPolicy:
    """Draws actions uniformly from `n_actions`."""

    def __init__(self, n_actions: int, random: np.random.Generator):
        self.n_actions, self.random = n_actions, random

    def best(self, observations: Frames) -> IntArray:
        return self.random.integers(self.n_actions, size=len(observations))


def evaluate(
    agent: Player,
    env_name: str,
    seed: int,
    episodes: int,
    epsilon: float,
    index: int = 0,
    rules: str = "standard",
) -> Array:
    """Raw scores (episodes,) of the agent when a fraction `epsilon` of its actions is uniform.

    index  evaluations of one seed with different indices play different episodes
    rules  of Atari games, see `envs/atari.py`
    """
    check_size("episodes", episodes)
    check_size("index", index, least=0)
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must be in [0, 1], got {epsilon}")
    n_envs = min(episodes, AT_ONCE)
    first = index * n_envs
    envs = make_eval_envs(env_name, seed=seed, count=n_envs, first=first, rules=rules)
    seats = [
        _Seat(env, stream(seed, f"eval/{first + at}"), range(at, episodes, n_envs))
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
    """Mean, median and number of the scores (episodes,)."""
    return {
        "mean": float(scores.mean()),
        "median": float(np.median(scores)),
        "episodes": len(scores),
    }


def summarize_evaluations(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summary of the evaluations of one run.

    evaluations  each has `step` and `scores`, and all have the same number of scores
    returns      `mean` and `median` over the scores of all evaluations, `episodes` per evaluation,
                 and the `points`: the step and the mean of each evaluation
    """
    scores = np.array([one["scores"] for one in evaluations])  # (points, episodes)
    return {
        "mean": float(scores.mean()),
        "median": float(np.median(scores)),
        "episodes": scores.shape[1],
        "points": [
            {"step": one["step"], "mean": float(np.mean(one["scores"]))} for one in evaluations
        ],
    }


class _Seat:
    """An environment, its newest frames, and the indices of the episodes it still has to play."""

    def __init__(self, env: FrameEnv, random: np.random.Generator, episodes: Sequence[int]):
        self.env, self.random, self.episodes = env, random, episodes
        first = env.reset()
        self.frames: Frames = np.zeros((env.stack, *env.frame_shape), first.dtype)
        self.frames[-1] = first  # as in replay, frames before the first one are zero

    def observation(self) -> Frames:
        """(stack * C, ...), oldest frame first"""
        return self.frames.reshape(-1, *self.frames.shape[2:])

    def play(self, best: int, epsilon: float, scores: Array) -> None:
        """Take one step; if it ends an episode, store the score at the episode's index."""
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
