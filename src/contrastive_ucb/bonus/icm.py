"""ICM, the intrinsic curiosity module: the error of predicting the next features.

Pathak, Agrawal, Efros, Darrell (2017), "Curiosity-driven exploration by self-supervised
prediction", ICML.

| paper                                | here                                                |
|--------------------------------------|-----------------------------------------------------|
| phi, g (inverse model)               | `InverseDynamics`                                   |
| f (forward model)                    | `ForwardModels` with one model                      |
| r = eta/2 |f(phi(s), a) - phi(s')|^2 | with eta = 1; `RewardNormalizer` sets the scale     |
| (1 - beta) L_I + beta L_F            | the loss, trained for phi, g and f                  |
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
from contrastive_ucb.bonus.dynamics import ForwardModels, InverseDynamics
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_number, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream


class ICM(Bonus):
    """The error of predicting the features of the next observation.

    The features are trained to predict actions. The episodic part is elliptical in them.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of weights and training.
        scope: "lifelong", "episodic" or "product".
        device: Of the networks.
        dim: Number of features.
        hidden: Widths of the layers of the encoder.
        episodic_ridge: Of the episodic matrices.
        forward_weight: beta, the weight of the forward loss, below 1.
        unit: Whether to scale features to unit length, so that errors cannot shrink with them;
            False for the paper's features.
        training: When and how the networks are trained, on the latest transitions.
        encoder: The user's module from a batch of observations to vectors (n, k); a copy
            of it is trained.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import ICM, Training
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> fast = Training(every=1, batch_size=4)
        >>> bonus = ICM(env.observation_space, env.action_space, training=fast)
        >>> first = bonus.step([0], [1], [4], [False])
        >>> bool(bonus.compute([0], [1], [4]) < first)  # the second visit
        True
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int = 1,
        seed: int = 0,
        scope: Scope = "lifelong",
        device: torch.device | str = "cpu",
        dim: int = 64,
        hidden: Sequence[int] = (256,),
        episodic_ridge: float = 0.1,
        forward_weight: float = 0.2,
        unit: bool = True,
        training: Training = Training(learning_rate=1e-3, memory=2048),  # noqa: B008
        encoder: nn.Module | None = None,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_size("dim", dim)
        check_number("forward_weight", forward_weight, positive=True)
        if forward_weight >= 1:
            raise UserError(f"forward_weight must be below 1, got {forward_weight}; 0.2 is usual")
        self.forward_weight = forward_weight
        actions = self.n_actions, prod(self.action_shape)
        rng = stream(seed, "intrinsic curiosity module")
        self.inverse = InverseDynamics(
            self.arrays.leaves, *actions, dim, hidden, rng, encoder, unit
        )
        self.model = ForwardModels(1, dim, dim, *actions, 256, rng)
        self._set_up_training(nn.ModuleList([self.inverse, self.model]), training, keep="latest")
        self._set_up_episodes(dim, episodic_ridge)

    def _features(self, batch: Transitions) -> Array:
        return as_array(self.inverse(batch.next_obs))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        actions = torch.from_numpy(batch.actions).to(self.device)
        predicted = as_array(self.model(self.inverse(batch.obs), actions)[0])
        return np.asarray(((predicted - features) ** 2).sum(1) / 2)

    def _loss(self, batch: Transitions) -> Tensor:
        actions = torch.from_numpy(batch.actions).to(self.device)
        phi, next_phi = self.inverse(batch.obs), self.inverse(batch.next_obs)
        error: Tensor = self.model(phi, actions)[0] - next_phi
        forward, inverse = (
            error.square().sum(1).mean() / 2,
            self.inverse.loss(phi, next_phi, actions),
        )
        return (1 - self.forward_weight) * inverse + self.forward_weight * forward
