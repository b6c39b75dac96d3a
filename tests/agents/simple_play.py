"""Small SimPLe learners with replay memories, for tests."""

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from contrastive_ucb.agents.simple.agent import Simple
from contrastive_ucb.agents.simple.config import configure_simple
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.registry import make_deep_env
from contrastive_ucb.representation.world_model import WorldModel

TINY: dict[str, Any] = {
    "epoch_steps": 12,
    "history": 2,
    "width": 4,
    "bits": 3,
    "model_hidden": 8,
    "hidden": 8,
    "mlp": (8,),
    "model_updates": 2,
    "first_model_updates": 3,
    "model_batch": 4,
    "rounds": 2,
    "rollouts": 3,
    "rollout_steps": 4,
    "batch_size": 6,
    "passes": 2,
    "replay_capacity": 200,
}
SEA, BREAKOUT = "DeepSea-5", "MinAtar/Breakout-v1"


def learner(
    env_name: str = BREAKOUT, steps: int = 60, seed: int = 0, **changes: Any
) -> tuple[Simple, Replay]:
    """An untrained learner, and a memory of uniform actions."""
    env = make_deep_env(env_name, seed=seed, training=True)
    config = configure_simple({**TINY, **changes}, env.frame_shape)
    agent = Simple(config, env.frame_shape, env.stack, env.n_actions, env.value_range, seed=0)
    replay = agent.new_replay()
    draws = np.random.default_rng(seed)
    replay.begin(env.reset())
    for _ in range(steps):
        action = int(draws.integers(env.n_actions))
        step = env.step(action)
        replay.add(action, step.reward, step.frame, step.terminated, step.truncated)
        if step.terminated or step.truncated:
            replay.begin(env.reset())
    return agent, replay


class Spy:
    """Records the histories with which a method of a world model is called."""

    def __init__(self, model: WorldModel, monkeypatch: pytest.MonkeyPatch, method: str):
        self.histories: list[Tensor] = []
        original = getattr(model, method)

        def recorded(history: Tensor, *rest: Any) -> Any:
            self.histories.append(history.clone())
            return original(history, *rest)

        monkeypatch.setattr(model, method, recorded)
