"""Save and restore any environment by replaying its episode.

Episode k draws its random numbers from a stream of (seed, role, k) and nothing else, so k and the
actions taken since are all there is to know, whatever hides inside the emulator or the simulator.
(Qbert, for one, does not continue exactly from the state that ALE clones.) A lost life ends an
episode for the learner only, so the actions count from the last true reset.

The certificate is a checksum over every frame, reward and flag of the episode: if a replay does not
repeat all of them bit for bit, loading stops.
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
    """The part that all FrameEnvs share: count episodes, note actions, replay them.

    A subclass begins an episode with `_begin` and takes a step with `_advance`; both must depend on
    nothing but the random numbers they are given, the actions, and the arguments of the class.

    seed, role  decide on the episodes: the learner's are of the role "train", those of the i-th
                evaluation environment of the role "eval-i"
    """

    name: str
    frame_shape: tuple[int, ...]
    stack: int = 1
    n_actions: int
    value_range: tuple[float, float]

    def __init__(self, *, seed: int, role: str = "train"):
        self.seed, self.role = seed, role
        self._forget()

    def _forget(self) -> None:
        """Go back to before the first episode."""
        self._episode = -1
        self._actions: list[int] = []
        self._running = False  # the learner may step
        self._over = True  # the next reset begins an episode
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
        if self._over or self._running:  # else a life was lost, and the game goes on
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
            raise UserError(f"this is a state of {state['env']}, not of {self._identity()}")
        self._forget()
        actions = np.asarray(state["actions"]).tolist()
        if state["episode"] >= 0:
            self._begin_episode(int(state["episode"]))
        for action in actions:
            self._take(checked_action("action", action, self.n_actions))
        if self._checksum != state["checksum"]:
            self._forget()
            raise UserError(
                f"{self.name} does not repeat: the same {len(actions)} actions led elsewhere than "
                "when they were saved; go on where that was, or train it anew without resuming"
            )
        self._running = bool(state["running"])

    @abstractmethod
    def render(self) -> Picture: ...

    @abstractmethod
    def _begin(self, random: np.random.Generator) -> Frame:
        """Start an episode that depends on `random` only; its first frame."""

    @abstractmethod
    def _advance(self, action: int) -> Step:
        """Take the step number `n_steps`; frames are C-contiguous and never written to again."""

    def _identity(self) -> dict[str, Any]:
        """What the episodes depend on besides their number and the actions; JSON values."""
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
