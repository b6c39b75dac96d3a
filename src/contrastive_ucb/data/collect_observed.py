"""Algorithms 3 and 4 in an environment of observations: what `collect` does in tables.

For each target step h, `trajectories` walks roll in with pi^{k-1} to h, act uniformly there and,
for h < H, once more: the paper has one trajectory a target, and more of them are as many rounds of
data with one policy. All targets walk side by side, and a walk ends one step after its target (E9).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.data.observations import Transitions
from contrastive_ucb.envs.batch import draw
from contrastive_ucb.envs.observed import ObservedEnv

Policy = Callable[[int, Array], Array]  # step h, observations (n, D) -> probabilities (n, A)


def collect_observed(
    env: ObservedEnv, policy: Policy, trajectories: int, random: np.random.Generator
) -> list[Transitions]:
    """One round: the new transitions of every step."""
    horizon, count = env.horizon, trajectories
    walk = env.begin(horizon * count, random)
    found = []
    for step in range(horizon):
        gone = max(step - 1, 0)  # walks with smaller targets have ended
        walk.keep(slice((gone - max(step - 2, 0)) * count, None))
        before = walk.observations
        action = _actions(env, policy, step, before, count, random)
        reward = walk.move(action, random)
        kept = slice(0, 2 * count if step else count)  # one step after the target, and at it
        at_target = np.arange(kept.stop) >= kept.stop - count
        after = walk.observations[kept]
        found.append(Transitions(before[kept], action[kept], reward[kept], after, at_target))
    return found


def _actions(
    env: ObservedEnv,
    policy: Policy,
    step: int,
    seen: Array,
    count: int,
    random: np.random.Generator,
) -> IntArray:
    """Uniform actions at the target and one step after it; the others follow the policy."""
    uniform = random.random(len(seen))
    free = count * (2 if step else 1)
    action = (uniform * env.n_joint).astype(np.int64)
    if free < len(seen):
        action[free:] = draw(policy(step, seen[free:]), uniform[free:])
    return action


def check_transitions(name: str, found: list[Transitions], round_number: int) -> None:
    """Stop where an environment gave something that is no number as it will be stored, float32."""
    for step, seen in enumerate(found):
        for what in ("observation", "reward", "following"):
            with np.errstate(over="ignore"):  # what is too large becomes infinite, and is found
                stored = getattr(seen, what).astype(np.float32)
            if not np.isfinite(stored).all():
                raise ArithmeticError(
                    f"{name} gave a NaN or infinity as {what!r} at step {step} of round"
                    f" {round_number}; it must be finite in float32, below 3.4e38"
                )
