"""What a world model learns from: a few steps in a row with the frames around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from contrastive_ucb.core.arrays import BoolArray, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.data.nstep import first_end, jump_mask


@dataclass(frozen=True)
class Windows:
    """T steps from each of B times on; those after the end of the episode do not count.

    frames      (B, stack + T, C, ...)  those of the first observation, then one a step
    actions     (B, T)
    rewards     (B, T)
    terminated  (B, T)
    alive       (B, T)  whether the step belongs to the episode of the first one
    shown       (B, T)  whether the frame after it does, and there is anything to see in it
    """

    frames: Frames
    actions: IntArray
    rewards: NDArray[np.float64]
    terminated: BoolArray
    alive: BoolArray
    shown: BoolArray


def read_windows(history: History, times: IntArray, length: int) -> Windows:
    """The windows of `length` steps from `times` (B,) on.

    All steps up to `length`, or to the end of the episode, must be stored.
    """
    steps = history.following(times, length)
    terminated, truncated = history.at("terminated", steps), history.at("truncated", steps)
    last = first_end(terminated, truncated)[:, None]
    # Entries of an episode lie side by side; behind its closing entry that one repeats.
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


class History:
    """The last `capacity` transitions: entries `oldest` .. now - 1 are complete, `now` is open.

    capacity     number of transitions that are kept
    frame_shape  (C, H, W) of an image, (dim,) of a vector
    stack        how many frames, oldest first, make an observation (stack * C, H, W)
    """

    def __init__(
        self, capacity: int, frame_shape: tuple[int, ...], frame_dtype: DTypeLike, stack: int
    ):
        check_size("capacity", capacity, 2)
        check_size("stack", stack)
        self.capacity, self.stack, self.slots = capacity, stack, capacity + capacity // 10 + 1
        # The last row stays zero: it stands for the frames before the first one of an episode.
        self.frame: Frames = np.zeros((self.slots + 1, *frame_shape), frame_dtype)
        self.field: dict[str, NDArray[Any]] = {
            name: np.zeros(self.slots, dtype) for name, dtype in FIELDS.items()
        }
        self.time_of: IntArray = np.zeros(self.slots, np.int64)  # of a transition, by its number
        self.now = self.n_transitions = self.oldest = 0
        self.running = False

    @property
    def first(self) -> int:
        """When the running episode started; `now` between two episodes."""
        return int(self.field["start"][self.now % self.slots]) if self.running else self.now

    def begin(self, frame: Frames) -> None:
        """Start an episode with the first frame that the environment shows."""
        if self.running:
            raise ValueError("an episode is running; end it with add(..., truncated=True) first")
        self._check_frame(frame)
        self._open(frame, start=self.now)
        self.running = True

    def add(
        self, action: int, reward: float, frame: Frames, terminated: bool, truncated: bool
    ) -> None:
        """The action taken in the current observation and what came back, `frame` included."""
        if not self.running:
            raise ValueError("no episode is running; call begin(frame) with its first frame")
        self._check_frame(frame)
        if not np.isfinite(reward):
            raise ValueError(f"reward at time {self.now} is {reward}; it must be finite")
        start = self.first
        self._close(
            action=action, reward=reward, terminated=terminated, truncated=truncated, closing=False
        )
        self.n_transitions += 1
        self._open(frame, start)
        if terminated or truncated:
            self._close(action=0, reward=0.0, terminated=False, truncated=False, closing=True)
            self.running = False
        first_kept = self.n_transitions - self.capacity
        by_count = int(self.time_of[first_kept % self.slots]) if first_kept > 0 else 0
        self.oldest = max(by_count, self.now + 1 - self.slots)

    def at(self, name: str, times: IntArray) -> NDArray[Any]:
        """The field `name` of the entries at `times`, in their shape."""
        return self.field[name].take(times % self.slots)

    def following(self, times: IntArray, length: int) -> IntArray:
        """Times (B, length) of the transitions from `times` (B,) on, into the next episodes.

        Where the newest one is passed it repeats; closing entries are no transitions.
        """
        number = self.at("transition", times)[:, None] + np.arange(length)
        return self.time_of.take(np.minimum(number, self.n_transitions - 1) % self.slots)

    def frames(self, times: IntArray, first: IntArray, out: Frames | None = None) -> Frames:
        """The frames at `times` (B, T), blank where a time is before `first` (B, 1)."""
        slot = np.where(times < first, self.slots, times % self.slots)
        # Any mode but "raise" writes straight into `out`; all slots are in range.
        return self.frame.take(slot, axis=0, out=out, mode="clip")

    def observations(self, times: IntArray, out: Frames | None = None) -> Frames:
        """The observations (B, stack * C, ...) at `times` (B,)."""
        back = times[:, None] + np.arange(1 - self.stack, 1)
        frames = self.frames(back, self.at("start", times)[:, None], out)
        return frames.reshape(len(times), -1, *frames.shape[3:])

    def check_stored(self, times: IntArray) -> None:
        if not self.is_stored(times).all():
            raise IndexError(
                f"times {times.min()} to {times.max()} are asked for, but the memory holds"
                f" {self.oldest} to {self.now - 1}"
            )

    def is_stored(self, times: IntArray) -> BoolArray:
        return (times >= self.oldest) & (times < self.now)

    def entries(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Copies of all that is known of the times `first` .. `last` - 1, which never changes."""
        times = np.arange(first, last)
        self.check_stored(times[[0, -1]] if len(times) else times)
        slot = times % self.slots
        return {"frame": self.frame[slot]} | {name: x[slot] for name, x in self.field.items()}

    def write(self, first: int, entries: dict[str, NDArray[Any]]) -> None:
        """Put saved entries back to the times from `first` on."""
        times = np.arange(first, first + len(entries["frame"]))
        slot = times % self.slots
        self.frame[slot] = entries["frame"]
        for name, values in self.field.items():
            values[slot] = entries[name]
        acted = ~entries["closing"]
        self.time_of[entries["transition"][acted] % self.slots] = times[acted]

    def position(self) -> dict[str, Any]:
        """Where the writing stands: with the entries, the whole state."""
        return {
            "now": self.now,
            "n_transitions": self.n_transitions,
            "oldest": self.oldest,
            "running": self.running,
            "first": self.first,
            "frame": self.frame[self.now % self.slots if self.running else -1].copy(),
        }

    def go_to(self, position: dict[str, Any]) -> None:
        """Go on where `position` was taken; the entries are written separately."""
        self.now, self.n_transitions = position["now"], position["n_transitions"]
        self.oldest, self.running = position["oldest"], position["running"]
        if self.running:
            self._open(position["frame"], position["first"])

    def _open(self, frame: Frames, start: int) -> None:
        slot = self.now % self.slots
        self.frame[slot] = frame
        self.field["start"][slot] = start
        self.field["transition"][slot] = self.n_transitions
        # After a closing entry, the first entry of the next episode takes this place.
        self.time_of[self.n_transitions % self.slots] = self.now

    def _close(self, **values: Any) -> None:
        slot = self.now % self.slots
        for name, value in values.items():
            self.field[name][slot] = value
        self.now += 1

    def _check_frame(self, frame: Frames) -> None:
        shape, dtype = self.frame.shape[1:], self.frame.dtype
        if frame.shape != shape or frame.dtype != dtype:
            raise ValueError(
                f"a frame must be {shape} {dtype}, got {frame.shape} {frame.dtype}; pass the"
                " newest frame only, not the stack"
            )


def stacks(frames: Frames, stack: int) -> Frames:
    """Every `stack` consecutive frames as one observation: a view that copies nothing.

    frames   (B, T + stack - 1, C, ...)  in order of time, contiguous
    returns  (B, T, stack * C, ...)      read-only, oldest frame first
    """
    windows = np.lib.stride_tricks.sliding_window_view(frames, stack, axis=1)
    split = np.moveaxis(windows, -1, 2)  # (B, T, stack, C, ...)
    return split.reshape(*split.shape[:2], -1, *split.shape[4:])
