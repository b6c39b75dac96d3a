"""MinAtar against the Gymnasium environments of its package, seeds, and the time limit."""

import numpy as np
import pytest

pytest.importorskip("minatar", reason="needs minatar")

from minatar.gym import BaseEnv

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import minatar
from contrastive_ucb.envs.minatar import MinAtar
from contrastive_ucb.envs.registry import MINATAR, make_deep_env


@pytest.mark.parametrize("name", MINATAR)
def test_equals_the_package(name: str) -> None:
    env = make_deep_env(name, seed=4, training=True)
    twin = BaseEnv(MINATAR[name], use_minimal_action_set=True)
    actions = iter(stream(0, "actions").integers(env.n_actions, size=600))
    for episode in range(3):
        seed = int(stream(4, f"env/train/{episode}").integers(2**32))
        twin.game.last_action = 0
        np.testing.assert_array_equal(env.reset(), twin.reset(seed=seed)[0].transpose(2, 0, 1))
        for action in actions:
            step = env.step(int(action))
            seen, reward, terminated, _, _ = twin.step(action)
            np.testing.assert_array_equal(step.frame, seen.transpose(2, 0, 1))
            assert step.reward == step.raw_reward == reward >= 0
            assert step.terminated == step.episode_over == terminated
            if terminated:
                break
    assert env.n_actions == twin.action_space.n
    assert (env.name, env.stack, env.frame.dtype) == (name, 1, np.uint8)
    assert env.frame_shape == env.frame.shape == (twin.game.n_channels, 10, 10)
    assert env.render().shape == (160, 160, 3)


def test_time_limit_truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minatar, "MAX_STEPS", 3)
    env = MinAtar("MinAtar/Freeway-v1", seed=0)
    env.reset()
    steps = [env.step(0) for _ in range(3)]
    assert [(step.truncated, step.episode_over) for step in steps] == [(False,) * 2] * 2 + [
        (True, True)
    ]
    assert not any(step.terminated for step in steps)
