"""Ring buffer of frames and transitions, in order of time.

Every frame is stored once. An entry holds the frame that was observed and the transition that
followed it; the last entry of an episode holds its final frame and no transition ("closing").

| symbol   | here            |                                                                   |
|----------|-----------------|-------------------------------------------------------------------|
| t        | `time`, `times` | number of entries written before this one; it never wraps         |
| t mod S  | `slot`          | row of the arrays, S = `slots`                                    |
| s_t      | `observations`  | the last `stack` frames up to t, zeros before the episode's start |

`read_windows` reads the windows of consecutive steps that a world model is trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from contrastive_ucb.core.arrays import BoolArray, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.data.nstep import first_end, jump_mask

Frames = NDArray[Any]

FIELDS: dict[str, type] = {
    "action": np.int64,
    "reward": np.float64,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "closing": np.bool_,
    "start": np.int64,  # time of the first entry of the episode
    "transition": np.int64,  # number of transitions before this entry
}
POSITION = ("now", "n_transitions", "oldest", "running", "first")  # saved attributes of `History`


class History:
    """The last `capacity` transitions: entries `oldest` .. now - 1 are complete, `now` is open.

    capacity     number of transitions stored
    frame_shape  (C, H, W) of an image, (dim,) of a vector
    stack        frames per observation (stack * C, H, W), oldest first
    """

    def __init__(
        self, capacity: int, frame_shape: tuple[int, ...], frame_dtype: DTypeLike, stack: int
    ):
        check_size("capacity", capacity, 2)
        check_size("stack", stack)
        self.capacity, self.stack, self.slots = capacity, stack, capacity + capacity // 10 + 1
        # The last row stays zero: it is the frame before the first one of an episode.
        self.frame: Frames = np.zeros((self.slots + 1, *frame_shape), frame_dtype)
        self.field: dict[str, NDArray[Any]] = {
            name: np.zeros(self.slots, dtype) for name, dtype in FIELDS.items()
        }
        self.time_of: IntArray = np.zeros(self.slots, np.int64)  # transition number -> time
        self.now = self.n_transitions = self.oldest = 0
        self.running = False
        self.first = 0  # time at which the current episode started; `now` between two episodes

    def begin(self, frame: Frames) -> None:
        """Start an episode with the first frame of the environment."""
        if self.running:
            raise ValueError("an episode is running; end it with add(..., truncated=True) first")
        self._open(frame, self.now, self.n_transitions)
        self.running = True

    def add(
        self, action: int, reward: float, frame: Frames, terminated: bool, truncated: bool
    ) -> None:
        """Add the action taken in the current observation, and its outcome."""
        if not self.running:
            raise ValueError("no episode is running; call begin(frame) with its first frame")
        if not np.isfinite(reward):
            raise ValueError(f"reward at time {self.now} is {reward}; it must be finite")
        self._open(frame, self.now + 1, self.n_transitions + 1)
        self._close(action, reward, terminated, truncated, closing=False)
        self.n_transitions += 1
        if terminated or truncated:
            self._close(0, 0.0, False, False, closing=True)
            self.running, self.first = False, self.now
        oldest_number = self.n_transitions - self.capacity
        by_count = int(self.time_of[oldest_number % self.slots]) if oldest_number > 0 else 0
        self.oldest = max(by_count, self.now + 1 - self.slots)

    def _open(self, frame: Frames, time: int, number: int) -> None:
        """Store the frame at `time`, in which the transition `number` begins."""
        shape, dtype = self.frame.shape[1:], self.frame.dtype
        if frame.shape != shape or frame.dtype != dtype:
            raise ValueError(
                f"a frame must be {shape} {dtype}, got {frame.shape} {frame.dtype}; pass only the"
                " newest frame, not the stack"
            )
        slot = time % self.slots
        self.frame[slot] = frame
        self.field["start"][slot], self.field["transition"][slot] = self.first, number
        # After a closing entry, the first entry of the next episode overwrites this number.
        self.time_of[number % self.slots] = time

    def _close(
        self, action: int, reward: float, terminated: bool, truncated: bool, closing: bool
    ) -> None:
        field, slot = self.field, self.now % self.slots
        field["action"][slot], field["reward"][slot] = action, reward
        field["terminated"][slot], field["truncated"][slot] = terminated, truncated
        field["closing"][slot] = closing
        self.now += 1

    def at(self, name: str, times: IntArray) -> NDArray[Any]:
        """The field `name` at `times` (...); returns (...)."""
        return self.field[name].take(times % self.slots)

    def following(self, times: IntArray, length: int) -> IntArray:
        """Times (B, length) of the transitions from `times` (B,) on, across ends of episodes.

        Closing entries are skipped; past the newest transition, that one repeats.
        """
        number = self.at("transition", times)[:, None] + np.arange(length)
        return self.time_of.take(np.minimum(number, self.n_transitions - 1) % self.slots)

    def previous_actions(self, times: IntArray) -> IntArray:
        """The action of the transition before each of `times` (...), 0 if it is not stored."""
        number = self.at("transition", times)
        before = self.time_of.take((number - 1) % self.slots)
        is_known = (number > 0) & self.is_stored(before)
        return np.where(is_known, self.at("action", before), 0)

    def frames(self, times: IntArray, first: IntArray, out: Frames | None = None) -> Frames:
        """The frames at `times` (B, T), zeros where a time is before `first` (B, 1)."""
        slot = np.where(times < first, self.slots, times % self.slots)
        # Any mode but "raise" writes straight into `out`; all slots are in range.
        return self.frame.take(slot, axis=0, out=out, mode="clip")

    def observations(self, times: IntArray, out: Frames | None = None) -> Frames:
        """The observations (B, stack * C, ...) at `times` (B,)."""
        back = times[:, None] + np.arange(1 - self.stack, 1)
        frames = self.frames(back, self.at("start", times)[:, None], out)
        return frames.reshape(len(times), -1, *frames.shape[3:])

    def is_stored(self, times: IntArray) -> BoolArray:
        return (times >= self.oldest) & (times < self.now)

    def entries(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Copies of the complete entries `first` .. `last` - 1, which never change."""
        slot = np.arange(first, last) % self.slots
        return {"frame": self.frame[slot]} | {name: x[slot] for name, x in self.field.items()}

    def write(self, first: int, entries: dict[str, NDArray[Any]]) -> None:
        """Restore saved entries to the times from `first` on."""
        times = np.arange(first, first + len(entries["frame"]))
        slot = times % self.slots
        self.frame[slot] = entries["frame"]
        for name, values in self.field.items():
            values[slot] = entries[name]
        has_action = ~entries["closing"]
        self.time_of[entries["transition"][has_action] % self.slots] = times[has_action]

    def position(self) -> dict[str, Any]:
        """The write position; together with the entries it is the complete state."""
        frame = self.frame[self.now % self.slots if self.running else -1].copy()
        return {name: getattr(self, name) for name in POSITION} | {"frame": frame}

    def go_to(self, position: dict[str, Any]) -> None:
        """Continue from a saved `position`; the entries are restored separately by `write`."""
        for name in POSITION:
            setattr(self, name, position[name])
        if self.running:
            self._open(position["frame"], self.now, self.n_transitions)


