"""The elliptical bonus sqrt(phi' inv(Sigma) phi) of fixed, given or learned features.

| `of`   | feature                              | paper                                     |
|--------|--------------------------------------|-------------------------------------------|
| `next` | psi(s'), of the next observation     |                                           |
| `pair` | phi(s, a), phi(s) in the block of a  | Algorithm 1, lines 9 and 10               |

Sigma = ridge I + the sum of phi phi' over all observed transitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus, Scope, as_array
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.bonus.spaces import Arrays, Leaf, ObservationEncoder, he_start
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_choice, check_number, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.representation.encoders import linear


class FixedFeatures(nn.Module):
    """Features of observations that are not trained, from observations to (n, d).

    | observation space           | feature                                                       |
    |-----------------------------|---------------------------------------------------------------|
    | discrete parts only         | one-hot                                                       |
    | vectors only                | random Fourier features sqrt(2/d) cos(Wx + b), whose products |
    |                             | approximate exp(-|x - y|^2 / 2l^2) (Rahimi and Recht 2007)    |
    | images, grids, mixtures     | output of a random network, scaled to unit length             |
    | any, with `module`          | output of the module                                          |

    Vectors are scaled as in `spaces`, so l is relative to bounds of [-1, 1]. With random Fourier
    features, visits count for observations at a distance of less than about l.

    dim           d, except for one-hot features and a module
    length_scale  l
    """

    def __init__(
        self,
        leaves: Sequence[Leaf],
        dim: int,
        rng: np.random.Generator,
        module: nn.Module | None = None,
        length_scale: float = 0.3,
    ):
        super().__init__()
        check_size("dim", dim)
        check_number("length_scale", length_scale, positive=True, finite=True)
        kinds = {leaf.kind for leaf in leaves}
        is_direct = module is not None or kinds in ({"onehot"}, {"vector"})
        self.encoder = ObservationEncoder(leaves, () if is_direct else (256,), rng, module)
        self.is_fourier = module is None and kinds == {"vector"}
        self.is_random = module is None and kinds != {"onehot"}
        self.dim = dim if self.is_random else self.encoder.dim
        if self.is_random:
            self.projection = linear(self.encoder.dim, dim, rng)
            for own in (*self.encoder.parts, self.projection):
                he_start(own)
        if self.is_fourier:
            weight, bias = self.projection.weight, self.projection.bias
            with torch.no_grad():
                weight.copy_(torch.from_numpy(rng.standard_normal(weight.shape) / length_scale))
                bias.copy_(torch.from_numpy(rng.uniform(0, 2 * pi, bias.shape)))

    @torch.no_grad()
    def forward(self, observations: Arrays) -> Tensor:
        rows: Tensor = self.encoder(observations)
        if not self.is_random:
            return rows
        rows = self.projection(rows)
        return rows.cos() * sqrt(2 / self.dim) if self.is_fourier else F.normalize(rows, dim=-1)


class Elliptical(Bonus):
    """The elliptical bonus of features that this class does not train.

    Without an encoder, the features are those of `FixedFeatures`: one-hot, random Fourier features
    or a random network, depending on the observation space. If the encoder is trained elsewhere,
    for example as part of the agent, call `rebuild` after it has changed.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of the random network.
        scope: "lifelong", "episodic" or "product".
        device: Of the encoder.
        of: "next" for a feature of s', "pair" for one of (s, a).
        encoder: A module from a batch of observations to features (n, d).
        dim: d of random features.
        ridge: lambda.
        episodic_ridge: Of the episodic matrices.
        length_scale: Of random Fourier features.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import Elliptical
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> bonus = Elliptical(env.observation_space, env.action_space)
        >>> bonus.step([0], [1], [4], [False])
        array([1.])
        >>> bonus.compute([0], [1], [4]).round(3)  # the second visit
        array([0.707])
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int = 1,
        seed: int = 0,
        scope: Scope = "lifelong",
        device: torch.device | str = "cpu",
        of: Literal["next", "pair"] = "next",
        encoder: nn.Module | None = None,
        dim: int = 64,
        ridge: float = 1.0,
        episodic_ridge: float = 0.1,
        length_scale: float = 0.3,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_choice("of", of, ("next", "pair"))
        if scope != "lifelong" and of == "pair":
            raise UserError("of='pair' has no episodic part; use of='next' or scope='lifelong'")
        self.of = of
        rng = stream(seed, "fixed features")
        self.encoder = FixedFeatures(self.arrays.leaves, dim, rng, encoder, length_scale)
        self.encoder.to(self.device)
        self.ellipse = EllipticalBonus(
            self.encoder.dim, ridge=ridge, blocks=self._needs_discrete() if of == "pair" else 1
        )
        self.parts |= {"encoder": self.encoder, "ellipse": self.ellipse}
        self._set_up_episodes(self.encoder.dim, episodic_ridge)

    @torch.no_grad()
    def rebuild(self, obs: Any, actions: Any, next_obs: Any) -> None:
        """Replace Sigma by that of these transitions, scaled to the number observed.

        Args:
            obs: Observations (n, ...), for example from the replay memory of the agent.
            actions: The actions taken.
            next_obs: The next observations.
        """
        batch = self._batch(obs, actions, next_obs)
        rows, weight = torch.from_numpy(self._features(batch)), self.n_seen / max(1, len(batch))
        self.ellipse.rebuild(rows, torch.from_numpy(batch.actions), max(weight, 1.0))

    @property
    def is_of_pair(self) -> bool:
        return self.of == "pair"

    @torch.no_grad()
    def of_actions(self, obs: Any) -> Array:
        """Compute the bonus of every action, with of="pair".

        Args:
            obs: Observations (n, ...).

        Returns:
            Bonuses of shape (n, number of actions).
        """
        if self.of != "pair":
            raise UserError("the bonus depends on the next observation; make it with of='pair'")
        return as_array(self.ellipse.of_all(self.encoder(self.arrays(obs))))

    def _features(self, batch: Transitions) -> Array:
        return as_array(self.encoder(batch.next_obs if self.of == "next" else batch.obs))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        rows = torch.from_numpy(features)
        return np.asarray(self.ellipse(rows, torch.from_numpy(batch.actions)))

    def _count(self, batch: Transitions, features: Array) -> None:
        self.ellipse.observe(torch.from_numpy(features), torch.from_numpy(batch.actions))
