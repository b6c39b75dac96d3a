"""Algorithms 3 and 4: contrastive data sampling for MDPs and Markov games, for all seeds at once.

For each h, Algorithm 3 (l.489-517) asks for (s~_h, a~_h) ~ d~_h, that is, a roll-in with pi^{k-1}
to step h and then a uniform action, and for (s-breve_{h+1}, a-breve_{h+1}), one more uniform
action. A round costs H trajectories of h + 1 steps each (H for the last one), in total
(H^2 + 3H - 2) / 2 steps (erratum E9). Algorithm 4 (l.519-550) is the same with a joint policy
sigma^{k-1} and z = (s, a, b); independent uniform a and b are a uniform joint action.

| paper                           | here                                                           |
|---------------------------------|----------------------------------------------------------------|
| (s~_h, a~_h), h = 1..H          | tuples 0..H-1                                                  |
| (s-breve_h, a-breve_h), h = 2.. | tuples H..2H-2; both are added to D_h (E2)                     |
| y_h                             | `label`, one draw per tuple (E11)                              |
| s_{h+1} or s^-_{h+1}            | `contrast`                                                     |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.batch import EnvBatch, draw

Density = Literal["auto", "seen", "mixed", "uniform", "gaussian"]  # P^-, see `observations.py`
Sampler = Literal["shared", "paper"]  # many negatives per positive, or one label per tuple
Streams = dict[str, list[np.random.Generator]]  # by name, one generator per seed


@dataclass(frozen=True)
class Tuples:
    """The data of one round: n = 2H - 1 transitions per seed, those from d~ first.

    step        (n,)    h of each tuple
    pair        (B, n)  z = s * A + a
    next_state  (B, n)  s' ~ P_h(.|z)
    reward      (B, n)  the observed reward
    label       (B, n)  y
    contrast    (B, n)  s' if y = 1, a draw of P^- if y = 0
    """

    step: IntArray
    pair: IntArray
    next_state: IntArray
    reward: Array
    label: IntArray
    contrast: IntArray

    @cached_property
    def cells(self) -> tuple[IntArray, IntArray, IntArray]:
        """The index (seed, step, pair) of every tuple, each (B, n)."""
        at: IntArray = np.indices(self.pair.shape, dtype=np.int64)
        return at[0], self.step[at[1]], self.pair


class TabularSampler:
    """The sampler of finite environments: one trajectory per step and round.

    negatives  P^-  (S,)
    streams    the random streams "walk" and "label"
    """

    def __init__(self, batch: EnvBatch, negatives: Array, streams: Streams):
        self.batch, self.negatives, self.streams = batch, negatives, streams

    def collect(self, policy: Array) -> Tuples:
        """One round of Algorithm 3, or of Algorithm 4 with joint actions.

        policy  pi^{k-1}  (B, H, S, A)
        """
        batch, horizon = self.batch, self.batch.horizon
        steps = np.concatenate([np.arange(horizon), np.arange(1, horizon)])
        walk = uniforms(self.streams["walk"], 4 * horizon * horizon + horizon)
        label = uniforms(self.streams["label"], 2 * len(steps))
        pair, next_state = np.empty((2, batch.n_seeds, len(steps)), dtype=np.int64)
        reward = np.empty((batch.n_seeds, len(steps)))
        first, per_step = walk[:, :horizon], walk[:, horizon:].reshape(-1, horizon, horizon, 4)
        state = draw(batch.initial[:, None], first)  # (B, H): one trajectory per target step h
        for step in range(horizon):
            finished = max(step - 1, 0)  # trajectory h ends one step after its target
            state, uniform = state[:, finished - max(step - 2, 0) :], per_step[:, finished:, step]
            action = draw(policy[batch.seed, step, state], uniform[..., 0])
            explores = slice(0, 2 if step else 1)  # trajectories at their target or one step later
            action[:, explores] = (uniform[:, explores, 0] * batch.n_actions).astype(np.int64)
            arrived, paid = batch.move(step, state, action, uniform[..., 1:])
            moved = state * batch.n_actions + action, arrived, paid
            for table, values in zip((pair, next_state, reward), moved, strict=True):
                table[:, step] = values[:, step - finished]
                if step:
                    table[:, horizon + step - 1] = values[:, 0]
            state = arrived
        positive = label[:, : len(steps)] < 0.5
        drawn = draw(self.negatives[None, None], label[:, len(steps) :])
        contrast = np.where(positive, next_state, drawn)
        return Tuples(steps, pair, next_state, reward, positive.astype(np.int64), contrast)


def steps_per_round(horizon: int) -> int:
    """Environment steps per round: h + 1 for h < H and H for the last trajectory."""
    return (horizon**2 + 3 * horizon - 2) // 2


def uniforms(generators: list[np.random.Generator], count: int) -> Array:
    """Uniform numbers in [0, 1) of one stream   (B, count)"""
    return np.stack([generator.random(count) for generator in generators])
