"""The elliptical bonus sqrt(phi' inv(Sigma) phi) of fixed, given or learned features.

| `of`   | feature                              | paper                                     |
|--------|--------------------------------------|-------------------------------------------|
| `next` | psi(s'), of the next observation     |                                           |
| `pair` | phi(s, a), phi(s) in the block of a  | Algorithm 1, lines 9 and 10               |

Sigma = ridge I + the sum of phi phi' over all observed transitions.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from contrastive_ucb.bonus.base import Bonus, Scope, as_array
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.bonus.spaces import Arrays, ObservationEncoder
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.representation.encoders import linear


class Elliptical(Bonus):
    """The elliptical bonus of features that this class does not train.

    Without an encoder, discrete observations are one-hot, and others pass through a fixed random
    network whose output has unit length. If the encoder is trained elsewhere, for example as part
    of the agent, call `rebuild` after it has changed.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of the random network.
        scope: "lifelong", "episodic" or "product".
        device: Of the encoder.
        of: "next" for a feature of s', "pair" for one of (s, a).
        encoder: A module from a batch of observations to features (n, d).
        dim: d of the random network.
        ridge: lambda.

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
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        if of not in ("next", "pair"):
            raise UserError(f"of must be 'next' or 'pair', got {of!r}")
        check_size("dim", dim)
        self.of = of
        rng = stream(seed, "fixed features")
        is_discrete = all(leaf.kind == "onehot" for leaf in self.arrays.leaves)
        hidden = () if is_discrete or encoder is not None else (256,)
        self.encoder = ObservationEncoder(self.arrays, hidden, rng, encoder).to(self.device)
        self.projection = linear(self.encoder.dim, dim, rng).to(self.device) if hidden else None
        size = dim if hidden else self.encoder.dim
        self.ellipse = EllipticalBonus(
            size, ridge=ridge, blocks=self._needs_discrete() if of == "pair" else 1
        )
        self.parts |= {"encoder": self.encoder, "ellipse": self.ellipse}
        if self.projection is not None:
            self.parts["projection"] = self.projection
        if scope != "lifelong" and of == "pair":
            raise UserError("of='pair' has no episodic part; use of='next' or scope='lifelong'")
        self._measures_episodes(size)

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
        return as_array(self.ellipse.of_all(self._encode(self.arrays(obs))))

    def _encode(self, observations: Arrays) -> Tensor:
        rows: Tensor = self.encoder(observations)
        if self.projection is not None:
            rows = nn.functional.normalize(self.projection(rows), dim=-1)
        return rows

    def _features(self, batch: Transitions) -> Array:
        return as_array(self._encode(batch.next_obs if self.of == "next" else batch.obs))

    def _lifelong(self, batch: Transitions, features: Array) -> Array:
        rows = torch.from_numpy(features)
        return np.asarray(self.ellipse(rows, torch.from_numpy(batch.actions)))

    def _count(self, batch: Transitions, features: Array) -> None:
        self.ellipse.observe(torch.from_numpy(features), torch.from_numpy(batch.actions))
