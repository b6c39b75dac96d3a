"""Every environment is a Gymnasium environment: registered, checked, playable."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from contrastive_ucb.envs import DeepSea, Lock, LowRankMDP, RiverSwim, TabularMDP

ENVS: dict[type[TabularMDP], dict[str, Any]] = {
    DeepSea: {"size": 5},
    Lock: {"n_dead": 3},
    LowRankMDP: {"reward": "linear"},
    RiverSwim: {"n_states": 4},
    TabularMDP: {"transitions": np.full((2, 3, 2, 3), 1 / 3), "rewards": np.zeros((2, 3, 2))},
}


@pytest.mark.parametrize("env_class", ENVS, ids=lambda c: c.__name__)
def test_passes_the_checker_without_a_warning(env_class: type[TabularMDP]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"contrastive_ucb/{env_class.__name__}-v0", **ENVS[env_class])
        assert type(env.unwrapped) is env_class
        check_env(env.unwrapped)
        env.reset(seed=0)
        terminated, n_steps = False, 0
        while not terminated:
            terminated, n_steps = env.step(env.action_space.sample())[2], n_steps + 1
    assert n_steps == env.unwrapped.horizon


@pytest.mark.parametrize("env_class", ENVS, ids=lambda c: c.__name__)
def test_one_step_episodes_pass_too(env_class: type[TabularMDP]) -> None:
    short: dict[str, Any] = {"size": 1} if env_class is DeepSea else {"horizon": 1}
    if env_class is TabularMDP:
        short = {name: array[:1] for name, array in ENVS[TabularMDP].items()}
    check_env(env_class(**short), skip_render_check=True)
