"""Where a window of transitions is cut, and what it returns: the n-step rule as plain functions.

Step k of a window that starts at time t is the transition (s_{t+k}, a_{t+k}, r_{t+k}); a window
has whatever follows, across ends of episodes, and these rules say what counts.

| symbol | name        |                                                                        |
|--------|-------------|------------------------------------------------------------------------|
| n      | `n_step`    | steps up to the observation that is bootstrapped from                  |
| m      | `reach`     | the same after the cut: min(n, steps to the end of the episode)        |
| K      | `jumps`     | latent predictions of SPR                                              |

`cut="episode"` is the definition: rewards up to the end, nothing bootstrapped after a termination,
the final observation bootstrapped from after a truncation.

`cut="published"` is what the released SPR code (and SPR-UCB, which builds on it) computes, because
its n-step end flag is filled from the first step alone (rlpyt before its commit 59bc259):
the rewards are cut rightly, but the value of s_{t+n} is added with discount**n unless the FIRST
step ends. After an end at step e <= K the release also repeats s_{t+e} in place of all later
observations, so that is what it bootstraps from; after a later end it is an observation of the next
episode. Its SPR mask also drops the step whose own action ends the episode. It knows no truncation.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.core.checks import check_size

Cut = Literal["episode", "published"]
CUTS: tuple[Cut, ...] = ("episode", "published")


@dataclass(frozen=True)
class NStep:
    """What the first n steps of each window come to.

    returns    (B,)    sum of the rewards that count, discounted
    weights    (B, n)  discount**k where step k counts, else 0: any n-step sum is a dot product
    reach      (B,)    transitions from t to the observation that is bootstrapped from
    discounts  (B,)    factor of its value
    """

    returns: Array
    weights: Array
    reach: IntArray
    discounts: Array


def first_end(terminated: BoolArray, truncated: BoolArray) -> IntArray:
    """The step (B,) at which each window (B, T) sees its first end, T where it sees none."""
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
    """The n-step return of each window and how to bootstrap after it.

    rewards    (B, n)
    terminated, truncated  (B, T)  with T >= n; `published` looks at jumps + 1 of them
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

    An observation is one if it belongs to the episode of s_t and does not follow a termination;
    the final observation of a truncated episode is one like any other.

    terminated, truncated  (B, T)  with T >= jumps, for `published` T >= jumps + 1
    """
    end = first_end(terminated, truncated)
    ahead = np.arange(1, jumps + 1)
    if cut == "published":
        return ahead < end[:, None]
    # A window without an end gets a last column that ends nothing.
    padded = np.pad(terminated, ((0, 0), (0, 1)))
    last = end + ~np.take_along_axis(padded, end[:, None], axis=1)[:, 0]
    return ahead <= last[:, None]


def check_rule(n_step: int, jumps: int, discount: float, cut: str) -> None:
    """Stop unless these are settings of the rules above."""
    check_size("n_step", n_step)
    check_size("jumps", jumps, 0)
    if not 0 <= discount <= 1:
        raise ValueError(f"discount must be in [0, 1], got {discount}")
    if cut not in CUTS:
        raise ValueError(f"cut must be one of {', '.join(CUTS)}, got {cut!r}")
