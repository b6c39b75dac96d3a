"""Random network distillation: the error of predicting the output of a fixed random network.

Burda, Edwards, Storkey, Klimov (2019), "Exploration by random network distillation", ICLR.

| paper              | here                                                                      |
|--------------------|---------------------------------------------------------------------------|
| f(x), fixed        | `Distillation.target`, scaled to unit length                              |
| f^(x; theta)       | `Distillation.predictor`, two layers deeper, trained on recent transitions |
| r_i                | |f^(s') - f(s')|^2                                                        |
| whitened inputs    | `Whitening`, of images and vectors; symbolic inputs are one-hot           |
| reward scale       | `RewardNormalizer`                                                        |

Unit length gives errors the same scale in all observation spaces. As in the paper, the networks
start without biases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus, Scope, Training, as_array
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.bonus.spaces import Arrays, Leaf, ObservationEncoder, he_start
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.representation.encoders import linear

CLIP = 5.0  # of whitened inputs


class Distillation(nn.Module):
    """The random target and its predictor, from observations to (n, d)."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        dim: int,
        hidden: Sequence[int],
        rng: np.random.Generator,
        encoder: nn.Module | None = None,
    ):
        super().__init__()

        def network(layers: int) -> nn.Sequential:
            first = ObservationEncoder(leaves, hidden, rng, deepcopy(encoder))
            between = [linear(first.dim, first.dim, rng) for _ in range(layers)]
            steps = [step for layer in between for step in (layer, nn.ReLU())]
            head = nn.Sequential(*steps, linear(first.dim, dim, rng))
            for own in (*first.parts, head):
                he_start(own)
            return nn.Sequential(first, head)

        self.target, self.predictor = network(1).requires_grad_(False), network(3)


class Whitening:
    """Images and vectors with the running mean subtracted, divided by the standard deviation.

    The moments start as those of one observation with mean 0 and variance 1.

    Attributes:
        leaves: The parts of an observation, for the encoders.
    """

    def __init__(self, leaves: Sequence[Leaf]):
        self.at = [i for i, leaf in enumerate(leaves) if leaf.kind in ("image", "vector")]
        self.leaves = tuple(
            _unscaled(leaf) if i in self.at else leaf for i, leaf in enumerate(leaves)
        )
        self.n_seen = 1
        self.mean = [np.zeros(leaves[i].shape) for i in self.at]
        self.square = [np.ones(leaves[i].shape) for i in self.at]

    def update(self, observations: Arrays) -> None:
        """Add a batch to the moments."""
        self.n_seen += len(observations[0])
        rate = len(observations[0]) / self.n_seen
        for mean, square, i in zip(self.mean, self.square, self.at, strict=True):
            x = observations[i].astype(np.float64)
            mean += rate * (x.mean(0) - mean)
            square += rate * ((x**2).mean(0) - square)

    def __call__(self, observations: Arrays) -> Arrays:
        """Whiten a batch."""
        whitened = list(observations)
        for mean, square, i in zip(self.mean, self.square, self.at, strict=True):
            deviation = np.sqrt(np.maximum(square - mean**2, 1e-8))
            scaled = ((observations[i] - mean) / deviation).clip(-CLIP, CLIP)
            whitened[i] = scaled.astype(np.float32)
        return tuple(whitened)

    def state_dict(self) -> dict[str, Any]:
        copies = [[x.copy() for x in moments] for moments in (self.mean, self.square)]
        return {"n_seen": self.n_seen, "mean": copies[0], "square": copies[1]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.n_seen = int(state["n_seen"])
        self.mean = [np.array(x, np.float64) for x in state["mean"]]
        self.square = [np.array(x, np.float64) for x in state["square"]]


class RND(Bonus):
    """Random network distillation.

    The bonus is the squared error of a network that learns to predict the output of a fixed random
    network at the next observation. It is small where the predictor was trained. The episodic part
    is elliptical in the output of the random network.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of weights and training.
        scope: "lifelong", "episodic" or "product".
        device: Of the networks.
        dim: Number of outputs of both networks.
        hidden: Widths of the layers of the encoders.
        episodic_ridge: Of the episodic matrices.
        training: When and how the predictor is trained, on the latest transitions.
        encoder: The user's module from a batch of observations to vectors (n, k); both networks
            start with a copy of it, and inputs are not whitened.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import RND, Training
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> fast = Training(every=1, batch_size=4)
        >>> bonus = RND(env.observation_space, env.action_space, training=fast)
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
        training: Training = Training(learning_rate=1e-3, memory=2048),  # noqa: B008
        encoder: nn.Module | None = None,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_size("dim", dim)
        self.whitening = Whitening(() if encoder is not None else self.arrays.leaves)
        leaves = self.whitening.leaves or self.arrays.leaves
        rng = stream(seed, "random network distillation")
        self.networks = Distillation(leaves, dim, hidden, rng, encoder)
        self._set_up_training(self.networks, training, keep="latest")
        self.parts["whitening"] = self.whitening
        self._set_up_episodes(dim, episodic_ridge)

    def _features(self, batch: Transitions) -> Array:
        return as_array(self._target(self.whitening(batch.next_obs)))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        predicted = as_array(self.networks.predictor(self.whitening(batch.next_obs)))
        return np.asarray(((predicted - features) ** 2).sum(1))

    def _count(self, batch: Transitions, features: Array) -> None:
        self.whitening.update(batch.next_obs)

    def _loss(self, batch: Transitions) -> Tensor:
        observations = self.whitening(batch.next_obs)
        error: Tensor = self.networks.predictor(observations) - self._target(observations)
        return error.square().sum(1).mean()

    def _target(self, observations: Arrays) -> Tensor:
        return F.normalize(self.networks.target(observations), dim=-1)


def _unscaled(leaf: Leaf) -> Leaf:
    """The leaf with bounds for which its encoder does not scale the input again."""
    if leaf.kind == "image":
        return replace(leaf, dtype=np.dtype(np.float32), high=np.float32(1))
    low, high = (np.full(leaf.shape, bound, np.float32) for bound in (-1, 1))
    return replace(leaf, low=low, high=high)
