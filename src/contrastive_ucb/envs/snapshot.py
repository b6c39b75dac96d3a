"""Save and restore any environment by replaying its episode.

The random numbers of episode k come from the stream (seed, role, k), so k and the actions since its
start determine the state, whatever is hidden in the emulator or simulator. (Qbert, for example,
does not continue exactly from a cloned ALE state.) A lost life ends an episode for the learner
only, so actions are counted from the last full reset.

A checksum over every frame, reward and flag of the episode certifies the replay: loading raises an
error unless all of them are equal bit for bit.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.finite import checked_action
from contrastive_ucb.envs.frames import Frame, Picture, Step


class ReplayedEnv(ABC):
    """Base class of all FrameEnvs: counts episodes, records actions, replays them.

    A subclass implements `_begin` and `_advance`, which must depend only on the given random
    numbers, the actions, and the arguments of the constructor.

    seed, role  determine the episodes; the role is "train" for the learner and "eval-i" for the
                i-th evaluation environment
    """

    name: str
    frame_shape: tuple[int, ...]
    stack: int = 1
    n_actions: int
    value_range: tuple[float, float]

    def __init__(self, *, seed: int, role: str = "train"):
        self.seed, self.role = seed, role
        self._clear()

    def _clear(self) -> None:
        """Return to the state before the first episode."""
        self._episode = -1
        self._actions: list[int] = []
        self._running = False  # whether step() is allowed
        self._over = True  # whether reset() starts a new episode
        self._frame: Frame | None = None
        self._raw_return = 0.0
        self._checksum = 0

    @property
    def frame(self) -> Frame:
        if self._frame is None:
            raise gymnasium.error.ResetNeeded(f"{self.name} has no frame yet; call reset() first")
        return self._frame

    @property
    def episode(self) -> int:
        return self._episode

    @property
    def n_steps(self) -> int:
        return len(self._actions)

    @property
    def raw_return(self) -> float:
        return self._raw_return

    def reset(self) -> Frame:
        if self._over or self._running:  # otherwise a life was lost, and the game continues
            self._begin_episode(self._episode + 1)
        self._running = True
        return self.frame

    def step(self, action: int) -> Step:
        if not self._running:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")
        return self._take(checked_action("action", action, self.n_actions))

    def state_dict(self) -> dict[str, Any]:
        actions = np.array(self._actions, dtype=np.min_scalar_type(self.n_actions - 1))
        return {
            "env": self._identity(),
            "episode": self._episode,
            "actions": actions,
            "running": self._running,
            "checksum": self._checksum,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["env"] != self._identity():
            raise UserError(
                f"the saved state belongs to {state['env']}, not to {self._identity()}; create the "
                "environment with the same arguments"
            )
        self._clear()
        actions = np.asarray(state["actions"]).tolist()
        if state["episode"] >= 0:
            self._begin_episode(int(state["episode"]))
        for action in actions:
            self._take(checked_action("action", action, self.n_actions))
        if self._checksum != state["checksum"]:
            self._clear()
            raise UserError(
                f"{self.name} is not reproducible: replaying its {len(actions)} actions gave a "
                "different episode; resume on the same machine and versions, or start a new run"
            )
        self._running = bool(state["running"])

    @abstractmethod
    def render(self) -> Picture: ...

    @abstractmethod
    def _begin(self, random: np.random.Generator) -> Frame:
        """Start an episode that depends only on `random`; returns its first frame."""

    @abstractmethod
    def _advance(self, action: int) -> Step:
        """Take step number `n_steps`. Frames must be C-contiguous and not be modified later."""

    def _identity(self) -> dict[str, Any]:
        """The arguments on which episodes depend, as JSON values."""
        return {"name": self.name, "seed": self.seed, "role": self.role}

    def _begin_episode(self, number: int) -> None:
        self._episode, self._actions, self._over = number, [], False
        self._raw_return = 0.0
        self._frame = self._begin(stream(self.seed, f"env/{self.role}/{number}"))
        self._checksum = zlib.crc32(self._frame.data)

    def _take(self, action: int) -> Step:
        self._actions.append(action)
        step = self._advance(action)
        self._frame, self._over = step.frame, step.episode_over
        self._running = not (step.terminated or step.truncated)
        self._raw_return += step.raw_reward
        self._checksum = zlib.crc32(step.frame.data, self._checksum)
        self._checksum = zlib.crc32(struct.pack("2d3?", *step[1:]), self._checksum)
        return step