@dataclass(frozen=True)
class Windows:
    """T consecutive steps from each of B times; steps after the end of the episode are masked.

    frames      (B, stack + T, C, ...)  those of the first observation, then one per step
    actions, rewards, terminated  (B, T)
    alive       (B, T)  True where the step belongs to the episode of the first step
    shown       (B, T)  True where the frame after the step is an observation to predict
    """

    frames: Frames
    actions: IntArray
    rewards: NDArray[np.float64]
    terminated: BoolArray
    alive: BoolArray
    shown: BoolArray


def read_windows(history: History, times: IntArray, length: int) -> Windows:
    """The windows of `length` steps from `times` (B,) on.

    All `length` steps, or those up to the end of the episode, must be stored.
    """
    steps = history.following(times, length)
    terminated, truncated = history.at("terminated", steps), history.at("truncated", steps)
    last = first_end(terminated, truncated)[:, None]
    # Entries of an episode are contiguous; after its closing entry, that one repeats.
    around = np.arange(1 - history.stack, length + 1)
    frames = history.frames(
        times[:, None] + np.minimum(around, last + 1), history.at("start", times)[:, None]
    )
    return Windows(
        frames=frames,
        actions=history.at("action", steps),
        rewards=history.at("reward", steps),
        terminated=terminated,
        alive=np.arange(length) <= last,
        shown=jump_mask(terminated, truncated, length),
    )
