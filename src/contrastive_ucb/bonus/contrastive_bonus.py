"""The elliptical bonus of features that are trained online with the contrastive loss.

| paper               | here                                                                     |
|---------------------|--------------------------------------------------------------------------|
| phi(s, a), psi(s')  | `ContrastiveFeatures`: an encoder and a linear head each                 |
| f(s, a, s')         | `critic="exponential"`: exp(e^c sqrt(d) cos(phi, psi) + b);              |
|                     | `critic="linear"`: psi'phi of positive features, the paper's model       |
| contrastive loss    | `contrastive_logit_loss` (eq. contra-loss), negatives from the batch     |
| Sigma, beta         | `EllipticalBonus` on features of the last snapshot                       |

Algorithm 1 uses phi(s, a) and a lifelong bonus. On grid worlds with partial views psi(s') and the
product with the episodic bonus explore much better, so they are the default; `feature="phi",
scope="lifelong", critic="linear"` is the literal transfer of the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus, Scope, Training, as_array
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.bonus.spaces import Arrays, ObservationArrays, ObservationEncoder
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_choice, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.representation.encoders import linear

Critic = Literal["exponential", "linear"]


def contrastive_logit_loss(logits: Tensor) -> Tensor:
    """The contrastive loss of a batch, with log f as logits   (eq. contra-loss).

    The label is a fair coin: log(1 + 1/f) is averaged over the B observed pairs and log(1 + f) over
    the B (B - 1) pairs with the next state of another transition.

    logits  (B, B)  log f(s_i, a_i, s'_j); returns ()
    """
    size = len(logits)
    observed = logits.diagonal()
    negatives = F.softplus(logits).sum() - F.softplus(observed).sum()
    return F.softplus(-observed).mean() / 2 + negatives / (2 * size * (size - 1))


class ContrastiveFeatures(nn.Module):
    """phi(s, a) and psi(s'), and the logits of all pairs of a batch.

    n_actions  number of heads of phi, or None for continuous actions, which are inputs of the head
    """

    def __init__(
        self,
        arrays: ObservationArrays,
        n_actions: int | None,
        action_dim: int,
        dim: int,
        hidden: Sequence[int],
        critic: Critic,
        rng: np.random.Generator,
        encoder: nn.Module | None = None,
    ):
        super().__init__()
        self.n_actions, self.dim, self.critic = n_actions, dim, critic
        self.phi_encoder = ObservationEncoder(arrays.leaves, hidden, rng, deepcopy(encoder))
        self.psi_encoder = ObservationEncoder(arrays.leaves, hidden, rng, deepcopy(encoder))
        inputs, heads = self.phi_encoder.dim, n_actions or 1
        self.phi_head = linear(inputs + (0 if n_actions else action_dim), heads * dim, rng)
        self.psi_head = linear(self.psi_encoder.dim, dim, rng)
        self.log_scale = nn.Parameter(torch.zeros(()))  # c
        self.offset = nn.Parameter(torch.zeros(()))  # b

    def phi(self, observations: Arrays, actions: Tensor) -> Tensor:
        """(n, *shape), (n,) or (n, k) -> (n, d)"""
        if self.n_actions is None:
            rows = torch.cat([self.phi_encoder(observations), actions.flatten(1)], 1)
            return self._shaped(self.phi_head(rows))
        return self.phi_of_all(observations)[torch.arange(len(actions)), actions]

    def phi_of_all(self, observations: Arrays) -> Tensor:
        """phi of every action, (n, A, d)."""
        heads = self.phi_head(self.phi_encoder(observations))
        return self._shaped(heads.view(len(heads), -1, self.dim))

    def psi(self, next_observations: Arrays) -> Tensor:
        """(n, *shape) -> (n, d)"""
        return self._shaped(self.psi_head(self.psi_encoder(next_observations)))

    def logits(self, phi: Tensor, psi: Tensor) -> Tensor:
        """log f of all pairs.   (n, d), (m, d) -> (n, m)"""
        if self.critic == "linear":
            return (phi @ psi.mT).log()
        return self.log_scale.exp() * sqrt(self.dim) * (phi @ psi.mT) + self.offset

    def _shaped(self, x: Tensor) -> Tensor:
        """Features of unit length, or positive ones for the linear critic."""
        return F.softplus(x) + 1e-4 if self.critic == "linear" else F.normalize(x, dim=-1)


class Contrastive(Bonus):
    """The elliptical bonus of contrastively learned features.

    The features are trained on a uniform sample of all past transitions. Every `snapshot_every`
    trainings the bonus takes over the current features: Sigma is recomputed from the sample,
    scaled to the number of transitions seen, and the episodic matrices start again.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of weights and training.
        scope: "lifelong", "episodic" or "product".
        device: Of the networks.
        feature: "psi" for psi(s'), "phi" for phi(s, a).
        critic: "exponential", or "linear" for the paper's model.
        dim: d.
        hidden: Widths of the layers of the encoders.
        ridge: lambda.
        episodic_ridge: Of the episodic matrices.
        training: When and how the features are trained.
        snapshot_every: Trainings between two snapshots of the features.
        encoder: The user's module from a batch of observations to vectors (n, k); both encoders
            are copies of it.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import Contrastive
        >>> env = gymnasium.make("CartPole-v1")
        >>> bonus = Contrastive(env.observation_space, env.action_space, n_envs=1, seed=0)
        >>> obs, _ = env.reset(seed=0)
        >>> next_obs, *_ = env.step(1)
        >>> bonus.compute(obs[None], [1], next_obs[None]).round(2)
        array([10.])
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int = 1,
        seed: int = 0,
        scope: Scope = "product",
        device: torch.device | str = "cpu",
        feature: Literal["psi", "phi"] = "psi",
        critic: Critic = "exponential",
        dim: int = 64,
        hidden: Sequence[int] = (256,),
        ridge: float = 1.0,
        episodic_ridge: float = 0.1,
        training: Training = Training(),  # noqa: B008
        snapshot_every: int = 4,
        encoder: nn.Module | None = None,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_choice("feature", feature, ("psi", "phi"))
        check_choice("critic", critic, get_args(Critic))
        check_size("dim", dim)
        check_size("snapshot_every", snapshot_every)
        self.feature, self.snapshot_every = feature, snapshot_every
        network = ContrastiveFeatures(
            self.arrays,
            self.n_actions,
            int(np.prod(self.action_shape)),
            dim,
            hidden,
            critic,
            stream(seed, "contrastive features"),
            encoder,
        )
        self.features_network = network
        self._set_up_training(network, training)
        self.snapshot = deepcopy(network).requires_grad_(False)
        self.ellipse = EllipticalBonus(dim, ridge=ridge)
        self.parts |= {"snapshot": self.snapshot, "ellipse": self.ellipse}
        self._set_up_episodes(dim, episodic_ridge)

    @property
    def is_of_pair(self) -> bool:
        return self.feature == "phi" and self.n_actions is not None

    @torch.no_grad()
    def of_actions(self, obs: Any) -> Array:
        """Compute the lifelong bonus of every action, with feature="phi".

        Args:
            obs: Observations (n, ...).

        Returns:
            Bonuses of shape (n, number of actions).
        """
        if self.feature != "phi":
            raise UserError("the bonus depends on the next observation; make it with feature='phi'")
        self._needs_discrete()
        return as_array(self.ellipse(_unit(self.snapshot.phi_of_all(self.arrays(obs))).cpu()))

    def _features(self, batch: Transitions) -> Array:
        if self.feature == "psi":
            return as_array(_unit(self.snapshot.psi(batch.next_obs)))
        actions = torch.from_numpy(batch.actions).to(self.device)
        return as_array(_unit(self.snapshot.phi(batch.obs, actions)))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        return np.asarray(self.ellipse(torch.from_numpy(features)))

    def _count(self, batch: Transitions, features: Array) -> None:
        self.ellipse.observe(torch.from_numpy(features))

    def _loss(self, batch: Transitions) -> Tensor:
        network, actions = self.features_network, torch.from_numpy(batch.actions).to(self.device)
        phi, psi = network.phi(batch.obs, actions), network.psi(batch.next_obs)
        return contrastive_logit_loss(network.logits(phi, psi))

    def _trained(self, n_trainings: int) -> None:
        if n_trainings % self.snapshot_every:
            return
        assert self.memory is not None
        self.snapshot.load_state_dict(self.features_network.state_dict())
        rows = torch.from_numpy(self._features(self.memory.all()))
        self.ellipse.rebuild(rows, weight=self.memory.n_seen / len(self.memory))
        if self.episodes is not None:
            self.episodes.end(np.arange(self.n_envs))


def _unit(features: Tensor) -> Tensor:
    """Features of unit length, also those of the linear critic."""
    return F.normalize(features, dim=-1)
