"""What an agent is asked about: (step, state) of a finite environment, or vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.observed import ObservedEnv


def checked_observation(observation: IntArray, limits: tuple[int, ...]) -> IntArray:
    """Observations (2,) or (n, 2) as integers that are within the limits (H, S)."""
    at = np.asarray(observation)
    if at.shape[-1:] != (2,) or at.dtype.kind not in "iu":
        raise ValueError(f"an observation is (step, state), got {at.dtype} of shape {at.shape}")
    if (at < 0).any() or (at >= np.array(limits)).any():
        raise ValueError(
            f"the observation {at.tolist()} has no action; steps are 0..{limits[0] - 1} and "
            f"states 0..{limits[1] - 1}"
        )
    return at


def checked_vectors(observation: Any, state: Any, env: ObservedEnv) -> tuple[Array, int]:
    """Observations (D,) or (n, D) as finite numbers, and the step that they are of."""
    seen = np.asarray(observation, dtype=np.float64)
    if seen.ndim not in (1, 2) or seen.shape[-1] != env.size:
        raise ValueError(
            f"an observation of {env.name} has {env.size} numbers, got shape {seen.shape}"
        )
    if not np.isfinite(seen).all():
        raise ValueError("the observation has a NaN or infinite entry")
    step = 0 if state is None else int(state)
    if not 0 <= step < env.horizon:
        raise ValueError(
            f"step {step} has no action; the steps are 0..{env.horizon - 1}, and state=None begins"
            " an episode"
        )
    return seen, step
