"""A slow, obvious replay memory: a list of all entries, and loops."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.data.replay import Replay

FRAME = (2, 1, 2)
EXTRAS: dict[str, Any] = {"feature": ((3,), np.float32)}


@dataclass
class Entry:
    frame: np.ndarray
    episode: int
    action: int | None = None  # None in a closing entry and in the current one
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated


class Oracle:
    """All entries since the beginning; the capacity of `replay` decides what is still stored."""

    def __init__(self, replay: Replay):
        self.replay = replay
        self.past: list[Entry] = []
        self.running = False

    def begin(self, frame: np.ndarray) -> None:
        episode = self.past[-1].episode + 1 if self.past else 0
        self.past.append(Entry(frame, episode))
        self.running = True

    def add(
        self, action: int, reward: float, frame: np.ndarray, terminated: bool, truncated: bool
    ) -> None:
        entry = self.past[-1]
        entry.action, entry.reward = action, reward
        entry.terminated, entry.truncated = terminated, truncated
        self.past.append(Entry(frame, entry.episode))
        self.running = not (terminated or truncated)

    @property
    def kept_from(self) -> int:
        """The time of the oldest of the last `capacity` transitions, or of the last `slots` frames
        (one slot is reserved for the next frame)."""
        times = [time for time, entry in enumerate(self.past) if entry.action is not None]
        by_count = times[max(0, len(times) - self.replay.history.capacity)] if times else 0
        return max(by_count, len(self.past) + (not self.running) - self.replay.history.slots, 0)

    def observation(self, time: int) -> np.ndarray:
        frames = []
        for back in reversed(range(self.replay.history.stack)):
            same = time - back >= 0 and self.past[time - back].episode == self.past[time].episode
            frames.append(self.past[time - back].frame if same else np.zeros(FRAME, np.uint8))
        return np.concatenate(frames)

    def can_be_drawn(self, time: int) -> bool:
        entry, stack = self.past[time], self.replay.history.stack
        if entry.action is None:
            return False
        needed = [
            t
            for t in range(max(0, time - stack + 1), time + 1)
            if self.past[t].episode == entry.episode
        ]
        if min(needed) < self.kept_from:
            return False
        reach = max(self.replay.n_step, self.replay.jumps)
        ahead = self.past[time : time + reach + 1]
        over = any(e.ends for e in ahead)
        if not over and len(ahead) < reach + 1:
            return False
        return len(self.transitions_from(time)) >= self.replay.across

    def transitions_from(self, time: int) -> list[int]:
        return [t for t in range(time, len(self.past)) if self.past[t].action is not None]

    def expected(self, time: int) -> dict[str, Any]:
        """Every field of a batch for the transition at `time`, by the definition."""
        n, discount = self.replay.n_step, self.replay.discount
        total, factor, reach = 0.0, 1.0, 0
        weights = []
        while reach < n:
            entry = self.past[time + reach]
            total += discount**reach * entry.reward
            weights.append(discount**reach)
            reach += 1
            factor = 0.0 if entry.terminated else discount**reach
            if entry.ends:
                break
        steps = list(range(time, time + reach))
        mask, observations, actions = [], [self.observation(time)], [self.past[time].action]
        for k in range(1, self.replay.jumps + 1):
            before = self.past[time : time + k]
            inside = not any(e.ends for e in before[:-1]) and not before[-1].terminated
            mask.append(float(inside))
            observations.append(self.observation(time + k) if inside else None)
            alive = inside and not before[-1].truncated and k < self.replay.jumps
            actions.append(self.past[time + k].action if alive else None)
        return {
            "returns": total,
            "discounts": factor,
            "step_weights": weights + [0.0] * (n - reach),
            "steps": steps,
            "mask": mask,
            "observations": observations,
            "actions": actions[: max(self.replay.jumps, 1)],
            "bootstrap": self.observation(time + reach),
        }

    def published(self, time: int) -> dict[str, Any]:
        """The same as in the released code, whose memory has no closing entries."""
        n, jumps, discount = self.replay.n_step, self.replay.jumps, self.replay.discount
        times = self.transitions_from(time)
        steps = [self.past[t] for t in times]
        total, ended, weights = 0.0, False, []
        for k in range(n):
            weights.append(discount**k * (not ended))
            total += weights[k] * steps[k].reward
            ended = ended or steps[k].ends
        shown = times[: n + 1]
        for k in range(jumps + 1):
            if steps[k].ends:
                shown[k + 1 :] = [times[k]] * len(shown[k + 1 :])
                break
        mask = [float(not any(s.ends for s in steps[: k + 1])) for k in range(1, jumps + 1)]
        return {
            "returns": total,
            "discounts": 0.0 if steps[0].ends else discount**n,
            "step_weights": weights,
            "steps": times[:n],
            "mask": mask,
            "observations": [
                self.observation(times[k]) if k == 0 or mask[k - 1] else None
                for k in range(jumps + 1)
            ],
            "actions": [step.action for step in steps[: max(jumps, 1)]],
            "bootstrap": self.observation(shown[n]),
        }


def play(replay: Replay, oracle: Oracle, steps: int, rng: np.random.Generator, ends: float) -> None:
    """`steps` random steps; each ends the episode with probability `ends`."""
    for _ in range(steps):
        frame = rng.integers(1, 256, FRAME, dtype=np.uint8)
        if not oracle.running:
            replay.begin(frame)
            oracle.begin(frame)
            frame = rng.integers(1, 256, FRAME, dtype=np.uint8)
        over = rng.random() < ends
        kind = int(rng.integers(3))
        outcome = (
            int(rng.integers(5)),
            float(rng.normal()),
            frame,
            bool(over and kind != 1),
            bool(over and kind != 0),
        )
        extras = {name: np.full(3, len(oracle.past), np.float32) for name in replay.extras}
        replay.add(*outcome, **extras)
        oracle.add(*outcome)


def stacked(frames: np.ndarray, stack: int) -> np.ndarray:
    """Every `stack` consecutive frames as one observation, (B, T, stack * C, ...)."""
    steps = range(frames.shape[1] - stack + 1)
    return np.stack(
        [np.concatenate(list(np.moveaxis(frames[:, k : k + stack], 1, 0)), 1) for k in steps], 1
    )


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right
