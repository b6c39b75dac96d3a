"""The elliptical bonus as a part of the reward, for an agent that knows nothing of it.

    env = BonusWrapper(gymnasium.make("CartPole-v1"), scale=0.1)
    observation, reward, terminated, truncated, info = env.step(action)
    reward == info["raw_reward"] + info["bonus"]

| paper        | here                                                        |
|--------------|-------------------------------------------------------------|
| phi^(s, a)   | `features` of s in the block of a, zero in the other blocks |
| Sigma^       | `bonus.sigma`, over all visits since the wrapper was made   |
| r + beta     | the reward that `step` returns                              |

Two things that Algorithm 1 has are lost on the way through the reward. It is optimistic about every
action, also about those not taken; a reward is only paid for the action that was. And its bonuses
are always those of now, while a replay memory keeps the rewards, and so the bonuses, of their time.
An agent that can be changed keeps both with `EllipticalBonus` in its target and in its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from torch import Tensor

from contrastive_ucb.bonus.online import EllipticalBonus

Features = Callable[[Any], Any]  # an observation to an array or tensor (d,)
LARGEST = 4096  # d of a flattened observation; a block of Sigma takes 128 MB there


class BonusWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds scale * sqrt(phi' inv(Sigma) phi) to the reward of (s_t, a_t), once it is counted.

    env       any environment with Discrete actions
    features  the feature (d,) of an observation; None flattens it, and makes discrete ones one-hot
    scale     gamma; no bonus is larger, as a pair is counted before it is paid
    ridge     lambda; if it is small beside |phi|^2, the first visit pays almost `scale`

    `bonus` is the `EllipticalBonus`, with a block of Sigma for each action. It outlives a reset, so
    a seed does not repeat the rewards, and `spec` says that the environment is nondeterministic.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        features: Features | None = None,
        scale: float = 0.1,
        ridge: float = 0.01,
    ):
        given: dict[str, Any] = {"features": features, "scale": scale, "ridge": ridge}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **given)
        super().__init__(env)
        actions = env.action_space
        if not isinstance(actions, spaces.Discrete):
            raise ValueError(
                f"the actions are {actions}; the bonus needs Discrete ones, so wrap the "
                "environment in gymnasium.wrappers.TransformAction with a list of actions first"
            )
        self.features = _flattened(env.observation_space) if features is None else features
        self._first_action = int(actions.start)
        self._observation: Any = None
        example = deepcopy(env.observation_space).sample()  # the space's own draws stay as they are
        dim = len(self._feature(example))
        self.bonus = EllipticalBonus(dim, scale, ridge, blocks=int(actions.n))
        if self.spec is not None:  # a copy of the environment's own, made once
            self.spec.nondeterministic = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._observation is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() before step()")
        feature = self._feature(self._observation)
        self._observation, paid, terminated, truncated, info = self.env.step(action)
        block = torch.tensor(int(action) - self._first_action)
        self.bonus.observe(feature, block)
        bonus, reward = float(self.bonus(feature, block)), float(paid)
        info = {**info, "bonus": bonus, "raw_reward": reward}
        return self._observation, reward + bonus, terminated, truncated, info

    def rebuild(self, observations: Iterable[Any], actions: Iterable[Any]) -> None:
        """Forget all counts and count these pairs, with the features of now.

        Needed now and then if `features` learns, as Sigma is a sum over features that have moved
        since. Give it what the agent remembers, such as the contents of its replay memory.
        """
        rows = [self._feature(observation) for observation in observations]
        blocks = torch.tensor([int(action) - self._first_action for action in actions])
        self.bonus.rebuild(torch.stack(rows), blocks)

    def state_dict(self) -> dict[str, Any]:
        """What was counted. Where the episode stands is for the environment to say."""
        return {"bonus": self.bonus.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.bonus.load_state_dict(state["bonus"])

    @torch.no_grad()
    def _feature(self, observation: Any) -> Tensor:
        """phi (d,) of one observation, in float64 and sharing no memory with it."""
        feature = torch.as_tensor(self.features(observation)).detach()
        if feature.ndim != 1:
            raise ValueError(
                f"features returned the shape {tuple(feature.shape)} for one observation; it must "
                "return a vector (d,)"
            )
        return feature.to("cpu", torch.float64, copy=True)


def _flattened(space: spaces.Space[Any]) -> Features:
    """The observation as one vector, where that is possible and short enough for a bonus."""
    if not space.is_np_flattenable:
        raise ValueError(f"observations of {space} are no vector; pass features= to make one")
    if (dim := spaces.flatdim(space)) > LARGEST:
        raise ValueError(
            f"a flattened observation has {dim} entries, more than {LARGEST}; pass features= to "
            "make a shorter vector"
        )
    return lambda observation: np.asarray(spaces.flatten(space, observation))
