"""Disagreement: the variance of an ensemble of forward models.

Pathak, Gandhi, Gupta (2019), "Self-supervised exploration via disagreement", ICML.

| paper                                 | here                                                   |
|---------------------------------------|--------------------------------------------------------|
| phi, random features                  | `FixedFeatures`                                        |
| f_1, ..., f_K                         | `ForwardModels`; each trains on its own bootstrap      |
|                                       | sample of every batch                                  |
| variance of f_k(phi(s), a)            | the bonus: over k, averaged over features              |

Noise that cannot be predicted leaves no bonus, because all models learn its mean.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus, Scope, Training, as_array
from contrastive_ucb.bonus.dynamics import ForwardModels
from contrastive_ucb.bonus.fixed_features import FixedFeatures
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream


class Disagreement(Bonus):
    """The variance of the predictions of several forward models.

    The models predict fixed features of the next observation. The episodic part is elliptical in
    these features.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of weights and training.
        scope: "lifelong", "episodic" or "product".
        device: Of the networks.
        dim: Number of random features, see `Elliptical`.
        models: K, the size of the ensemble, at least 2.
        hidden: Width of the hidden layer of each model.
        episodic_ridge: Of the episodic matrices.
        training: When and how the models are trained, on a sample of all past transitions.
        encoder: The user's module from a batch of observations to features (n, d), not trained.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import Disagreement, Training
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> fast = Training(every=1, batch_size=4)
        >>> bonus = Disagreement(env.observation_space, env.action_space, training=fast)
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
        models: int = 5,
        hidden: int = 128,
        episodic_ridge: float = 0.1,
        training: Training = Training(learning_rate=1e-3),  # noqa: B008
        encoder: nn.Module | None = None,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_size("models", models, least=2)
        check_size("hidden", hidden)
        rng = stream(seed, "disagreement")
        self.encoder = FixedFeatures(self.arrays.leaves, dim, rng, encoder).to(self.device)
        self.parts["encoder"] = self.encoder
        size, actions = self.encoder.dim, (self.n_actions, prod(self.action_shape))
        # Larger initial weights than usual, because models that start near 0 agree untrained.
        self.models = ForwardModels(models, size, size, *actions, hidden, rng, gain=sqrt(6))
        self._set_up_training(self.models, training)
        self._set_up_episodes(size, episodic_ridge)

    def _features(self, batch: Transitions) -> Array:
        return as_array(self.encoder(batch.next_obs))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        actions = torch.from_numpy(batch.actions).to(self.device)
        predictions = as_array(self.models(self.encoder(batch.obs), actions))
        return np.asarray(predictions.var(0).mean(1))

    def _loss(self, batch: Transitions) -> Tensor:
        assert self.memory is not None
        actions = torch.from_numpy(batch.actions).to(self.device)
        features, targets = self.encoder(batch.obs), self.encoder(batch.next_obs)
        shape = len(self.models.weights[0]), len(batch)
        rows = torch.from_numpy(self.memory.rng.integers(0, len(batch), shape)).to(self.device)
        errors: Tensor = self.models(features[rows], actions[rows]) - targets[rows]
        return errors.square().sum((0, 2)).mean()
