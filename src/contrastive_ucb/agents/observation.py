"""What an agent is asked about: observations (step, state) of a finite environment."""

from __future__ import annotations

import numpy as np

from contrastive_ucb.arrays import IntArray


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
