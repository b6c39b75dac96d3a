"""Costs of exploration bonuses, relative to PPO of Stable-Baselines3 on MiniGrid.

Each bonus runs on the same recorded transitions of a random policy, with its trainings and the
normalization of rewards. PPO runs without a bonus and with the contrastive one. All of them take
turns, with one thread. Times are processor times, so that a busy machine matters less.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Figures, Targets
from contrastive_ucb.bonus import BONUS_NAMES, EllipticalBonus, IntrinsicReward, make_bonus
from contrastive_ucb.bonus.episodic import EpisodicEllipses
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import one_thread

TARGETS: Targets = {
    "elliptical_us_per_step_d_64": ("<=", 50.0),
    "contrastive_over_ppo": ("<=", 0.75),
    "ppo_with_contrastive_over_ppo": ("<=", 1.75),
}
DIMS = (32, 64, 128)
ROLLOUT = 128  # steps of each environment per update of PPO


@dataclass(frozen=True)
class Options:
    """Costs of exploration bonuses, relative to PPO of Stable-Baselines3 on MiniGrid."""

    env: str = "MiniGrid-MultiRoom-N4-S5-v1"
    """MiniGrid environment."""
    n_envs: int = 16
    """Number of environments."""
    rollouts: int = 8
    """Rollouts of PPO per turn, with 128 steps of each environment."""
    turns: int = 3
    """Number of turns; times are medians over them."""
    seed: int = 0
    """Seed of environments, PPO and bonuses."""

    def __post_init__(self) -> None:
        for name, least in (("n_envs", 1), ("rollouts", 1), ("turns", 1), ("seed", 0)):
            check_size(name, getattr(self, name), least)


def measure(options: Options) -> Figures:
    try:
        import minigrid  # noqa: F401  registers its environments
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise UserError("this benchmark needs pip install contrastive-ucb[sb3,minigrid]") from error
    with one_thread():
        return elliptical(options) | bonuses_and_ppo(options)


def targets(options: Options) -> Targets:
    return TARGETS


def seconds(functions: dict[str, Callable[[], object]], turns: int) -> Figures:
    """Median processor seconds of each function. They alternate."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(turns):
        for name, function in functions.items():
            start = process_time()
            function()
            times[name].append(process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def elliptical(options: Options) -> Figures:
    """Microseconds per environment step of Sigma and of the episodic matrices, without features."""
    steps, n = ROLLOUT * options.rollouts, options.n_envs
    functions = {str(dim): partial(_elliptical, dim, n, steps, options.seed) for dim in DIMS}
    times = seconds(functions, options.turns)
    return {
        f"elliptical_us_per_step_d_{dim}": 1e6 * value / (steps * n) for dim, value in times.items()
    }


def _elliptical(dim: int, n: int, steps: int, seed: int) -> None:
    phi = stream(seed, "features").normal(size=(n, dim))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    lifelong, episodic, ids = EllipticalBonus(dim), EpisodicEllipses(n, dim), np.arange(n)
    for _ in range(steps):
        lifelong(torch.from_numpy(phi))
        episodic.compute(phi, ids)
        lifelong.observe(torch.from_numpy(phi))
        episodic.observe(phi, ids)


def bonuses_and_ppo(options: Options) -> Figures:
    """Milliseconds per 1,000 environment steps of each bonus and of PPO, and ratios."""
    from stable_baselines3 import PPO

    from contrastive_ucb.bonus.sb3 import OBSERVATION_FEATURES, BonusVecEnv

    def ppo(env: Any) -> Any:
        """With the settings of `cucb train --algo ppo`."""
        settings = {"n_steps": ROLLOUT, "batch_size": 256, "n_epochs": 4, "device": "cpu"}
        features = {"policy_kwargs": OBSERVATION_FEATURES}
        return PPO("MlpPolicy", env, **settings, **features, seed=options.seed)

    steps = ROLLOUT * options.rollouts * options.n_envs
    plain = _environments(options)
    alone = ppo(plain)
    with_bonus = ppo(BonusVecEnv(_environments(options), "contrastive", seed=options.seed))
    functions: dict[str, Callable[[], object]] = {
        "ppo": partial(alone.learn, steps),
        "ppo_with_contrastive": partial(with_bonus.learn, steps),
    }
    recorded = _random_steps(options)
    spaces = plain.observation_space, plain.action_space
    for name in BONUS_NAMES:
        bonus = make_bonus(name, *spaces, n_envs=options.n_envs, seed=options.seed)
        functions[name] = partial(_run, IntrinsicReward(bonus), recorded)
    times = seconds(functions, options.turns)
    ms = {f"{name}_ms_per_1000_steps": 1e6 * value / steps for name, value in times.items()}
    ratios = {f"{name}_over_ppo": times[name] / times["ppo"] for name in times if name != "ppo"}
    return ms | ratios


def _run(intrinsic: IntrinsicReward, recorded: list[tuple[Any, ...]]) -> None:
    for step in recorded:
        intrinsic.step(*step)


def _environments(options: Options) -> Any:
    from minigrid.wrappers import ImgObsWrapper
    from stable_baselines3.common.env_util import make_vec_env

    return make_vec_env(options.env, options.n_envs, options.seed, wrapper_class=ImgObsWrapper)


def _random_steps(options: Options) -> list[tuple[Any, ...]]:
    """Observations, actions, next observations and dones of a random policy."""
    env, rng, steps = _environments(options), stream(options.seed, "policy"), []
    obs = env.reset()
    for _ in range(ROLLOUT * options.rollouts):
        actions = rng.integers(env.action_space.n, size=options.n_envs)
        following, _, dones, infos = env.step(actions)
        final = following.copy()
        for at in np.flatnonzero(dones):
            final[at] = infos[at]["terminal_observation"]
        steps.append((obs, actions, final, dones))
        obs = following
    return steps
