"""Environments saved within an episode continue bit for bit in another process."""

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envs import frame_play
from envs.frame_play import play, standing

from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari import ATARI_100K
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_deep_env

HAS_ATARI = find_spec("ale_py") is not None and find_spec("cv2") is not None
NAMES = [
    "DeepSea-10",
    "CartPole-v1",
    *(["Pong", "Qbert"] if HAS_ATARI else []),
    *(["MinAtar/Breakout-v1", "MinAtar/Seaquest-v1"] if find_spec("minatar") else []),
]
needs_atari = pytest.mark.skipif(not HAS_ATARI, reason="needs ale-py and opencv-python-headless")


def test_new_process_continues_bit_for_bit(tmp_path: Path) -> None:
    envs = {name: make_deep_env(name, seed=3, training=True) for name in NAMES}
    for env in envs.values():
        env.reset()
        play(env, 121)
    folder = save_checkpoint(tmp_path, 0, {n: env.state_dict() for n, env in envs.items()})
    expected = {
        name: [standing(env), play(env, 80, seed=1), standing(env)] for name, env in envs.items()
    }
    command = [sys.executable, frame_play.__file__, str(folder), "80"]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(child.stdout) == expected
    assert all(after[0] > 0 for name, (_, _, after) in expected.items() if "-" in name)


@needs_atari
@pytest.mark.slow
@pytest.mark.parametrize("game", ATARI_100K)
def test_every_atari_100k_game_is_restored(game: str) -> None:
    env, other = (make_deep_env(game, seed=0, training=True) for _ in range(2))
    other.reset()
    play(other, 300, seed=9)  # loading must overwrite this
    env.reset()
    play(env, 700)
    other.load_state_dict(env.state_dict())
    assert play(env, 300, seed=1) == play(other, 300, seed=1)
    assert standing(env) == standing(other)


@needs_atari
def test_state_between_a_lost_life_and_reset() -> None:
    env, other = (make_deep_env("Breakout", seed=0, training=True) for _ in range(2))
    env.reset()
    while not (step := env.step(1)).terminated:
        pass
    assert not step.episode_over
    other.load_state_dict(env.state_dict())
    with pytest.raises(Exception, match="call reset"):
        other.step(0)
    np.testing.assert_array_equal(other.reset(), step.frame)
    assert other.episode == 0
    assert other.n_steps == env.n_steps


def test_states_before_and_between_episodes() -> None:
    env = make_deep_env("CartPole-v1", seed=0, training=True)
    fresh = env.state_dict()
    first = env.reset()
    while not env.step(0).episode_over:
        pass
    ended = env.state_dict()
    second = env.reset()
    env.load_state_dict(ended)
    np.testing.assert_array_equal(env.reset(), second)
    env.load_state_dict(fresh)
    assert env.episode == -1
    np.testing.assert_array_equal(env.reset(), first)


def test_irreproducible_replay_raises() -> None:
    env = make_deep_env("CartPole-v1", seed=0, training=True)
    env.reset()
    play(env, 5)
    state: Mapping[str, Any] = env.state_dict()
    with pytest.raises(UserError, match="CartPole-v1 is not reproducible: replaying its 5 actions"):
        env.load_state_dict({**state, "checksum": state["checksum"] ^ 1})
    changed = state["actions"].copy()
    changed[1] = 1 - changed[1]
    with pytest.raises(UserError, match="is not reproducible"):
        env.load_state_dict({**state, "actions": changed})
    assert env.episode == -1


@pytest.mark.parametrize(("name", "seed"), [("DeepSea-9", 0), ("DeepSea-10", 1)])
def test_state_of_another_environment_raises(name: str, seed: int) -> None:
    state = make_deep_env("DeepSea-10", seed=0, training=True).state_dict()
    with pytest.raises(UserError, match=r"belongs to .*DeepSea-10.*, not to"):
        make_deep_env(name, seed=seed, training=True).load_state_dict(state)


def test_steps_need_a_reset_and_a_valid_action() -> None:
    env = make_deep_env("DeepSea-2", seed=0, training=True)
    assert isinstance(env, FrameEnv)
    with pytest.raises(Exception, match="call reset"):
        env.step(0)
    env.reset()
    with pytest.raises(ValueError, match=r"action is 2; it must be one of 0\.\.1"):
        env.step(2)
    env.step(0)
    assert env.n_steps == 1
    env.reset()  # within an episode: starts the next one
    assert (env.episode, env.n_steps) == (1, 0)
