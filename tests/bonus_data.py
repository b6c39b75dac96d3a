"""Spaces, random transitions and short settings for the tests of bonuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from contrastive_ucb.bonus import BONUS_NAMES, Training, make_bonus

N = 4  # environments
ACTIONS = spaces.Discrete(3, start=1)
SPACES: dict[str, spaces.Space[Any]] = {
    "grid": spaces.Box(0, 10, (3, 3, 2), np.uint8),
    "binary": spaces.Box(0, 1, (4, 4, 3), np.bool_),
    "image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
    "vector": spaces.Box(np.array([-2, -np.inf]), np.array([2, np.inf]), dtype=np.float64),
    "discrete": spaces.Discrete(6),
    "multi": spaces.MultiDiscrete([3, 4]),
    "dict": spaces.Dict(
        image=spaces.Box(0, 10, (3, 3, 2), np.uint8),
        direction=spaces.Discrete(4),
        mission=spaces.Text(10),
    ),
    "tuple": spaces.Tuple((spaces.Discrete(5), spaces.Box(-1, 1, (2,)))),
}
TRAINED = ("contrastive", "rnd", "e3b", "icm", "disagreement")
SCOPES = ("lifelong", "episodic", "product")
SHORT = Training(every=3 * N, steps=2, batch_size=8, memory=20)
NEVER = Training(every=10**9)


def make(name: str, space: str = "grid", training: Training = NEVER, **settings: Any) -> Any:
    """A bonus with few features that is not trained by default."""
    if name in TRAINED:
        settings = {"training": training} | settings
    if name != "counts":
        settings = {"dim": 5} | settings
    return make_bonus(name, SPACES[space], **{"action_space": ACTIONS, "n_envs": N} | settings)


def names() -> list[str]:
    return list(BONUS_NAMES)


def observations(space: spaces.Space[Any], n: int, seed: int) -> Any:
    """n random observations as vector environments return them."""
    space.seed(seed)
    return concatenate(space, [space.sample() for _ in range(n)], create_empty_array(space, n))


def transitions(
    space: str | spaces.Space[Any],
    steps: int,
    seed: int = 0,
    actions: spaces.Space[Any] = ACTIONS,
    done: float = 0.2,
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Random steps of N environments: observations, actions, next observations and dones."""
    kind = SPACES[space] if isinstance(space, str) else space
    rng = np.random.default_rng(seed)
    for step in range(steps):
        pair = [observations(kind, N, 1000 * seed + 2 * step + i) for i in range(2)]
        yield pair[0], observations(actions, N, 1000 * seed + step), pair[1], rng.random(N) < done


def rows(x: Any, index: Any) -> Any:
    """The rows of a batch of observations."""
    if isinstance(x, dict):
        return {key: rows(part, index) for key, part in x.items()}
    if isinstance(x, tuple) and not isinstance(x, np.ndarray):
        if all(isinstance(part, str) for part in x):
            return tuple(np.asarray(x)[index])
        return tuple(rows(part, index) for part in x)
    return x[index]


def same(left: Any, right: Any) -> bool:
    """Whether two states are equal, bit for bit."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(np.array_equal(np.asarray(left), np.asarray(right)))
