"""What a draw from the replay memory gives: n-step batches, and plain windows of transitions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.arrays import BoolArray, IntArray
from contrastive_ucb.data.history import Frames, History, stacks
from contrastive_ucb.data.nstep import first_end

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """B drawn windows. `frames` and `bootstrap` are overwritten by the next draw of this size.

    index      (B,)    time t of the transition
    frames     (B, K + stack, C, ...)  raw frames; `observations` are windows of them
    actions    (B, max(K, 1))  a_t, a_{t+1}, ...; beyond the end those of the next episode
    mask       (B, K)  1 where s_{t+1} .. s_{t+K} is an observation to predict (`jump_mask`)
    steps      (B, n)  times of the n transitions of the return, for `extra`
    step_weights  (B, n)  discount**k where step k counts: their dot product with any quantity of
                       the steps is its n-step sum
    returns    (B,)    the n-step sum of the rewards
    bootstrap  (B, stack * C, ...)  the observation whose value is added to it, ...
    discounts  (B,)    ... with this factor, 0 after a termination
    weights    (B,)    importance weights, the largest is 1
    """

    index: IntArray
    frames: Frames
    stack: int
    actions: IntArray
    mask: Floats
    steps: IntArray
    step_weights: Floats
    returns: Floats
    bootstrap: Frames
    discounts: Floats
    weights: Floats

    @property
    def observations(self) -> Frames:
        """s_t .. s_{t+K}, a read-only view (B, 1 + K, stack * C, ...); garbage where masked."""
        return stacks(self.frames, self.stack)


@dataclass(frozen=True)
class Window:
    """The T transitions from each index on, whatever episodes they belong to.

    times      (B, T)
    frames     (B, T + stack - 1, C, ...)  overwritten by the next window of this size
    seen       (B, T, stack)  False where a frame of the stack is of an earlier episode, hence blank
    shown      (B, T)  step whose observation the published code shows here: after an end at a step
                       e <= K it repeats that of e
    actions, previous  (B, T)  the action taken at each step, and at the one before (0: unknown)
    terminated, truncated  (B, T)
    """

    times: IntArray
    frames: Frames
    seen: BoolArray
    shown: IntArray
    actions: IntArray
    previous: IntArray
    terminated: BoolArray
    truncated: BoolArray

    def observations(self) -> Frames:
        """A copy (B, T, stack * C, ...) with the blanks in place."""
        stack = self.seen.shape[2]
        out = stacks(self.frames, stack).copy()
        split = out.reshape(*self.seen.shape, *self.frames.shape[2:])
        split[~self.seen] = 0
        return out


def read_window(
    history: History, index: IntArray, length: int, jumps: int, out: Frames | None = None
) -> Window:
    """The `length` transitions from each of `index` (B,) on; their frames go to `out`."""
    history.check_stored(index)
    number = history.at("transition", index)
    if number.max() + length > history.n_transitions:
        raise IndexError(
            f"{length} transitions from {index[number.argmax()]} on are not all stored yet;"
            f" make the replay with window={length} to draw only those that have them"
        )
    times = history.following(index, length)
    # Entries of one episode lie side by side, and what is before the first one is blank.
    every = np.concatenate([index[:, None] + np.arange(1 - history.stack, 0), times], axis=1)
    start = history.at("start", times)
    depth = np.lib.stride_tricks.sliding_window_view(every, history.stack, axis=1)
    terminated, truncated = history.at("terminated", times), history.at("truncated", times)
    end = first_end(terminated, truncated)[:, None]
    actions = history.at("action", times)
    return Window(
        times=times,
        frames=history.frames(every, start[:, :1], out),
        seen=depth >= start[:, :, None],
        shown=np.minimum(np.arange(length), np.where(end <= jumps, end, length)),
        actions=actions,
        previous=np.concatenate([_actions_before(history, number), actions[:, :-1]], axis=1),
        terminated=terminated,
        truncated=truncated,
    )


def _actions_before(history: History, number: IntArray) -> IntArray:
    """The actions (B, 1) of the transitions before `number` (B,), 0 where they are gone."""
    times = history.time_of.take((number - 1) % history.slots)
    known = (number > 0) & history.is_stored(times)
    return np.where(known, history.at("action", times), 0)[:, None]
