"""PPO of Stable-Baselines3 (Schulman et al. 2017) in the run loop of the deep agents.

An event is one rollout of all environments with the updates that follow it. The state between two
rollouts consists of the weights, the optimizer, the bonus and the episodes of the environments,
which are replayed as in `envs/frames.py`. Stable-Baselines3 draws from the global generators of
torch and NumPy; `seeded` sets them for each rollout and restores them, so they need not be saved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from contrastive_ucb.agents.deep.network import not_finite
from contrastive_ucb.agents.deep.trainer import DeepTrainer
from contrastive_ucb.agents.ppo.config import PPOConfig
from contrastive_ucb.bonus.reward import IntrinsicReward
from contrastive_ucb.bonus.sb3 import OBSERVATION_FEATURES
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import Event
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.history import Frames
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_deep_env

try:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CallbackList
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise UserError("ppo needs Stable-Baselines3: pip install 'contrastive-ucb[sb3]'") from error

LAST = 100  # episodes over which success rates are averaged
LOGGED = {  # value of Stable-Baselines3: name in the log
    "train/policy_gradient_loss": "losses/policy",
    "train/value_loss": "losses/value",
    "train/entropy_loss": "losses/entropy",
    "train/approx_kl": "charts/kl",
    "train/clip_fraction": "charts/clip_fraction",
}


@contextmanager
def seeded(seed: int, name: str) -> Iterator[None]:
    """Draw from a named stream where code uses the global generators of torch and NumPy."""
    draws, before = stream(seed, name), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        torch.manual_seed(int(draws.integers(2**63)))
        np.random.seed(int(draws.integers(2**32)))  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


class FrameVecEnv(VecEnv):
    """Several `FrameEnv` as one environment of Stable-Baselines3, with an intrinsic reward.

    envs      assigned before the first reset
    frames    (n, stack, C, ...), the newest frames of each environment, oldest first
    episodes  score and length of the episodes that ended in this rollout
    added     mean intrinsic reward of each step of this rollout
    """

    def __init__(self, count: int, frame_shape: tuple[int, ...], stack: int, n_actions: int):
        self.envs: list[FrameEnv] = []
        shape, is_image = (stack * frame_shape[0], *frame_shape[1:]), len(frame_shape) == 3
        box: spaces.Box[Any] = (
            spaces.Box(0, 255, shape, dtype=np.uint8) if is_image else spaces.Box(-inf, inf, shape)
        )
        super().__init__(count, box, spaces.Discrete(n_actions))
        self.frames: Frames = np.zeros((count, stack, *frame_shape), box.dtype)
        self.intrinsic: IntrinsicReward | None = None
        self.actions: Any = None
        self.clear()

    def clear(self) -> None:
        """Begin the records of a new rollout."""
        self.episodes: list[tuple[float, int]] = []
        self.added: list[float] = []

    @property
    def observations(self) -> Frames:
        """A copy of the observations, (n, stack * C, ...)."""
        return self.frames.reshape(self.num_envs, -1, *self.frames.shape[3:]).copy()

    def reset(self) -> Frames:
        for at, env in enumerate(self.envs):
            self._begin(at, env.reset())
        return self.observations

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        rewards, dones = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        infos: list[dict[str, Any]] = [{} for _ in self.envs]
        before = self.observations
        for at, env in enumerate(self.envs):
            step = env.step(int(self.actions[at]))
            rewards[at], dones[at] = step.reward, step.terminated or step.truncated
            infos[at]["TimeLimit.truncated"] = step.truncated and not step.terminated
            self.frames[at, :-1] = self.frames[at, 1:]
            self.frames[at, -1] = step.frame
            if step.episode_over:
                self.episodes.append((env.raw_return, env.n_steps))
        after = self.observations  # with the final ones of episodes
        for at in np.flatnonzero(dones).tolist():
            infos[at]["terminal_observation"] = after[at]
            self._begin(at, self.envs[at].reset())
        if self.intrinsic is not None:
            added = self.intrinsic.step(before, self.actions, after, dones)
            self.added.append(float(added.mean()))
            rewards += added.astype(np.float32)
        return self.observations, rewards, dones, infos

    def _begin(self, at: int, frame: Frames) -> None:
        self.frames[at] = 0  # as in replay, frames before the first one are zero
        self.frames[at, -1] = frame

    # The rest of the interface of Stable-Baselines3

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


class PPOAgent:
    """The policy with its optimizer, and the intrinsic reward."""

    bonus: None = None  # none for Q; the intrinsic reward is part of the reward

    def __init__(
        self,
        config: PPOConfig,
        frame_shape: tuple[int, ...],
        stack: int,
        n_actions: int,
        value_range: tuple[float, float],
        seed: int,
        device: str = "cpu",
    ):
        self.venv = venv = FrameVecEnv(config.envs, frame_shape, stack, n_actions)
        box = venv.observation_space
        self.inputs = SimpleNamespace(shape=box.shape, dtype=box.dtype)
        if config.intrinsic.is_on:
            venv.intrinsic = config.intrinsic.make(
                box, venv.action_space, config.envs, seed, device
            )
        with seeded(seed, "weights"):
            self.model = PPO(
                "MlpPolicy",
                venv,
                n_steps=config.rollout_steps,
                n_epochs=config.passes,
                batch_size=config.batch_size,
                learning_rate=config.learning_rate,
                gamma=config.discount,
                gae_lambda=config.trace,
                clip_range=config.clip,
                ent_coef=config.entropy,
                vf_coef=config.value_weight,
                max_grad_norm=config.clip_norm,
                policy_kwargs={**OBSERVATION_FEATURES, "net_arch": list(config.mlp)},
                device=device,
            )
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        self.model.ep_info_buffer, self.model.ep_success_buffer = deque(), deque()
        self.callback = CallbackList([])
        self.callback.init_callback(self.model)

    @property
    def n_updates(self) -> int:
        """Passes over a rollout so far."""
        return int(self.model._n_updates)

    def new_replay(self) -> None:
        """PPO has no replay memory."""

    def begin(self) -> None:
        """Start the first episodes."""
        self.model._last_obs = self.venv.reset()
        self.model._last_episode_starts = np.ones(self.venv.num_envs, bool)

    def rollout(self) -> dict[str, float]:
        """Collect a rollout and learn from it; returns what Stable-Baselines3 logs."""
        model = self.model
        model.collect_rollouts(self.venv, self.callback, model.rollout_buffer, model.n_steps)
        model.train()
        values = model.logger.name_to_value
        return {name: float(values[key]) for key, name in LOGGED.items()}

    @torch.no_grad()
    def best(self, observations: Frames) -> IntArray:
        """The most likely actions (B,) for observations (B, stack * C, ...)."""
        return np.asarray(self.probabilities(observations).argmax(-1))

    @torch.no_grad()
    def probabilities(self, observations: Frames) -> Array:
        """Probabilities (B, A) of the actions, from which evaluations draw."""
        policy: Any = self.model.policy
        policy.set_training_mode(False)
        rows = policy.obs_to_tensor(observations)[0]
        chances = policy.get_distribution(rows).distribution.probs
        return np.asarray(chances.cpu(), dtype=np.float64)

    @torch.no_grad()
    def values(self, observation: Frames) -> tuple[Array, None]:
        """Log-probabilities of the actions (A,) for one observation, shifted so that the largest
        equals the value of the state; without bonus."""
        policy: Any = self.model.policy
        rows = policy.obs_to_tensor(observation[None])[0]
        logits = policy.get_distribution(rows).distribution.logits
        shifted = logits - logits.max() + policy.predict_values(rows)
        return np.asarray(shifted[0].cpu(), dtype=np.float64), None

    def check_finite(self) -> None:
        """Raise ArithmeticError if a weight is not finite."""
        if broken := not_finite(self.model.policy.state_dict()):
            raise ArithmeticError(
                f"{broken} of the policy is not finite after update {self.n_updates}"
            )

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer and bonus, without the episodes of the environments."""
        model, intrinsic = self.model, self.venv.intrinsic
        return {
            "policy": model.policy.state_dict(),
            "optimizer": model.policy.optimizer.state_dict(),
            "n_updates": self.n_updates,
            "intrinsic": {} if intrinsic is None else intrinsic.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        model, intrinsic = self.model, self.venv.intrinsic
        model.policy.load_state_dict(state["policy"])
        model.policy.optimizer.load_state_dict(state["optimizer"])
        model._n_updates = state["n_updates"]
        if intrinsic is not None:
            intrinsic.load_state_dict(state["intrinsic"])


class PPOTrainer(DeepTrainer):
    """The trainer of PPO; the steps of a run are rounded up to whole rollouts."""

    learner = PPOAgent
    config: PPOConfig
    agent: PPOAgent

    def __init__(
        self, env: FrameEnv, config: PPOConfig, seed: int, steps: int, device: str = "cpu"
    ):
        super().__init__(env, config, seed, steps, device)
        self.seed, self.venv = seed, self.agent.venv
        roles = [f"{env.role}-{number}" for number in range(1, config.envs)]
        rules: Any = {"training": True, "rules": config.atari}
        others = [make_deep_env(env.name, seed=seed, role=role, **rules) for role in roles]
        self.venv.envs = [env, *others]

    def run(self, until: int) -> Iterator[Event]:
        """Take whole rollouts until there are `until` steps; yields an event after each."""
        if self.env.episode < 0:
            self.agent.begin()
        while self.n_steps < until:
            self.venv.clear()
            self.is_complete = False
            with seeded(self.seed, f"rollout {self.n_steps}"):
                values = self.agent.rollout()
            self.n_steps += self.config.envs * self.config.rollout_steps
            self.is_complete = True
            yield Event(self.n_steps, values | self._measured())

    def choose(self) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError  # Stable-Baselines3 chooses the actions

    def _measured(self) -> dict[str, float]:
        """Means over the episodes and the intrinsic rewards of the last rollout."""
        values: dict[str, float] = {}
        if self.venv.episodes:
            scores, lengths = zip(*self.venv.episodes, strict=True)
            self.returns += scores
            values["charts/episodic_return"] = float(np.mean(scores))
            values["charts/episodic_length"] = float(np.mean(lengths))
        if self.returns:
            values["charts/success_rate"] = success_rate(self.returns)
        if self.venv.added:
            values["bonus/intrinsic_reward"] = float(np.mean(self.venv.added))
        return values

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "other_envs": [env.state_dict() for env in self.venv.envs[1:]],
            "frames": self.venv.frames.copy(),
            "episode_starts": np.array(self.agent.model._last_episode_starts),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for env, saved in zip(self.venv.envs[1:], state["other_envs"], strict=True):
            env.load_state_dict(saved)
        self.venv.frames[:] = np.asarray(state["frames"])
        self.agent.model._last_obs = self.venv.observations
        self.agent.model._last_episode_starts = np.asarray(state["episode_starts"])


def success_rate(returns: Sequence[float]) -> float:
    """The fraction of the last episodes with a positive return: those that reached the goal, in
    environments that pay only there."""
    return float(np.mean(np.array(returns[-LAST:]) > 0))
