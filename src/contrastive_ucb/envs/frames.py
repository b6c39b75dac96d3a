"""The environments of the deep agents: one frame and one reward per step.

Frames are not stacked here: the replay memory stores every frame once and stacks them.

`FrameEnv` saves and restores any environment by replaying its episode. The random numbers of
episode k come from the stream (seed, role, k), so k and the actions since its start determine the
state, whatever is hidden in the emulator or simulator. (Qbert, for example, does not continue
exactly from a cloned ALE state.) A lost life ends an episode for the learner only, so actions are
counted from the last full reset.

A checksum over every frame, reward and flag of the episode certifies the replay: loading raises an
error unless all of them are equal bit for bit. In the same way an episode continues after an
environment failed in the middle of a step (see `transaction`).
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.tabular import checked_action

Frame = NDArray[Any]  # (C, H, W) uint8 or (dim,) float32
Picture = NDArray[np.uint8]  # (height, width, 3)
SMALLEST_ATARI = 36  # the encoder for Atari needs frames of at least 36x36


def choose_encoder(shape: Sequence[int]) -> str:
    """The encoder for frames of this shape: "atari" and "minatar" for large and small images, "mlp"
    for others. Default settings depend on it as well."""
    if len(shape) != 3 or min(shape[1:]) < 3:
        return "mlp"
    return "atari" if min(shape[1:]) >= SMALLEST_ATARI else "minatar"


class Step(NamedTuple):
    """The outcome of one action.

    reward        for the learner; in Atari training the sign of raw_reward
    raw_reward    of the environment; scores are sums of it
    terminated    terminal state: do not bootstrap
    truncated     time limit: bootstrap, then reset
    episode_over  the next reset() starts a new episode; False if only a life was lost
    """

    frame: Frame
    reward: float
    raw_reward: float
    terminated: bool
    truncated: bool
    episode_over: bool


class FrameEnv(ABC):
    """An environment with discrete actions 0..n_actions - 1 and one frame per step.

    A subclass implements `_begin`, `_advance` and `render`, which must depend only on the given
    random numbers, the actions, and the arguments of the constructor.

    seed, role   determine the episodes; the role is "train" for the learner and "eval-i" for the
                 i-th evaluation environment
    name         canonical id
    frame_shape  (C, H, W) of uint8, or (dim,) of float32
    stack        frames per observation, oldest first
    value_range  smallest and largest return of the learner's rewards at discount .99, for the
                 support of C51; without a bonus
    frame        the newest frame
    episode      number of this episode from 0; -1 before the first reset()
    n_steps      actions in this episode, over all lives
    raw_return   score: sum of the raw rewards of this episode
    """

    name: str
    frame_shape: tuple[int, ...]
    stack: int = 1
    n_actions: int
    value_range: tuple[float, float]
    frame: Frame

    def __init__(self, *, seed: int, role: str = "train"):
        self.seed, self.role = seed, role
        self.episode, self.n_steps, self.raw_return = -1, 0, 0.0
        self._actions: list[int] = []
        self._running = False  # whether step() is allowed
        self._over = True  # whether reset() starts a new episode
        self._checksum = 0
        self._has_failed = False  # whether the environment is ahead of this state

    def reset(self) -> Frame:
        """Start an episode, or continue the game after a lost life; returns the first frame."""
        if self._over or self._running:
            self.episode, self.n_steps, self.raw_return = self.episode + 1, 0, 0.0
            self._actions, self._over, self._has_failed = [], False, False
            self.frame = self._begin(stream(self.seed, f"env/{self.role}/{self.episode}"))
            self._checksum = zlib.crc32(self.frame.data)
        self._running = True
        return self.frame

    def step(self, action: int) -> Step:
        """Take an action; after `terminated` or `truncated` call reset() first."""
        if not self._running:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")
        action = checked_action("action", action, self.n_actions)
        if self._has_failed:
            self.load_state_dict(self.state_dict())
        self._actions.append(action)
        self.n_steps += 1
        step = self._advance(action)
        self.frame, self._over = step.frame, step.episode_over
        self._running = not (step.terminated or step.truncated)
        self.raw_return += step.raw_reward
        self._checksum = zlib.crc32(step.frame.data, self._checksum)
        self._checksum = zlib.crc32(struct.pack("2d3?", *step[1:]), self._checksum)
        return step

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo all steps and resets within if one of them fails.

        The environment itself cannot go back, so the next step replays the episode.
        """
        before, n_actions = vars(self).copy(), len(self._actions)
        try:
            yield
        except BaseException:
            vars(self).update(before)
            del self._actions[n_actions:]
            self._has_failed = True
            raise

    def state_dict(self) -> dict[str, Any]:
        """The state of the episode: arrays and JSON values."""
        actions = np.array(self._actions, dtype=np.min_scalar_type(self.n_actions - 1))
        return {
            "env": self._identity(),
            "episode": self.episode,
            "actions": actions,
            "running": self._running,
            "checksum": self._checksum,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; raises an error if it cannot be reproduced."""
        if state["env"] != self._identity():
            raise UserError(
                f"the saved state belongs to {state['env']}, not to {self._identity()}; create the "
                "environment with the same arguments"
            )
        FrameEnv.__init__(self, seed=self.seed, role=self.role)
        actions = np.asarray(state["actions"]).tolist()
        if state["episode"] >= 0:
            self.episode = int(state["episode"]) - 1
            self.reset()
        for action in actions:
            self._running = True  # also after a lost life
            self.step(action)
        if self._checksum != state["checksum"]:
            FrameEnv.__init__(self, seed=self.seed, role=self.role)
            raise UserError(
                f"{self.name} is not reproducible: replaying its {len(actions)} actions gave a "
                "different episode; resume on the same machine and versions, or start a new run"
            )
        self._running = bool(state["running"])

    @abstractmethod
    def render(self) -> Picture:
        """An RGB image of the current state."""

    @abstractmethod
    def _begin(self, random: np.random.Generator) -> Frame:
        """Start an episode that depends only on `random`; returns its first frame."""

    @abstractmethod
    def _advance(self, action: int) -> Step:
        """Take step number `n_steps`. Frames must be C-contiguous and not be modified later."""

    def _identity(self) -> dict[str, Any]:
        """The arguments on which episodes depend, as JSON values."""
        return {"name": self.name, "seed": self.seed, "role": self.role}
