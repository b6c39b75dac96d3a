"""Visit counts of observations, exact or with SimHash.

Bellemare et al. (2016), "Unifying count-based exploration and intrinsic motivation", NeurIPS;
Tang et al. (2017), "#Exploration: a study of count-based exploration for deep reinforcement
learning", NeurIPS, for SimHash.

| paper                      | here                                                              |
|----------------------------|-------------------------------------------------------------------|
| n(s), counting this visit  | `VisitCounts`                                                     |
| 1 / sqrt(n(s))             | the lifelong bonus                                                |
| sgn(A g(s)), k bits        | `keys="hash"`: the sides of k random hyperplanes on which g(s) is |
| g                          | inputs of the first linear layer of the networks, see `spaces`    |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from contrastive_ucb.bonus.base import Bonus, Scope, as_array
from contrastive_ucb.bonus.episodic import EpisodicVisits
from contrastive_ucb.bonus.memory import Transitions
from contrastive_ucb.bonus.spaces import ObservationEncoder
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_choice, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.representation.encoders import linear

KEY_BYTES = 16  # a digest of the observation; two of 2^32 observations collide with chance 2^-65


class VisitCounts:
    """Number of visits of each key."""

    def __init__(self) -> None:
        self.visits: Counter[bytes] = Counter()

    def state_dict(self) -> dict[str, Any]:
        keys = np.frombuffer(b"".join(self.visits), np.uint8).reshape(-1, KEY_BYTES)
        return {"keys": keys.copy(), "visits": np.array(list(self.visits.values()), np.int64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        keys = np.asarray(state["keys"], np.uint8).reshape(-1, KEY_BYTES)
        numbers = np.asarray(state["visits"]).tolist()
        self.visits = Counter(dict(zip(map(bytes, keys), numbers, strict=True)))


class Counts(Bonus):
    """1 / sqrt(n), where n counts the visits including the present one.

    The episodic bonus is 1 at the first visit of an episode and 0 later.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the counts.
        seed: Of the hyperplanes.
        scope: "lifelong", "episodic" or "product".
        device: Of the encoder.
        of: "next" to count s', "pair" to count (s, a).
        keys: "exact" to count equal observations; "hash" to count observations that lie on the same
            side of all random hyperplanes; "auto" for "hash" if there is an encoder or an
            observation has an image or a vector, whose values rarely repeat.
        bits: Number of hyperplanes. More bits tell more observations apart.
        encoder: The user's module from a batch of observations to features (n, d) that are hashed.

    Examples:
        >>> import gymnasium
        >>> from contrastive_ucb.bonus import Counts
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> bonus = Counts(env.observation_space, env.action_space)
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
        keys: Literal["auto", "exact", "hash"] = "auto",
        bits: int = 32,
        encoder: nn.Module | None = None,
    ):
        super().__init__(observation_space, action_space, n_envs, seed, scope, device)
        check_choice("of", of, ("next", "pair"))
        check_choice("keys", keys, ("auto", "exact", "hash"))
        check_size("bits", bits)
        rng = stream(seed, "hyperplanes")
        if encoder is not None and keys == "exact":
            raise UserError("keys='exact' does not use the encoder; pass keys='hash'")
        if of == "pair":
            self._needs_discrete()
        self.of, leaves = of, self.arrays.leaves
        is_discrete = encoder is None and all(x.kind not in ("image", "vector") for x in leaves)
        self.planes: nn.Module | None = None
        if keys == "hash" or (keys == "auto" and not is_discrete):
            self.planes = _planes(ObservationEncoder(leaves, (), rng, encoder), bits, rng)
            self.parts["planes"] = self.planes.to(self.device)
        self.counts = self.parts["counts"] = VisitCounts()
        if scope != "lifelong":
            self.episodes = self.parts["episodes"] = EpisodicVisits(n_envs)

    @property
    def is_of_pair(self) -> bool:
        return self.of == "pair"

    @torch.no_grad()
    def of_actions(self, obs: Any) -> Array:
        """Compute the lifelong bonus of every action, with of="pair".

        Args:
            obs: Observations (n, ...).

        Returns:
            Bonuses of shape (n, number of actions).
        """
        if self.of != "pair":
            raise UserError("the bonus depends on the next observation; make it with of='pair'")
        parts = self.arrays(obs)
        n, actions = len(parts[0]), range(self._needs_discrete())
        batches = [Transitions(parts, np.full(n, a, np.int64), parts) for a in actions]
        return np.stack([self._lifelong(x, self._features(x)) for x in batches], axis=1)

    def _features(self, batch: Transitions) -> list[bytes]:
        parts = batch.next_obs if self.of == "next" else batch.obs
        if self.planes is not None:
            parts = (np.packbits(as_array(self.planes(parts)) > 0, axis=1),)
        if self.of == "pair":
            parts = (*parts, batch.actions)
        # Adding 0 gives -0.0 and 0.0 the same bytes.
        rows = [(x + x.dtype.type(0)).reshape(len(batch), prod(x.shape[1:])) for x in parts]
        content = np.concatenate([np.ascontiguousarray(x).view(np.uint8) for x in rows], 1)
        return [blake2b(row.tobytes(), digest_size=KEY_BYTES).digest() for row in content]

    def _lifelong(self, batch: Transitions, features: list[bytes]) -> Array:
        return 1 / np.sqrt([1.0 + self.counts.visits[key] for key in features])

    def _count(self, batch: Transitions, features: list[bytes]) -> None:
        self.counts.visits.update(features)


def _planes(encoder: ObservationEncoder, bits: int, rng: np.random.Generator) -> nn.Module:
    """Distances from random planes, through 0 as in the paper except for vectors.

    Planes through 0 do not tell x from 2x. For vectors, whose scaled entries are around [-1, 1],
    each plane passes through a uniform point of [-1, 1]^k.
    """
    layer = linear(encoder.dim, bits, rng)
    normals = rng.standard_normal((bits, encoder.dim))
    points = rng.uniform(-1, 1, (bits, encoder.dim))
    points *= encoder.is_vector
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(normals))
        layer.bias.copy_(torch.from_numpy(-(normals * points).sum(1)))
    return nn.Sequential(encoder, layer)
