"""n-step returns: which steps of a window count, and how the return is bootstrapped.

Step k of a window that starts at time t is the transition (s_{t+k}, a_{t+k}, r_{t+k}). Windows
continue across ends of episodes; the functions below decide which steps count.

| symbol | name        |                                                                        |
|--------|-------------|------------------------------------------------------------------------|
| n      | `n_step`    | steps up to the observation that is bootstrapped from                  |
| m      | `reach`     | min(n, steps to the end of the episode)                                |
| K      | `jumps`     | latent predictions of SPR                                              |

`cut="episode"` is the definition (Sutton and Barto 2018, section 7.1): rewards up to the end of the
episode, no bootstrap after a termination, bootstrap from the final observation after a truncation.

`cut="published"` reproduces the released code of SPR (Schwarzer et al. 2021), on which SPR-UCB
builds. Its n-step end flag is filled from the first step alone (rlpyt before commit 59bc259):
rewards are cut correctly, but the value of s_{t+n} is added with discount**n unless the FIRST step
ends the episode. After an end at step e <= K, the release repeats s_{t+e} in place of all later
observations and bootstraps from it; after a later end it bootstraps from an observation of the next
episode. Its SPR mask also drops the step whose own action ends the episode. It ignores truncation.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray

Cut = Literal["episode", "published"]


@dataclass(frozen=True)
class NStep:
    """The n-step return of each window.

    returns    (B,)    discounted sum of the rewards that count
    weights    (B, n)  discount**k where step k counts, else 0: any n-step sum is a dot product
    reach      (B,)    transitions from t to the observation that is bootstrapped from
    discounts  (B,)    factor of its value
    """

    returns: Array
    weights: Array
    reach: IntArray
    discounts: Array


def first_end(terminated: BoolArray, truncated: BoolArray) -> IntArray:
    """The step (B,) of the first end in each window (B, T); T if there is none."""
    ends = terminated | truncated
    first: IntArray = np.where(ends.any(axis=1), ends.argmax(axis=1), ends.shape[1])
    return first


def n_step(
    rewards: Array,
    terminated: BoolArray,
    truncated: BoolArray,
    discount: float,
    cut: Cut = "episode",
    jumps: int = 0,
) -> NStep:
    """The n-step return of each window and its bootstrap.

    rewards    (B, n)
    terminated, truncated  (B, T)  with T >= n; `published` reads jumps + 1 of them
    """
    n = rewards.shape[1]
    end = first_end(terminated, truncated)
    reach = np.minimum(end + 1, n)
    powers = discount ** np.arange(n)
    weights = np.where(np.arange(n) < reach[:, None], powers, 0.0)
    returns = (weights * rewards).sum(axis=1)
    if cut == "episode":
        last = np.take_along_axis(terminated, reach[:, None] - 1, axis=1)[:, 0]
        return NStep(returns, weights, reach, np.where(last, 0.0, discount**reach))
    frozen = np.where(end <= jumps, np.minimum(end, n), n)
    return NStep(returns, weights, frozen, np.where(end == 0, 0.0, discount**n))


def jump_mask(
    terminated: BoolArray, truncated: BoolArray, jumps: int, cut: Cut = "episode"
) -> BoolArray:
    """Which of s_{t+1} .. s_{t+jumps} are observations to predict.                     (B, jumps)

    Those that belong to the episode of s_t and do not follow a termination. The final observation
    of a truncated episode is included.

    terminated, truncated  (B, T)  with T >= jumps, for `published` T >= jumps + 1
    """
    end = first_end(terminated, truncated)
    ahead = np.arange(1, jumps + 1)
    if cut == "published":
        return ahead < end[:, None]
    # For windows without an end, the appended column is False.
    padded = np.pad(terminated, ((0, 0), (0, 1)))
    last = end + ~np.take_along_axis(padded, end[:, None], axis=1)[:, 0]
    return ahead <= last[:, None]
