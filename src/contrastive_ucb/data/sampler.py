"""Algorithms 3 and 4: contrastive data sampling for MDPs and Markov games, for all seeds at once.

For each h Algorithm 3 (l.489-517) asks for (s~_h, a~_h) ~ d~_h: roll in with pi^{k-1} to step h,
then act uniformly; and for (s-breve_{h+1}, a-breve_{h+1}): one more uniform action. So a round
costs H trajectories, the h-th of them h + 1 steps long, or H for the last: (H^2 + 3H - 2) / 2 steps
(erratum E9). Algorithm 4 (l.519-550) is the same with a joint policy sigma^{k-1} and z = (s, a, b):
a and b drawn uniformly, each on its own, are a joint action drawn uniformly.

| paper                           | here                                                           |
|---------------------------------|----------------------------------------------------------------|
| (s~_h, a~_h), h = 1..H          | tuples 0..H-1                                                  |
| (s-breve_h, a-breve_h), h = 2.. | tuples H..2H-2; both join D_h, nothing is overwritten (E2)     |
| y_h                             | `label`, one draw a tuple (E11)                                |
| s_{h+1} or s^-_{h+1}            | `contrast`                                                     |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.observations import Transitions
from contrastive_ucb.envs.batch import EnvBatch, draw
from contrastive_ucb.envs.observed import ObservedEnv


@dataclass(frozen=True)
class Tuples:
    """What one round brings home: n = 2H - 1 transitions a seed, those of d~ first.

    step        (n,)    h of each tuple
    pair        (B, n)  z = s * A + a
    next_state  (B, n)  s' ~ P_h(.|z)
    reward      (B, n)  the reward seen
    label       (B, n)  y
    contrast    (B, n)  s' where y = 1, a draw of P^- where y = 0
    """

    step: IntArray
    pair: IntArray
    next_state: IntArray
    reward: Array
    label: IntArray
    contrast: IntArray

    @property
    def n_rolled_in(self) -> int:
        """The first so many tuples are the bonus data D~, one a step."""
        return (len(self.step) + 1) // 2


def steps_per_round(horizon: int) -> int:
    """Environment steps of one round: h + 1 for h < H and H for the last trajectory."""
    return (horizon**2 + 3 * horizon - 2) // 2


def n_uniforms(horizon: int) -> tuple[int, int]:
    """How many uniform numbers a round takes: for trajectories, and for labels and negatives."""
    return 4 * horizon * horizon + horizon, 2 * (2 * horizon - 1)


def collect(batch: EnvBatch, policy: Array, negatives: Array, walk: Array, label: Array) -> Tuples:
    """One round of Algorithm 3 (or 4, where an action is a pair of them).

    policy     pi^{k-1}  (B, H, S, A)
    negatives  P^-       (S,)
    walk, label          (B, n)       uniform numbers, as many as `n_uniforms` says
    """
    horizon, n_seeds = batch.horizon, batch.n_seeds
    steps = np.concatenate([np.arange(horizon), np.arange(1, horizon)])
    pair, next_state = np.empty((2, n_seeds, len(steps)), dtype=np.int64)
    reward = np.empty((n_seeds, len(steps)))
    first, per_step = walk[:, :horizon], walk[:, horizon:].reshape(-1, horizon, horizon, 4)
    state = draw(batch.initial[:, None], first)  # (B, H): one trajectory a target step h
    for step in range(horizon):
        gone = max(step - 1, 0)  # trajectory h ends one step after its target
        state = state[:, gone - max(step - 2, 0) :]
        moved = _advance(batch, policy, step, state, per_step[:, gone:, step])
        for kept, now in zip((pair, next_state, reward), moved, strict=True):
            kept[:, step] = now[:, step - gone]
            if step:
                kept[:, horizon + step - 1] = now[:, 0]
        state = moved[1]
    positive = label[:, : len(steps)] < 0.5
    drawn = draw(negatives[None, None], label[:, len(steps) :])
    contrast = np.where(positive, next_state, drawn)
    return Tuples(steps, pair, next_state, reward, positive.astype(np.int64), contrast)


def _advance(
    batch: EnvBatch, policy: Array, step: int, state: IntArray, uniform: Array
) -> tuple[IntArray, IntArray, Array]:
    """One step of the trajectories that are alive: targets step - 1 (if any), step, step + 1, ...

    state (B, m), uniform (B, m, 4); returns pair, next state, reward, each (B, m)
    """
    seed = np.arange(batch.n_seeds)[:, None]
    action = draw(policy[seed, step, state], uniform[..., 0])
    explores = slice(0, 2 if step else 1)  # those at their target and one step after it
    action[:, explores] = (uniform[:, explores, 0] * batch.n_actions).astype(np.int64)
    pair = state * batch.n_actions + action
    arrived = draw(batch.kernel.features[seed, step, pair], uniform[..., 1])
    if batch.kernel.measures is not None:  # so far the latent; the state is drawn from its measure
        arrived = draw(batch.kernel.measures[seed, step, arrived], uniform[..., 2])
    mean = batch.rewards[seed, step, state, action]
    scale = batch.reward_scale[seed, step, state, action]
    return pair, arrived, np.where(uniform[..., 3] * abs(scale) < abs(mean), scale, 0.0)


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
