"""What a draw from the replay memory gives: n-step batches, and plain windows of transitions."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import numpy as safetensors

from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.core.checkpoint import CheckpointError
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.data.history import Frames, History, stacks
from contrastive_ucb.data.nstep import Cut, check_rule, first_end, jump_mask, n_step
from contrastive_ucb.data.sumtree import SumTree

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


PIECE = 512  # entries a file: at most so many are written a second time, 3.6 MB of Atari frames


class ReplayFiles:
    """The files of one replay memory, which one process at a time writes."""

    def __init__(self, folder: Path, piece: int = PIECE):
        check_size("piece", piece)
        self.folder, self.piece = folder, piece
        self.pieces: list[dict[str, Any]] = []  # of the last save or load, in order of time

    def save(self, replay: Replay) -> dict[str, Any]:
        """Write what is new; the returned state, once in a checkpoint, is what `load` takes."""
        oldest, now = replay.history.oldest, replay.history.now
        pieces = [piece for piece in self.pieces if piece["last"] > oldest]
        if pieces and pieces[-1]["last"] - pieces[-1]["first"] < self.piece:
            start = max(oldest, pieces.pop()["first"])
        else:
            start = pieces[-1]["last"] if pieces else oldest
        self.folder.mkdir(parents=True, exist_ok=True)
        for first in range(start, now, self.piece):
            pieces.append(self._write(replay, first, min(first + self.piece, now)))
        self.pieces = pieces
        return replay.live_state() | {"pieces": [dict(piece) for piece in pieces]}

    def load(self, replay: Replay, state: Mapping[str, Any]) -> None:
        """Bring `replay` to the saved state; any damage to a file is a CheckpointError."""
        replay.load_live_state(state)
        oldest = replay.history.oldest
        for piece in state["pieces"]:
            entries = safetensors.load(zlib.decompress(self._read(piece)))
            gone = max(0, oldest - piece["first"])
            kept = {name: values[gone:] for name, values in entries.items()}
            replay.history.write(piece["first"] + gone, kept)
        self.pieces = [dict(piece) for piece in state["pieces"]]

    def prune(self, kept: Iterable[Mapping[str, Any]]) -> None:
        """Remove files that none of the `kept` states rests on, and drafts of a killed process.

        Call it when a checkpoint is finished, with the states of all that are still there.
        """
        names = {piece["name"] for state in kept for piece in state["pieces"]}
        names |= {piece["name"] for piece in self.pieces}
        for path in [*self.folder.glob("entries_*"), *self.folder.glob(".entries_*")]:
            if path.name not in names:
                path.unlink()

    def _write(self, replay: Replay, first: int, last: int) -> dict[str, Any]:
        content = zlib.compress(safetensors.save(replay.history.entries(first, last)), level=1)
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"entries_{first}_{last}_{digest[:16]}.z"
        if not path.exists():
            write_atomically(path, content)
        return {"name": path.name, "first": first, "last": last, "sha256": digest}

    def _read(self, piece: Mapping[str, Any]) -> bytes:
        path = self.folder / piece["name"]
        way_out = "remove the checkpoint that needs it to continue from an older one"
        try:
            content: bytes = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error.strerror}); {way_out}") from error
        if hashlib.sha256(content).hexdigest() != piece["sha256"]:
            raise CheckpointError(
                f"{path} does not have the content that was saved (checksum differs); {way_out}"
            )
        return content


PRIORITY_FLOOR = 1e-6  # a transition whose loss is 0 once must not be lost forever
NewPriority = Literal["largest", "one"]
Draws = Literal["stratified", "independent"]


class Replay:
    """The memory of the last `capacity` transitions.

    A transition can be drawn as soon as everything it needs is stored (n steps and K = `jumps`
    ahead or the end of its episode, and `window` transitions), until a frame of its observation is
    overwritten.

    extras        name -> (shape, dtype) of arrays stored with each transition
    window        the longest `window()` that must be available for every index drawn
    new_priority  of transitions that were never drawn: the largest one so far, or 1
    draws         stratified: one from each of B equal shares of the mass, which lowers the variance
                  of a batch; independent: all from the whole
    """

    def __init__(
        self,
        capacity: int,
        frame_shape: tuple[int, ...],
        frame_dtype: DTypeLike = np.uint8,
        *,
        stack: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
        jumps: int = 0,
        window: int = 0,
        priority_exponent: float = 0.0,
        cut: Cut = "episode",
        new_priority: NewPriority = "largest",
        draws: Draws = "stratified",
        extras: Mapping[str, tuple[tuple[int, ...], DTypeLike]] | None = None,
    ):
        check_rule(n_step, jumps, discount, cut)
        check_size("window", window, 0)
        if not 0 <= priority_exponent < np.inf:
            raise ValueError(f"priority_exponent must be at least 0, got {priority_exponent}")
        # The published rule looks across ends: at s_{t+n}, and at the end flag of step K.
        self.across = max(window, n_step + 1, jumps + 1) if cut == "published" else window
        self.reach = max(n_step, jumps)
        least = stack + 2 * max(self.across, self.reach) + 2
        check_size("replay_capacity, for returns and windows as long as these,", capacity, least)
        self.history = History(capacity, frame_shape, frame_dtype, stack)
        self.tree = SumTree(self.history.slots)
        self.extras: dict[str, NDArray[Any]] = {
            name: np.zeros((self.history.slots, *shape), dtype)
            for name, (shape, dtype) in (extras or {}).items()
        }
        self.n_step, self.discount, self.jumps, self.window_limit = n_step, discount, jumps, window
        self.priority_exponent, self.cut = priority_exponent, cut
        self.new_priority, self.draws = new_priority, draws
        self.largest = 1.0
        self.ready = 0  # every transition before this time can be drawn, or could once
        self._buffers: dict[tuple[str | int, ...], Frames] = {}

    def __len__(self) -> int:
        """How many transitions can be drawn."""
        return len(self.drawable())

    @property
    def has_some(self) -> bool:
        """Whether there is a transition to draw."""
        return self.tree.total > 0

    def drawable(self) -> IntArray:
        """The times of all transitions that can be drawn, oldest first."""
        times = np.arange(self.history.oldest, self.ready)
        return times[self.tree.get(times % self.history.slots) > 0]

    def begin(self, frame: Frames) -> None:
        """Start an episode with the first frame that the environment shows."""
        self.history.begin(frame)

    def add(
        self,
        action: int,
        reward: float,
        frame: Frames,
        terminated: bool,
        truncated: bool,
        **extras: NDArray[Any],
    ) -> None:
        """The action taken in the current observation and what came back, `frame` included."""
        if extras.keys() != self.extras.keys():
            raise ValueError(f"extras must be {sorted(self.extras)}, got {sorted(extras)}")
        time, oldest = self.history.now, self.history.oldest
        self.history.add(action, reward, frame, terminated, truncated)
        for name, values in self.extras.items():
            values[time % self.history.slots] = extras[name]
            if not self.history.running:
                values[(time + 1) % self.history.slots] = 0
        lost, ready = self._newly_lost(oldest), self._newly_ready()
        new = self.largest if self.new_priority == "largest" else 1.0
        leaves = [0.0] * len(lost) + [new**self.priority_exponent] * len(ready)
        self.tree.set(np.array([*lost, *ready], np.int64) % self.history.slots, np.array(leaves))

    def observation(self) -> Frames:
        """The current observation (stack * C, ...), the one to act on."""
        if not self.history.running:
            raise ValueError("no episode is running; call begin(frame) with its first frame")
        current: Frames = self.history.observations(np.array([self.history.now]))[0]
        return current

    def observations(self, index: IntArray) -> Frames:
        """The observations (B, stack * C, ...) at the times `index` (B,)."""
        self.history.check_stored(index)
        return self.history.observations(index)

    def actions(self, index: IntArray) -> IntArray:
        self.history.check_stored(index)
        return self.history.at("action", index)

    def sample(self, uniforms: Array, importance_exponent: float) -> Batch:
        """Draw one window for each of the `uniforms` (B,) in [0, 1), by priority."""
        if not self.has_some:
            raise ValueError(
                f"none of the {self.history.n_transitions} transitions so far can be drawn yet;"
                f" add {max(self.across, self.reach) + 1} of them"
            )
        history, n, jumps = self.history, self.n_step, self.jumps
        slot = self.tree.sample(uniforms, stratified=self.draws == "stratified")
        index = history.now - (history.now - slot) % history.slots
        leaf = self.tree.get(slot)
        ahead = history.following(index, max(n, jumps + 1))
        terminated, truncated = history.at("terminated", ahead), history.at("truncated", ahead)
        rewards = history.at("reward", ahead[:, :n])
        target = n_step(rewards, terminated, truncated, self.discount, self.cut, jumps)
        mask = jump_mask(terminated, truncated, jumps, self.cut)
        return Batch(
            index=index,
            frames=self._frames(index, first_end(terminated, truncated) + 1),
            stack=history.stack,
            actions=history.at("action", ahead[:, : max(jumps, 1)]),
            mask=mask.astype(np.float32),
            steps=ahead[:, :n],
            step_weights=target.weights.astype(np.float32),
            returns=target.returns.astype(np.float32),
            bootstrap=self._bootstrap(index, target.reach),
            discounts=target.discounts.astype(np.float32),
            weights=((leaf.min() / leaf) ** importance_exponent).astype(np.float32),
        )

    def window(self, index: IntArray, length: int) -> Window:
        """The `length` transitions from each of `index` (B,) on, whatever episodes they are of."""
        shape = len(index), length + self.history.stack - 1
        return read_window(self.history, index, length, self.jumps, self._buffer("window", shape))

    def update_priorities(self, index: IntArray, priority: Array) -> None:
        """Priorities (B,) of the transitions `index` (B,); those that are gone are left out."""
        slot = index % self.history.slots
        alive = self.history.is_stored(index) & (self.tree.get(slot) > 0)
        if not (np.isfinite(priority) & (priority >= 0)).all():
            raise ValueError(f"priorities must be finite and at least 0, got {priority}")
        raised = np.maximum(priority.astype(np.float64), PRIORITY_FLOOR)
        self.largest = max(self.largest, float(raised.max(initial=0.0)))
        self.tree.set(slot[alive], raised[alive] ** self.priority_exponent)

    def extra(self, name: str, index: IntArray) -> NDArray[Any]:
        """What is kept under `name` beside the transitions `index` (...), as (..., *shape)."""
        self.history.check_stored(index)
        return self.extras[name].take(index % self.history.slots, axis=0)

    def set_extra(self, name: str, index: IntArray, value: NDArray[Any]) -> None:
        """Replace it with `value` (..., *shape); transitions that are gone are left out."""
        stored = self.history.is_stored(index)
        self.extras[name][index[stored] % self.history.slots] = value[stored]

    def live_state(self) -> dict[str, Any]:
        """All of the state but the whole entries, which never change (see `replay_files.py`)."""
        slot = np.arange(self.history.oldest, self.history.now) % self.history.slots
        return {
            "settings": self._settings(),
            "position": self.history.position(),
            "ready": self.ready,
            "largest": self.largest,
            "leaves": self.tree.get(slot),
            "extras": {name: values[slot] for name, values in self.extras.items()},
        }

    def load_live_state(self, state: Mapping[str, Any]) -> None:
        if state["settings"] != (own := self._settings()):
            saved = state["settings"]
            odd = [name for name in own if saved.get(name) != own[name]]
            raise ValueError(
                f"the saved replay has {odd[0]}={saved.get(odd[0])!r}, this one {own[odd[0]]!r};"
                " make it with the settings it was saved with"
            )
        self.history.go_to(state["position"])
        self.ready, self.largest = state["ready"], state["largest"]
        slot = np.arange(self.history.oldest, self.history.now) % self.history.slots
        self.tree = SumTree(self.history.slots)
        self.tree.set(slot, state["leaves"])
        for name, values in self.extras.items():
            values[slot] = state["extras"][name]

    def state_dict(self) -> dict[str, Any]:
        entries = self.history.entries(self.history.oldest, self.history.now)
        return self.live_state() | {"entries": entries}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_live_state(state)
        self.history.write(self.history.oldest, state["entries"])

    def _newly_lost(self, oldest: int) -> list[int]:
        """Times whose entry, or a frame of whose observation, left since `oldest` was the oldest.

        Of the observations that reach back to before the oldest entry, those whose episode starts
        later have blanks there and stay.
        """
        history = self.history
        if history.oldest == oldest:
            return []
        times = np.arange(oldest, history.oldest + history.stack - 1)
        lost = (times < history.oldest) | (history.at("start", times) < history.oldest)
        found: list[int] = times[lost].tolist()
        return found

    def _newly_ready(self) -> list[int]:
        """Transitions from which all that a draw needs is stored by now."""
        history, found = self.history, []
        while (time := self.ready) < history.now:
            slot = time % history.slots
            number = history.field["transition"][slot]
            if time >= history.first and time + self.reach > history.now:
                break
            if number + self.across > history.n_transitions:
                break
            if not history.field["closing"][slot]:
                found.append(time)
            self.ready += 1
        return found

    def _frames(self, index: IntArray, closing: IntArray) -> Frames:
        """Frames for s_t .. s_{t+K}; after the closing entry at t + `closing` that one repeats."""
        steps = np.arange(1 - self.history.stack, self.jumps + 1)
        times = index[:, None] + np.minimum(steps, closing[:, None])
        first = self.history.at("start", index)[:, None]
        return self.history.frames(times, first, self._buffer("frames", times.shape))

    def _bootstrap(self, index: IntArray, reach: IntArray) -> Frames:
        """The observation `reach` transitions after t; the definition stays in the episode."""
        history = self.history
        times = index + reach
        if self.cut == "published":
            number = history.at("transition", index) + reach
            times = history.time_of.take(number % history.slots)
        return history.observations(times, self._buffer("bootstrap", (len(times), history.stack)))

    def _buffer(self, use: str, shape: tuple[int, ...]) -> Frames:
        """Memory for (B, T) frames, the same one for every draw of this shape."""
        key: tuple[str | int, ...] = (use, *shape)
        if key not in self._buffers:
            frame = self.history.frame
            self._buffers[key] = np.empty((*shape, *frame.shape[1:]), frame.dtype)
        return self._buffers[key]

    def _settings(self) -> dict[str, Any]:
        frame = self.history.frame
        return {
            "capacity": self.history.capacity,
            "frame_shape": list(frame.shape[1:]),
            "frame_dtype": frame.dtype.str,
            "stack": self.history.stack,
            "n_step": self.n_step,
            "discount": self.discount,
            "jumps": self.jumps,
            "window": self.window_limit,
            "priority_exponent": self.priority_exponent,
            "cut": self.cut,
            "new_priority": self.new_priority,
            "draws": self.draws,
            "extras": {n: [list(x.shape[1:]), x.dtype.str] for n, x in self.extras.items()},
        }
