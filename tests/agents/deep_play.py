"""A small learner and random transitions, for tests of the deep agents."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.data.replay import Batch, Replay

SMALL = RainbowConfig(
    hidden=6,
    mlp=(5,),
    atoms=7,
    support=(-2.0, 2.0),
    n_step=3,
    jumps=2,
    batch_size=6,
    replay_capacity=200,
    learning_rate=1e-2,
)


def learner(
    seed: int = 0, shape: tuple[int, ...] = (4,), stack: int = 1, **settings: Any
) -> Rainbow:
    """A learner with the settings of SMALL and three actions."""
    return Rainbow(replace(SMALL, **settings), shape, stack, 3, (-1.0, 1.0), seed)


def play(agent: Rainbow, replay: Replay, steps: int, rng: np.random.Generator) -> None:
    """Random frames, rewards and ends; the learner's actions, half of them forced."""
    for _ in range(steps):
        if not replay.history.running:
            replay.begin(_frame(replay, rng))
        forced = int(rng.integers(3)) if rng.random() < 0.5 else None
        action, extras = agent.act(replay.observation(), forced)
        end = rng.random(2) < 0.1
        terminated, truncated = bool(end[0]), bool(end[1] and not end[0])
        reward = float(rng.normal())
        replay.add(action, reward, _frame(replay, rng), terminated, truncated, **extras)
        if agent.explorer is not None:
            agent.explorer.observe(replay)


def draw(agent: Rainbow, replay: Replay, rng: np.random.Generator) -> Batch:
    return replay.sample(rng.random(agent.config.batch_size), importance_exponent=0.6)


def train(agent: Rainbow, replay: Replay, rounds: int, rng: np.random.Generator) -> None:
    """Three steps and one update per round."""
    for _ in range(rounds):
        play(agent, replay, 3, rng)
        agent.update(replay, draw(agent, replay, rng))


def started(agent: Rainbow, seed: int = 0) -> tuple[Replay, np.random.Generator]:
    """A memory of 60 steps, and the random stream for later steps."""
    replay, rng = agent.new_replay(), np.random.default_rng(seed)
    play(agent, replay, 60, rng)
    return replay, rng


def _frame(replay: Replay, rng: np.random.Generator) -> Any:
    frames = replay.history.frame
    if frames.dtype == np.uint8:
        return rng.integers(0, 256, frames.shape[1:], dtype=np.uint8)
    return rng.normal(size=frames.shape[1:]).astype(np.float32)


def assert_equal(first: Any, second: Any) -> None:
    """Nested state dictionaries are equal bit for bit."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_equal(first[key], second[key])
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    else:
        assert first == second
