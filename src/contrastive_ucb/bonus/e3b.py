"""E3B: the elliptical bonus within an episode, in features of inverse dynamics.

Henaff, Raileanu, Jiang, Rocktäschel (2022), "Exploration via elliptical episodic bonuses", NeurIPS.

| paper                     | here                                                               |
|---------------------------|--------------------------------------------------------------------|
| phi                       | `InverseDynamics`, of the next observation                         |
| C, lambda = 0.1           | `EpisodicEllipses`, reset at the end of an episode                 |
| b = phi' inv(C) phi       | scope="episodic", the default                                      |

In the scope "product" it is multiplied by sqrt(phi' inv(Sigma) phi), where Sigma sums over all
transitions. Sigma is computed again after each training, from a sample of the transitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus, Scope, Training, as_array
from contrastive_ucb.bonus.dynamics import InverseDynamics
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream


class E3B(Bonus):
    """The elliptical bonus of features that are trained to predict actions.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of weights and training.
        scope: "lifelong", "episodic" or "product".
        device: Of the networks.
        dim: d.
        hidden: Widths of the layers of the encoder.
        ridge: Of the lifelong matrix Sigma.
        episodic_ridge: lambda, of the episodic matrices.
        unit: Whether to scale features to unit length, so that lambda has the same effect for all
            observations; False for the paper's features.
        training: When and how the features are trained, on a sample of all past transitions.
        encoder: The user's module from a batch of observations to vectors (n, k); a copy
            of it is trained.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import E3B
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> bonus = E3B(env.observation_space, env.action_space)
        >>> bonus.step([0], [1], [4], [False]).round(3)
        array([10.])
        >>> bonus.compute([0], [1], [4]).round(3)  # the second visit in the episode
        array([0.909])
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int = 1,
        seed: int = 0,
        scope: Scope = "episodic",
        device: torch.device | str = "cpu",
        dim: int = 64,
        hidden: Sequence[int] = (256,),
        ridge: float = 1.0,
        episodic_ridge: float = 0.1,
        unit: bool = True,
        training: Training = Training(),  # noqa: B008
        encoder: nn.Module | None = None,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_size("dim", dim)
        actions = self.n_actions, prod(self.action_shape)
        rng = stream(seed, "inverse dynamics")
        self.inverse = InverseDynamics(
            self.arrays.leaves, *actions, dim, hidden, rng, encoder, unit
        )
        self._set_up_training(self.inverse, training)
        self.ellipse = self.parts["ellipse"] = EllipticalBonus(dim, ridge=ridge)
        self._set_up_episodes(dim, episodic_ridge)

    def _features(self, batch: Transitions) -> Array:
        return as_array(self.inverse(batch.next_obs))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        return np.asarray(self.ellipse(torch.from_numpy(features)))

    def _count(self, batch: Transitions, features: Array) -> None:
        if self.scope != "episodic":
            self.ellipse.observe(torch.from_numpy(features))

    def _loss(self, batch: Transitions) -> Tensor:
        actions = torch.from_numpy(batch.actions).to(self.device)
        return self.inverse.loss(self.inverse(batch.obs), self.inverse(batch.next_obs), actions)

    def _trained(self, n_trainings: int) -> None:
        if self.scope != "episodic":
            assert self.memory is not None
            rows = torch.from_numpy(self._features(self.memory.all()))
            self.ellipse.rebuild(rows, weight=self.memory.n_seen / len(self.memory))
