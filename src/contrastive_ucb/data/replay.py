"""Prioritized n-step replay (Schaul et al. 2016), with exact state and incremental files.

1. `Replay` stores transitions in a `History` (every frame once), their priorities in a `SumTree`,
   and further arrays ("extras") with each transition.
2. `Replay.sample` returns a `Batch`: observations, actions, n-step returns, bootstrap observations
   and importance weights. The rules for n-step returns are in `nstep.py`.
3. `ReplayFiles` saves a memory to disk and writes only what is new since the last save.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import numpy as safetensors

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checkpoint import CheckpointError
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.files import checksum, write_atomically
from contrastive_ucb.data.history import Frames, History
from contrastive_ucb.data.nstep import Cut, first_end, jump_mask, n_step
from contrastive_ucb.data.sumtree import SumTree

Floats = NDArray[np.float32]
PRIORITY_FLOOR = 1e-6  # keeps a transition with loss 0 in the memory
NewPriority = Literal["largest", "one"]
Draws = Literal["stratified", "independent"]


@dataclass(frozen=True)
class Batch:
    """B sampled transitions. The next sample of this size overwrites `frames` and `bootstrap`.

    index      (B,)    time t of the transition
    frames     (B, K + stack, C, ...)  every `stack` consecutive ones are an observation,
               s_t .. s_{t+K}; undefined where masked
    actions    (B, max(K, 1))  a_t, a_{t+1}, ...; after the end those of the next episode
    mask       (B, K)  1 where s_{t+1} .. s_{t+K} is an observation to predict (`jump_mask`)
    steps      (B, n)  times of the n transitions of the return, for `Replay.extra`
    step_weights  (B, n)  discount**k where step k counts, else 0 (`NStep.weights`)
    returns    (B,)    n-step returns
    bootstrap  (B, stack * C, ...)  the observation that is bootstrapped from
    discounts  (B,)    factor of its value, 0 after a termination
    weights    (B,)    importance weights, the largest is 1
    """

    index: IntArray
    frames: Frames
    actions: IntArray
    mask: Floats
    steps: IntArray
    step_weights: Floats
    returns: Floats
    bootstrap: Frames
    discounts: Floats
    weights: Floats


class Replay:
    """The memory of the last `capacity` transitions.

    A transition can be sampled once everything that it needs is stored: the next n and K = `jumps`
    steps or the end of its episode, and the next `window` transitions. It can be sampled until a
    frame of its observation is overwritten.

    extras        name -> (shape, dtype) of arrays stored with each transition
    window        number of following transitions that must be stored for every sampled one
    new_priority  priority of transitions that were never sampled: the largest so far, or 1
    draws         stratified: one from each of B equal intervals of the priority mass, which reduces
                  the variance of a batch; independent: all from the whole mass
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
        # The published rule reads across ends: s_{t+n}, and the end flag of step K.
        self.across = max(window, n_step + 1, jumps + 1) if cut == "published" else window
        self.reach = max(n_step, jumps)
        least = stack + 2 * max(self.across, self.reach) + 2
        check_size(f"replay_capacity for n_step={n_step}, jumps={jumps}", capacity, least)
        self.history = History(capacity, frame_shape, frame_dtype, stack)
        self.tree = SumTree(self.history.slots)
        self.extras: dict[str, NDArray[Any]] = {
            name: np.zeros((self.history.slots, *shape), dtype)
            for name, (shape, dtype) in (extras or {}).items()
        }
        self.n_step, self.discount, self.jumps = n_step, discount, jumps
        self.priority_exponent, self.cut = priority_exponent, cut
        self.new_priority, self.draws = new_priority, draws
        self.largest = 1.0
        self.ready = 0  # all transitions before this time are, or were, available for sampling
        self._buffers: dict[tuple[str | int, ...], Frames] = {}

    def __len__(self) -> int:
        """Number of transitions that can be sampled."""
        return len(self.drawable())

    @property
    def has_some(self) -> bool:
        """Whether any transition can be sampled."""
        return self.tree.total > 0

    def drawable(self) -> IntArray:
        """The times of all transitions that can be sampled, oldest first."""
        times = np.arange(self.history.oldest, self.ready)
        return times[self.tree.get(times % self.history.slots) > 0]

    def begin(self, frame: Frames) -> None:
        """Start an episode with the first frame of the environment."""
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
        """Add the action taken in the current observation, and its outcome."""
        if extras.keys() != self.extras.keys():
            raise ValueError(f"extras must be {sorted(self.extras)}, got {sorted(extras)}")
        time, oldest = self.history.now, self.history.oldest
        self.history.add(action, reward, frame, terminated, truncated)
        for name, values in self.extras.items():
            values[time % self.history.slots] = extras[name]
            if not self.history.running:
                values[(time + 1) % self.history.slots] = 0
        # An observation that reaches back before the oldest entry stays complete if its episode
        # starts later, because zeros replace the earlier frames.
        history, lost = self.history, []
        if history.oldest > oldest:
            times = np.arange(oldest, history.oldest + history.stack - 1)
            is_lost = (times < history.oldest) | (history.at("start", times) < history.oldest)
            lost = times[is_lost].tolist()
        ready = self._newly_ready()
        new = self.largest if self.new_priority == "largest" else 1.0
        leaves = [0.0] * len(lost) + [new**self.priority_exponent] * len(ready)
        self.tree.set(np.array([*lost, *ready], np.int64) % self.history.slots, np.array(leaves))

    def observation(self) -> Frames:
        """The current observation (stack * C, ...), in which to act."""
        current: Frames = self.history.observations(np.array([self.history.now]))[0]
        return current

    def sample(self, uniforms: Array, importance_exponent: float) -> Batch:
        """Sample one transition by priority for each of the `uniforms` (B,) in [0, 1)."""
        if not self.has_some:
            raise ValueError(
                f"none of the {self.history.n_transitions} transitions can be sampled yet;"
                f" add at least {max(self.across, self.reach) + 1}"
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
        # Frames of s_t .. s_{t+K}; after the end of the episode its closing entry repeats.
        closing = first_end(terminated, truncated)[:, None] + 1
        times = index[:, None] + np.minimum(np.arange(1 - history.stack, jumps + 1), closing)
        start, frames = history.at("start", index)[:, None], self._buffer("frames", times.shape)
        last = index + target.reach
        if self.cut == "published":  # counts transitions, also across the end of the episode
            number = history.at("transition", index) + target.reach
            last = history.time_of.take(number % history.slots)
        bootstrap = self._buffer("bootstrap", (len(last), history.stack))
        return Batch(
            index=index,
            frames=history.frames(times, start, frames),
            actions=history.at("action", ahead[:, : max(jumps, 1)]),
            mask=mask.astype(np.float32),
            steps=ahead[:, :n],
            step_weights=target.weights.astype(np.float32),
            returns=target.returns.astype(np.float32),
            bootstrap=history.observations(last, bootstrap),
            discounts=target.discounts.astype(np.float32),
            weights=((leaf.min() / leaf) ** importance_exponent).astype(np.float32),
        )

    def update_priorities(self, index: IntArray, priority: Array) -> None:
        """Set the priorities (B,) of the transitions `index` (B,); overwritten ones are skipped."""
        slot = index % self.history.slots
        alive = self.history.is_stored(index) & (self.tree.get(slot) > 0)
        if not (np.isfinite(priority) & (priority >= 0)).all():
            raise ValueError(f"priorities must be finite and at least 0, got {priority}")
        raised = np.maximum(priority.astype(np.float64), PRIORITY_FLOOR)
        self.largest = max(self.largest, float(raised.max(initial=0.0)))
        self.tree.set(slot[alive], raised[alive] ** self.priority_exponent)

    def extra(self, name: str, index: IntArray) -> NDArray[Any]:
        """The extra `name` of the transitions `index` (...); returns (..., *shape)."""
        return self.extras[name].take(index % self.history.slots, axis=0)

    def set_extra(self, name: str, index: IntArray, value: NDArray[Any]) -> None:
        """Set the extra `name` to `value` (..., *shape); overwritten transitions are skipped."""
        stored = self.history.is_stored(index)
        self.extras[name][index[stored] % self.history.slots] = value[stored]

    def live_state(self) -> dict[str, Any]:
        """The state without the complete entries, which never change (see `ReplayFiles`)."""
        slot = np.arange(self.history.oldest, self.history.now) % self.history.slots
        return {
            "position": self.history.position(),
            "ready": self.ready,
            "largest": self.largest,
            "leaves": self.tree.get(slot),
            "extras": {name: values[slot] for name, values in self.extras.items()},
        }

    def load_live_state(self, state: Mapping[str, Any]) -> None:
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

    def _newly_ready(self) -> list[int]:
        """Times of the transitions that can be sampled from now on."""
        history, ready = self.history, []
        while (time := self.ready) < history.now:
            slot = time % history.slots
            number = history.field["transition"][slot]
            if time >= history.first and time + self.reach > history.now:
                break
            if number + self.across > history.n_transitions:
                break
            if not history.field["closing"][slot]:
                ready.append(time)
            self.ready += 1
        return ready

    def _buffer(self, use: str, shape: tuple[int, ...]) -> Frames:
        """Memory for (B, T) frames, reused by every sample of this shape."""
        key: tuple[str | int, ...] = (use, *shape)
        if key not in self._buffers:
            frame = self.history.frame
            self._buffers[key] = np.empty((*shape, *frame.shape[1:]), frame.dtype)
        return self._buffers[key]


PIECE = 512  # entries per file; only the last file (at most 3.6 MB of Atari frames) is rewritten


class ReplayFiles:
    """The files of one replay memory, for one writing process at a time.

    Complete entries never change, so each is written once, in compressed pieces named after their
    checksums. The state that `save` returns belongs into a checkpoint and refers to the pieces.
    """

    def __init__(self, folder: Path, piece: int = PIECE):
        check_size("piece", piece)
        self.folder, self.piece = folder, piece
        self.pieces: list[dict[str, Any]] = []  # of the last save or load, oldest first

    def save(self, replay: Replay | None) -> dict[str, Any]:
        """Write the new entries and return the state for the checkpoint, which `load` takes."""
        if replay is None:  # the agent has no replay memory
            return {"pieces": []}
        oldest, now = replay.history.oldest, replay.history.now
        pieces = [piece for piece in self.pieces if piece["last"] > oldest]
        if pieces and pieces[-1]["last"] - pieces[-1]["first"] < self.piece:
            start = max(oldest, pieces.pop()["first"])
        else:
            start = pieces[-1]["last"] if pieces else oldest
        self.folder.mkdir(parents=True, exist_ok=True)
        for first in range(start, now, self.piece):
            last = min(first + self.piece, now)
            content = zlib.compress(safetensors.save(replay.history.entries(first, last)), level=1)
            digest = checksum(content)
            path = self.folder / f"entries_{first}_{last}_{digest[:16]}.z"
            if not path.exists() or path.read_bytes() != content:  # damaged
                write_atomically(path, content)
            pieces.append({"name": path.name, "first": first, "last": last, "sha256": digest})
        self.pieces = pieces
        return replay.live_state() | {"pieces": [dict(piece) for piece in pieces]}

    def load(self, replay: Replay | None, state: Mapping[str, Any]) -> None:
        """Restore `replay` to the saved state; raises CheckpointError for a damaged file."""
        if replay is None:
            return
        replay.load_live_state(state)
        for piece in state["pieces"]:
            entries = safetensors.load(zlib.decompress(self.read(piece)))
            skip = max(0, replay.history.oldest - piece["first"])
            stored = {name: values[skip:] for name, values in entries.items()}
            replay.history.write(piece["first"] + skip, stored)
        self.pieces = [dict(piece) for piece in state["pieces"]]

    def read(self, piece: Mapping[str, Any]) -> bytes:
        """The compressed content of a piece, verified."""
        path: Path = self.folder / piece["name"]
        remedy = "remove the checkpoint that needs it to continue from an older one"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error.strerror})", remedy) from error
        if checksum(content) != piece["sha256"]:
            problem = "was changed after it was saved (checksum differs)"
            raise CheckpointError(f"{path} {problem}", remedy)
        return content

    def prune(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Remove files to which none of the states refers, and temporary files.

        states  of all remaining checkpoints; call it after a checkpoint is complete
        """
        names = {piece["name"] for state in states for piece in state["pieces"]}
        names |= {piece["name"] for piece in self.pieces}
        for path in [*self.folder.glob("entries_*"), *self.folder.glob(".entries_*")]:
            if path.name not in names:
                path.unlink()
