"""The elliptical bonus as part of the reward, for agents that cannot be changed.

    env = BonusWrapper(gymnasium.make("CartPole-v1"), scale=0.1)
    observation, reward, terminated, truncated, info = env.step(action)
    reward == info["raw_reward"] + info["bonus"]

| paper        | here                                                        |
|--------------|-------------------------------------------------------------|
| phi^(s, a)   | `features` of s in the block of a, zero in the other blocks |
| Sigma^       | `bonus.sigma`, over all visits since the wrapper was made   |
| r + beta     | the reward that `step` returns                              |

Compared with Algorithm 1, a bonus in the reward has two disadvantages. It applies only to actions
that were taken, while Algorithm 1 is optimistic about all actions. And a replay memory stores
bonuses that become outdated. To avoid both, use `EllipticalBonus` in the targets and in the action
selection of the agent.
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
LARGEST = 4096  # the largest d of a flattened observation; a block of Sigma then takes 128 MB


class BonusWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds the elliptical bonus to the reward of an environment, for agents that cannot be changed.

    The reward of `step` is `info["raw_reward"] + info["bonus"]`, where the bonus of (s_t, a_t) is
    computed after counting the visit. A reset does not clear the counts, so rewards are not
    determined by the seed, and `spec` marks the environment as nondeterministic.

    Args:
        env: Any environment with Discrete actions.
        features: Maps an observation to its feature (d,); None flattens it (discrete ones to
            one-hot).
        scale: gamma, an upper bound of the bonus.
        ridge: lambda; if it is small compared with |phi|^2, the first bonus is close to `scale`.

    Attributes:
        bonus: The `EllipticalBonus`, with one block of Sigma per action.

    Raises:
        ValueError: The actions are not Discrete, or observations cannot be flattened.

    Examples:
        >>> import gymnasium
        >>> import contrastive_ucb as cu
        >>> env = cu.BonusWrapper(gymnasium.make("CartPole-v1"), scale=0.1)
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(0)
        >>> reward == info["raw_reward"] + info["bonus"]
        True
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        features: Features | None = None,
        scale: float = 0.1,
        ridge: float = 0.01,
    ):
        if not isinstance(env, gymnasium.Env):
            raise ValueError(f"env must be a gymnasium.Env, got {env!r}; use gymnasium.make(id)")
        if features is not None and not callable(features):
            raise ValueError(f"features must be a function of an observation, got {features!r}")
        given: dict[str, Any] = {"features": features, "scale": scale, "ridge": ridge}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **given)
        super().__init__(env)
        actions = env.action_space
        if not isinstance(actions, spaces.Discrete):
            raise ValueError(
                f"the action space is {actions}, but the bonus needs Discrete actions; wrap the"
                " environment in gymnasium.wrappers.TransformAction with a list of actions"
            )
        self.features = _flattened(env.observation_space) if features is None else features
        self._first_action = int(actions.start)
        self._observation: Any = None
        example = deepcopy(env.observation_space).sample()  # does not advance the space's generator
        dim = len(self._feature(example))
        self.bonus = EllipticalBonus(dim, scale, ridge, blocks=int(actions.n))
        if self.spec is not None:  # a copy, so the spec of `env` does not change
            self.spec.nondeterministic = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._observation is None:
            raise gymnasium.error.ResetNeeded("no episode was started; call reset() before step()")
        feature = self._feature(self._observation)
        self._observation, raw, terminated, truncated, info = self.env.step(action)
        block = torch.tensor(int(action) - self._first_action)
        self.bonus.observe(feature, block)
        bonus, reward = float(self.bonus(feature, block)), float(raw)
        info = {**info, "bonus": bonus, "raw_reward": reward}
        return self._observation, reward + bonus, terminated, truncated, info

    def rebuild(self, observations: Iterable[Any], actions: Iterable[Any]) -> None:
        """Replace all counts by these pairs, with their current features.

        Needed periodically if `features` is learned, because Sigma sums outdated features. Pass the
        pairs that the agent stores, such as those in its replay memory.

        Args:
            observations: Observations of the environment.
            actions: The action taken at each observation.
        """
        rows = [self._feature(observation) for observation in observations]
        blocks = torch.tensor([int(action) - self._first_action for action in actions])
        self.bonus.rebuild(torch.stack(rows), blocks)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, without the state of the episode.

        Returns:
            A dictionary of tensors and numbers.
        """
        return {"bonus": self.bonus.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned.

        Args:
            state: The dictionary.
        """
        if not isinstance(state, Mapping) or "bonus" not in state:
            raise ValueError(f"state must be what state_dict() returned, got {state!r:.80}")
        self.bonus.load_state_dict(state["bonus"])

    @torch.no_grad()
    def _feature(self, observation: Any) -> Tensor:
        """phi (d,) of one observation, a copy in float64."""
        feature = torch.as_tensor(self.features(observation)).detach()
        if feature.ndim != 1:
            raise ValueError(
                f"features returned shape {tuple(feature.shape)} for one observation; it must"
                " return a vector (d,)"
            )
        return feature.to("cpu", torch.float64, copy=True)


def _flattened(space: spaces.Space[Any]) -> Features:
    """A function that flattens observations to vectors of at most `LARGEST` entries."""
    if not space.is_np_flattenable:
        raise ValueError(f"observations of {space} cannot be flattened; pass features=")
    if (dim := spaces.flatdim(space)) > LARGEST:
        raise ValueError(
            f"a flattened observation has {dim} entries, more than {LARGEST}; pass features= with a"
            " smaller dimension"
        )
    return lambda observation: np.asarray(spaces.flatten(space, observation))
